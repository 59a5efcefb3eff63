"""TLS of a client: the authorities that it trusts, and its own certificate.

Both are files in PEM. Without a file of authorities, those of the system are trusted; with one,
only those. The files are read once, when the client is created.
"""

import os
import ssl
from collections.abc import Sequence
from pathlib import Path

from rota.client.errors import InvalidTls

CA_VARIABLE = "ROTA_CA"
CERT_VARIABLE = "ROTA_CERT"
KEY_VARIABLE = "ROTA_KEY"

PathText = str | os.PathLike[str]


class Trust:
    """The certificates of a client.

    Args:
        urls: The endpoints of the client; without ``https`` among them no file is read.
        ca: The authorities of nodes; None for those of ``$ROTA_CA``, or else of the system.
        cert: The certificate of the client; None for the one of ``$ROTA_CERT``, if any.
        key: The key of *cert*; None for the one of ``$ROTA_KEY``, or one in the file of *cert*.

    Attributes:
        context: The context of TLS; None for that of the HTTP library, with the authorities of the
            system.

    Raises:
        InvalidTls: A file cannot be used.
    """

    def __init__(
        self,
        urls: Sequence[str],
        ca: PathText | None = None,
        cert: PathText | None = None,
        key: PathText | None = None,
    ) -> None:
        self._ca = os.fspath(ca) if ca else os.environ.get(CA_VARIABLE, "")
        self._cert = os.fspath(cert) if cert else os.environ.get(CERT_VARIABLE, "")
        # The key of the variable belongs to the certificate of the variable.
        self._key = os.fspath(key) if key else "" if cert else os.environ.get(KEY_VARIABLE, "")
        self.context: ssl.SSLContext | None = None
        if self._key and not self._cert:
            raise InvalidTls(f"the key {self._key} is given without a certificate; give both")
        is_needed = bool(self._ca or self._cert)
        if is_needed and any(url.startswith("https:") for url in urls):
            self.context = self._made()

    @property
    def described(self) -> str:
        """The authorities that are trusted, for error messages."""
        return self._ca or "the authorities of this system"

    @property
    def certificate(self) -> str:
        """The file of the client's certificate; empty for none."""
        return self._cert

    def _made(self) -> ssl.SSLContext:
        _check_readable(self._ca, self._cert, self._key)
        try:
            context = ssl.create_default_context(cafile=self._ca or None)
        except (ssl.SSLError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise InvalidTls(f"{self._ca} is no certificate in PEM: {reason}") from error
        if self._cert:
            try:
                # Without a password, OpenSSL would ask for one on the terminal.
                context.load_cert_chain(self._cert, self._key or None, password="")
            except (ssl.SSLError, ValueError) as error:
                reason = getattr(error, "reason", None) or error
                keyed = f"the key in {self._key}" if self._key else "no other file with its key"
                raise InvalidTls(
                    f"the certificate in {self._cert} cannot be used with {keyed}: {reason}; both "
                    "have to be in PEM, and the key without a password"
                ) from error
        return context


def _check_readable(*files: str) -> None:
    for file in filter(None, files):
        try:
            with Path(file).open("rb"):
                pass
        except OSError as error:
            raise InvalidTls(f"{file} cannot be read: {error.strerror}") from error


def why_not_trusted(error: Exception, trust: Trust) -> str:
    """Return why the certificate of a node is not accepted, and the remedy."""
    reason, code = str(error), 0
    if isinstance(error, ssl.SSLCertVerificationError):
        reason, code = error.verify_message.rstrip("."), error.verify_code
    match code:
        case 9 | 10:
            return f"its certificate is not valid now: {reason}; renew it, or correct the clock"
        case 62 | 64:
            return (
                f"its certificate is for another name: {reason}; use a name of the certificate in "
                "the URL, or issue one for this name: rota certs node NODE --host HOST"
            )
        case _:
            return (
                f"its certificate is not trusted: {reason} (trusted: {trust.described}); if it is "
                "the right node, give the file of its authority with --ca, ca=, $ROTA_CA or "
                "`rota config set ca FILE`"
            )
