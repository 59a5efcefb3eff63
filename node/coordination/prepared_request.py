"""HTTP request to the coordinator that another program can send."""

from collections.abc import Mapping
from typing import NamedTuple


class CertificatePaths(NamedTuple):
    """Absolute paths of PEM files for a connection with TLS; empty for a missing file.

    Attributes:
        authority: The authority that signed the server's certificate.
        certificate: The client's certificate.
        key: The key of *certificate*.
    """

    authority: str = ""
    certificate: str = ""
    key: str = ""


class PreparedRequest(NamedTuple):
    """A complete HTTP POST request.

    Attributes:
        urls: Alternative URLs in order; an answer from one of them is sufficient.
        body: The body.
        headers: The headers, with the credentials.
        certificates: The certificates for URLs with https.
    """

    urls: tuple[str, ...]
    body: bytes
    headers: Mapping[str, str]
    certificates: CertificatePaths = CertificatePaths()
