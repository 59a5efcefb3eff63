"""Certificates and keys of this node, in files that may be replaced while the node runs.

A certificate and its key are checked together in a context of their own before the contexts in use
get them, since a context whose loading fails half-way would be left without a key. They are loaded
from memory, so that what is checked is what is used, whatever is written to the files meanwhile.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # For speed, not to avoid a cycle.
    from cryptography.x509 import Certificate

log = logging.getLogger(__name__)

LOOK_S = 10.0
"""The period of the looks at the files. A new certificate is thus in use within ten seconds."""
BYTES_MAX = 1 << 20
"""The most bytes of a file; a bundle with all authorities of a system has 250 kB."""


class TlsFiles(NamedTuple):
    """The PEM files of a node for connections with TLS.

    Attributes:
        certificate: The certificate, with those between it and its authority.
        key: The key of *certificate*.
        authority: The certificates of the authorities that sign those of other ends; None if no
            other end has a certificate.
    """

    certificate: Path
    key: Path
    authority: Path | None


class Pem(NamedTuple):
    """The contents of `TlsFiles`."""

    certificate: bytes
    key: bytes
    authority: bytes


class TlsFilesInvalid(Exception):
    """The files cannot be used; ``str`` states the file and the reason."""


class LiveTls:
    """Contexts of TLS that follow the files of a certificate.

    Args:
        use: The use of the certificate, for the log.
        files: The files.
        contexts: The contexts.

    Attributes:
        expires_at: The end of the certificate in use.

    Raises:
        TlsFilesInvalid: The files cannot be used.
    """

    def __init__(self, use: str, files: TlsFiles, contexts: Sequence[ssl.SSLContext]) -> None:
        self._use = use
        self._files = files
        self._contexts = contexts
        self._used = read_pem(files)
        self.expires_at = expiry_of(self._used.certificate, files.certificate)
        self._install(self._used)

    async def run(self) -> None:
        """Load files again when they have changed, until cancelled."""
        refused = ""
        while True:
            await asyncio.sleep(LOOK_S)
            reason = await self._look()
            if reason not in ("", refused):  # Once for each reason, and not at every look.
                facts = {"use": self._use, "reason": reason, "until": self.expires_at.isoformat()}
                log.error("certificate not replaced", extra=facts)
            refused = reason

    async def _look(self) -> str:
        """Use the files if they have changed; return why they cannot be used, or nothing."""
        try:
            found = await asyncio.to_thread(read_pem, self._files)
            if found != self._used:
                self.replace(found)
        except TlsFilesInvalid as error:
            return str(error)
        return ""

    def replace(self, pem: Pem) -> None:
        """Use other contents of the files from the next handshake on.

        Raises:
            TlsFilesInvalid: They cannot be used; those in use stay in use.
        """
        expires_at = expiry_of(pem.certificate, self._files.certificate)
        self._install(pem)
        self._used, self.expires_at = pem, expires_at
        log.info("certificate replaced", extra={"use": self._use, "until": expires_at.isoformat()})

    def _install(self, pem: Pem) -> None:
        trial = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        for context in (trial, *self._contexts):
            _trust(context, pem.authority, self._files)
            _present(context, pem, self._files)


def server_context() -> ssl.SSLContext:
    """Return a context of a server for TLS 1.3 whose clients need certificates; without files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    _forbid_tickets(context)
    return context


def api_context(*, may_have_certificates: bool) -> ssl.SSLContext:
    """Return a context of a server for TLS 1.2 and later; without files.

    Args:
        may_have_certificates: Whether clients may present certificates.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if may_have_certificates:
        context.verify_mode = ssl.CERT_OPTIONAL
        _forbid_tickets(context)
    return context


def _forbid_tickets(context: ssl.SSLContext) -> None:
    # A resumed session would not be checked against the certificates of now. With TLS 1.2, OpenSSL
    # also resumes by ids, which `ssl` cannot forbid: the API checks the end with each request.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET


def client_context() -> ssl.SSLContext:
    """Return a context of a client for TLS 1.3 that checks the server's name; without files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def read_pem(files: TlsFiles) -> Pem:
    """Return the contents of the files.

    Raises:
        TlsFilesInvalid: A file cannot be read.
    """
    authority = b"" if files.authority is None else _read(files.authority)
    return Pem(_read(files.certificate), _read(files.key), authority)


def expiry_of(pem: bytes, path: Path) -> datetime:
    """Return the end of the first certificate in *pem*, the content of *path*.

    Raises:
        TlsFilesInvalid: There is no certificate.
    """
    return _certificate(pem, path).not_valid_after_utc


def uris_in(pem: bytes, path: Path) -> list[str]:
    """Return the URIs in the names of the first certificate in *pem*, the content of *path*.

    Raises:
        TlsFilesInvalid: There is no certificate, or its names are malformed.
    """
    from cryptography import x509

    certificate = _certificate(pem, path)
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise TlsFilesInvalid(f"{path} has malformed names: {error}") from error
    return names.get_values_for_type(x509.UniformResourceIdentifier)


def check_files(files: TlsFiles) -> None:
    """Check that the files can be used.

    Raises:
        TlsFilesInvalid: They cannot be used.
    """
    LiveTls("trial", files, ())


def check_authority(path: Path) -> None:
    """Check that a file has certificates of authorities.

    Raises:
        TlsFilesInvalid: It has none, or cannot be read.
    """
    _trust_those_in(client_context(), _read(path), path)


def problem_with(files: TlsFiles, uri: str) -> str:
    """Return why the files cannot be used as those of a node; empty if they can.

    Args:
        files: The files.
        uri: The URI that the certificate must have.

    Raises:
        TlsFilesInvalid: The files cannot be used at all.
    """
    check_files(files)
    pem = read_pem(files)
    uris = uris_in(pem.certificate, files.certificate)
    if uri in uris:
        return ""
    named = ", ".join(uris) or "no node"
    return (
        f"{files.certificate} names {named}, but this node is {uri}: make its certificate with "
        "`rota certs node`"
    )


def _certificate(pem: bytes, path: Path) -> "Certificate":
    # Imported late, because most nodes of tests and `rota dev` have no certificates.
    from cryptography.x509 import InvalidVersion, load_pem_x509_certificate

    try:
        return load_pem_x509_certificate(pem)
    except (ValueError, InvalidVersion) as error:
        raise TlsFilesInvalid(f"{path} is no certificate in PEM: {error}") from error


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(BYTES_MAX)
    except OSError as error:
        raise TlsFilesInvalid(f"{path} cannot be read: {error.strerror}") from error


def _trust(context: ssl.SSLContext, authority: bytes, files: TlsFiles) -> None:
    if files.authority is not None:
        _trust_those_in(context, authority, files.authority)


def _trust_those_in(context: ssl.SSLContext, pem: bytes, path: Path) -> None:
    try:
        context.load_verify_locations(cadata=pem.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise TlsFilesInvalid(f"{path} is no certificate in PEM: {error}") from error


def _present(context: ssl.SSLContext, pem: Pem, files: TlsFiles) -> None:
    """Load a certificate and its key from memory; ssl itself only reads files."""
    descriptor = os.memfd_create("rota-certificate", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(pem.certificate + b"\n" + pem.key)
        # Without a password, OpenSSL would ask for one on the terminal.
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password="")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError.
        reason = getattr(error, "reason", None) or error
        raise TlsFilesInvalid(
            f"{files.certificate} and {files.key} cannot be used together: {reason}"
        ) from error
    finally:
        os.close(descriptor)
