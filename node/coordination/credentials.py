"""Credentials for etcd, and the explanation of refusals of credentials.

etcd's JSON gateway calls etcd with etcd's own certificate, so user and password identify the
caller, and a certificate of the node is only needed for the connection. The password is read from
its file for every token, so a new password needs no restart; the certificates are read once.
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
"""Part of etcd's plain-text refusal of a certificate with a CN in addition to a user's password."""
UNAUTHENTICATED = 16


class AccessDenied(CoordinatorRefused):
    """etcd does not accept the credentials; the call was certainly not executed.

    The error ends a node that starts. A running node tries again, since the password may be
    replaced at any time.
    """

    code = "access_denied"


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """The credentials of this node for etcd.

    Attributes:
        user: The user; empty for no authentication.
        password_file: The file with the user's password on its first line.
        ca_file: The certificate of the authority that signed etcd's certificates; None for the
            authorities that the system trusts.
        certificate_file: The certificate of this node, if etcd requires one.
        key_file: The key of *certificate_file*.
    """

    user: str = ""
    password_file: Path | None = None
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None

    def password(self) -> str:
        """Return the password that the file contains now; empty without a file.

        Raises:
            AccessDenied: The file cannot be read, or contains no password.
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
            raise AccessDenied(
                f"etcd_password_file {self.password_file} has no password on its first line; write "
                "the password of etcd_user there"
            )
        return first

    def tls(self, endpoints: Iterable[str]) -> ssl.SSLContext | bool:
        """Return the TLS context for *endpoints*; True if none of them needs one.

        The default context of aiohttp is never used, since it trusts no authority in a node
        (`rota.node.__main__`).

        Raises:
            AccessDenied: A file cannot be read, or is invalid.
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
        """Return the cause and remedy of etcd's refusal; None if credentials are not the cause."""
        for text, remedy in _REFUSALS.items():
            if text in message:
                return f"{message}; {remedy.format(self=self)}"
        return message if grpc_code in (PERMISSION_DENIED, UNAUTHENTICATED) else None

    def why_not_connected(self, error: BaseException) -> str | None:
        """Return the cause and the remedy of a TLS error; None if *error* is another error."""
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
    "user name is empty": "etcd requires authentication: set etcd_user and etcd_password_file",
    "authentication is not enabled": "etcd does not authenticate: enable authentication in etcd, "
    "or remove etcd_user and etcd_password_file",
    COMMON_NAME: "issue the certificate of etcd_cert without a common name (CN), since etcd_user "
    "and etcd_password_file name the user",
    "permission denied": "grant a role of etcd's user {self.user!r} readwrite on the prefix "
    "/rota/CLUSTER/, where CLUSTER is the value of the setting cluster",
}
"""The refusals of etcd, with their remedies."""

_PAIR = "set etcd_cert and etcd_key to a pair that etcd's --trusted-ca-file signed"
_TLS_FAILURES = {
    "certificate verify failed": "set etcd_ca to the certificate of the authority that signed "
    "etcd's, whose names must include the host in the setting etcd",
    "certificate required": _PAIR,
    "bad certificate": _PAIR,
    "unknown ca": _PAIR,
    "certificate expired": "replace the files of etcd_cert and etcd_key",
    "wrong version number": "this endpoint does not use TLS: write http:// in the setting etcd",
}
"""The errors of TLS connections in the words of OpenSSL, with their remedies. A missing certificate
is "bad" or "required", depending on etcd's version."""


def _tls_failure(error: BaseException) -> ssl.SSLError | None:
    """Return the first TLS error among the causes of *error*; None if there is none."""
    found: ssl.SSLError | None = None
    at: BaseException | None = error
    while at is not None:
        found = at if isinstance(at, ssl.SSLError) else found
        at = at.__cause__ or at.__context__
    return found


def _unreadable(setting: str, files: object, error: OSError) -> str:
    return f"{setting} {files} cannot be used ({_cause(error)}); name a matching PEM file"


def _cause(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error)
