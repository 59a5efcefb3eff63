"""Files of certificates and keys in one folder: ``ca.crt``, ``ca.key``, ``NAME.crt``, ``NAME.key``.

Keys are readable by their owner alone, from the first byte. A file is replaced as a whole, so a
node that looks at it while it is renewed finds the old or the new content.
"""

import os
from contextlib import suppress
from pathlib import Path

from rota.client.certificates.issuing import Authority, InvalidCertificate, Issued

AUTHORITY = "ca"


class CertificateExists(InvalidCertificate):
    """A file would be overwritten."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} exists, and is not overwritten")


def certificate_file(folder: Path, name: str) -> Path:
    """Return the file of the certificate of *name*."""
    return folder / f"{name}.crt"


def key_file(folder: Path, name: str) -> Path:
    """Return the file of the key of *name*."""
    return folder / f"{name}.key"


def write_new(folder: Path, name: str, issued: Issued) -> None:
    """Write a certificate and its key.

    Raises:
        CertificateExists: One of the files exists; nothing is written.
        InvalidCertificate: The folder cannot be written.
    """
    for path in (certificate_file(folder, name), key_file(folder, name)):
        if os.path.lexists(path):
            raise CertificateExists(path)
    _write(key_file(folder, name), issued.key, mode=0o600, is_new=True)
    _write(certificate_file(folder, name), issued.certificate, mode=0o644, is_new=True)


def replace(folder: Path, name: str, issued: Issued, *, has_new_key: bool) -> None:
    """Replace a certificate, and its key if it has a new one.

    Raises:
        InvalidCertificate: The folder cannot be written.
    """
    if has_new_key:
        _write(key_file(folder, name), issued.key, mode=0o600, is_new=False)
    _write(certificate_file(folder, name), issued.certificate, mode=0o644, is_new=False)


def read(path: Path) -> bytes:
    """Return the content of a file.

    Raises:
        InvalidCertificate: The file cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidCertificate(f"{path} cannot be read: {error.strerror}") from error


def read_authority(folder: Path) -> Authority:
    """Return the authority in a folder.

    Raises:
        InvalidCertificate: There is none, or its files cannot be used.
    """
    certificate, key = certificate_file(folder, AUTHORITY), key_file(folder, AUTHORITY)
    if not certificate.exists():
        raise InvalidCertificate(
            f"{folder} has no authority ({certificate.name}); make one with "
            f"`rota certs init --dir {folder}`"
        )
    return Authority.load(Issued(read(certificate), read(key)))


def _write(path: Path, content: bytes, *, mode: int, is_new: bool) -> None:
    beside = path if is_new else path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not is_new:
            with suppress(FileNotFoundError):
                beside.unlink()  # Left by a command that was interrupted.
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if not is_new:
            beside.replace(path)
    except FileExistsError as error:
        raise CertificateExists(path) from error
    except OSError as error:
        raise InvalidCertificate(f"{path} cannot be written: {error.strerror}") from error
