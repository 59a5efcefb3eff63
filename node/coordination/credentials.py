"""Credentials for etcd, where they are read, and what a refusal of them means.

etcd's JSON gateway calls etcd with etcd's own certificate, so user and password name the caller,
and a certificate of the node's only opens the connection. The password is read from its file for
every token, so a new one needs no restart; the certificates are read once.
"""

import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rota.node.coordination.coordinator_errors import CoordinatorRefused
from rota.node.coordination.prepared_request import CertificatePaths

PASSWORD_BYTES_MAX = 4096
PERMISSION_DENIED = 7
COMMON_NAME = "CommonName of client"
"""In the refusal, which is plain text, of a certificate beside a user's password."""
UNAUTHENTICATED = 16


class AccessDenied(CoordinatorRefused):
    """etcd does not accept the credentials; what was asked was certainly not done.

    Fatal for a node that starts. A node that runs tries again, for a password may be replaced at
    any time.
    """

    code = "access_denied"


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """What etcd gets to see.

    Attributes:
        user: Empty: without authentication.
        password_file: Its first line is the user's password.
        ca_file: Signer of etcd's certificates; None: those that the system trusts.
        certificate_file: Of this node, if etcd wants one; with *key_file*.
    """

    user: str = ""
    password_file: Path | None = None
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None

    def password(self) -> str:
        """Return the password as the file has it now.

        Raises:
            AccessDenied: The file cannot be read, or holds none.
        """
        if self.password_file is None:
            return ""
        try:
            with self.password_file.open("rb") as file:
                first, *_ = file.read(PASSWORD_BYTES_MAX).decode().splitlines() or [""]
        except (OSError, ValueError) as error:
            raise AccessDenied(
                f"etcd_password_file {self.password_file} cannot be read ({_cause(error)}); make "
                "it readable for the node's user alone"
            ) from error
        if not first:
            raise AccessDenied(f"etcd_password_file {self.password_file} has no password")
        return first

    def tls(self, endpoints: Iterable[str]) -> ssl.SSLContext | bool:
        """Return the context for those of *endpoints* with https; True if there are none.

        Never the default of aiohttp, which has no authority in a node (`rota.node.__main__`).

        Raises:
            AccessDenied: A file cannot be read, or holds something else.
        """
        is_used = any(each.lower().startswith("https:") for each in endpoints)
        if not (is_used or self.ca_file or self.certificate_file):
            return True
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise AccessDenied(_unreadable("etcd_ca", self.ca_file, error)) from error
        if self.certificate_file:
            try:
                context.load_cert_chain(self.certificate_file, self.key_file)
            except OSError as error:
                files = f"{self.certificate_file} with etcd_key {self.key_file}"
                raise AccessDenied(_unreadable("etcd_cert", files, error)) from error
        return context

    def files(self) -> CertificatePaths:
        """Return the paths of the certificates, for a connection of another program."""
        return CertificatePaths(
            *(
                str(file.absolute()) if file else ""
                for file in (self.ca_file, self.certificate_file, self.key_file)
            )
        )

    def why_refused(self, message: str, grpc_code: int) -> str | None:
        """Return cause and remedy of etcd's refusal; None if it is not about credentials."""
        for text, remedy in _REFUSALS.items():
            if text in message:
                return f"{message}; {remedy.format(self=self)}"
        return message if grpc_code in (PERMISSION_DENIED, UNAUTHENTICATED) else None

    def why_not_connected(self, error: BaseException) -> str | None:
        """Return cause and remedy if TLS is what *error* is about; None if it is not."""
        failure = _tls_failure(error)
        words = (failure.reason or "").replace("_", " ").lower() if failure else ""
        for text, remedy in _TLS_FAILURES.items():
            if text in words:
                detail = getattr(failure, "verify_message", "")
                return f"{words}{f' ({detail})' if detail else ''}; {remedy}"
        return None


NO_CREDENTIALS = Credentials()

_REFUSALS = {
    "invalid user ID or password": "set etcd_user ({self.user!r} now) and the content of "
    "etcd_password_file ({self.password_file}) to those of a user in etcd",
    "user name is empty": "etcd wants authentication: set etcd_user and etcd_password_file",
    "authentication is not enabled": "etcd does not authenticate: enable it there, or remove "
    "etcd_user and etcd_password_file",
    COMMON_NAME: "issue the certificate of etcd_cert without a common name (CN), since etcd_user "
    "and etcd_password_file name the user",
    "permission denied": "grant a role of etcd's user {self.user!r} readwrite on the prefix "
    "/rota/CLUSTER/, CLUSTER being the setting cluster",
}
"""What etcd answers, and what to do."""

_PAIR = "set etcd_cert and etcd_key to a pair that etcd's --trusted-ca-file signed"
_TLS_FAILURES = {
    "certificate verify failed": "set etcd_ca to the certificate of the authority that signed "
    "etcd's, whose names must include the host in the setting etcd",
    "certificate required": _PAIR,
    "bad certificate": _PAIR,
    "unknown ca": _PAIR,
    "certificate expired": "replace the files of etcd_cert and etcd_key",
    "wrong version number": "this endpoint does not speak TLS: write http:// in the setting etcd",
}
"""What a TLS connection fails with, in words of OpenSSL, and what to do. A missing certificate is
"bad" or "required", depending on etcd's version."""


def _tls_failure(error: BaseException) -> ssl.SSLError | None:
    """Return the first error of TLS among those that led to *error*."""
    found: ssl.SSLError | None = None
    at: BaseException | None = error
    while at is not None:
        found = at if isinstance(at, ssl.SSLError) else found
        at = at.__cause__ or at.__context__
    return found


def _unreadable(setting: str, files: object, error: OSError) -> str:
    return f"{setting} {files} cannot be used ({_cause(error)}); name a PEM file that fits"


def _cause(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error)
