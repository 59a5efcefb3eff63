"""Certificates for tests, made by openssl."""

import shutil
import subprocess
from pathlib import Path

import pytest

needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None,
    reason="openssl is missing, so nothing about TLS is tested: apt-get install openssl",
)


class Authority:
    """A certificate authority in a folder of its own: ``ca.crt``, ``ca.key``.

    Args:
        folder: Where its files are; made here.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._openssl(
            "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -out ca.crt -keyout ca.key"
        )

    @property
    def certificate(self) -> Path:
        """Its own certificate."""
        return self.folder / "ca.crt"

    def issue(
        self, name: str, host: str = "IP:127.0.0.1", *, subject: str = ""
    ) -> tuple[Path, Path]:
        """Return a new certificate for *host* and its key, as ``NAME.crt`` and ``NAME.key``.

        Args:
            name: Of the files, and the common name, unless there is a subject.
            host: Its alternative name.
            subject: In the form of openssl.
        """
        (self.folder / "san").write_text(f"subjectAltName={host}\n")
        subject = subject or f"/CN={name}"
        self._openssl(
            f"req -newkey rsa:2048 -nodes -subj {subject} -out {name}.csr -keyout {name}.key"
        )
        self._openssl(
            f"x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 "
            f"-extfile san -out {name}.crt"
        )
        return self.folder / f"{name}.crt", self.folder / f"{name}.key"

    def public_key(self) -> Path:
        """Return the file of its public key."""
        self._openssl("rsa -in ca.key -pubout -out ca.pub")
        return self.folder / "ca.pub"

    def _openssl(self, arguments: str) -> None:
        subprocess.run(
            ["openssl", *arguments.split()], cwd=self.folder, check=True, capture_output=True
        )
