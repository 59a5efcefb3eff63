"""Authentication: from the credentials of a request to its principal.

It uses the memory of this node only, and takes 4 us for a token (`bench.parts.access`). A text
without the form of a token is refused before anything is hashed or looked up.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from hmac import compare_digest
from ipaddress import IPv4Address, IPv6Address, ip_address

from rota.core.errors import Kind, Refused
from rota.core.timing.instants import Instant
from rota.node.access.access_table import AccessTable, Credential
from rota.node.access.attempt_identity import PREFIX as OF_TASK
from rota.node.access.attempt_identity import AttemptIdentity
from rota.node.access.failed_logins import FailedLogins
from rota.node.access.oidc.web_tokens import TokenInvalid, WebTokens, is_web_token
from rota.node.access.principal import ClientCertificate, Principal
from rota.node.access.refused_access import NO_CREDENTIAL, NO_KEY_YET, Refusal
from rota.node.access.task_tokens import MembersUnknown, TaskTokenInvalid, TaskTokens
from rota.node.system.clock import Clock
from rota.wire.tokens import parse

SCHEME = "bearer "
ADDRESSES_CACHED = 1_024


WITHOUT_CREDENTIAL = Refusal(reason=NO_CREDENTIAL)


class NotLoggedIn(Refused):
    """The caller of a request is not authenticated.

    Attributes:
        why: The reason for the audit log; the response does not have it.
    """

    why: Refusal = WITHOUT_CREDENTIAL


class LoginFailed(NotLoggedIn):
    """The request has no valid credential; the text is the same for every failure."""

    def __init__(self, why: Refusal = WITHOUT_CREDENTIAL) -> None:
        self.why = why
        super().__init__(
            Kind.UNAUTHENTICATED,
            "unauthenticated",
            "the request has no valid credential: log in with `rota login`, name a file with a "
            "token in ROTA_TOKEN_FILE, or send the header Authorization: Bearer TOKEN",
        )


class NoKeyYet(NotLoggedIn):
    """The cluster has no key, so no caller can be authenticated."""

    why = Refusal(reason=NO_KEY_YET)

    def __init__(self) -> None:
        super().__init__(
            Kind.UNAUTHENTICATED,
            "unauthenticated",
            "this cluster has no key yet: create the first one on the machine of a node with "
            "`rota auth init`, or start the node with bootstrap_key_file",
        )


class TooManyLogins(NotLoggedIn):
    """The address had too many failed logins."""

    def __init__(self, why: Refusal) -> None:
        self.why = why
        super().__init__(
            Kind.TOO_MANY,
            "too_many_logins",
            "this address sent more than 10 invalid credentials within a second; check the token, "
            "and try again later",
            retry_after_s=1,
        )


class NotReadYet(Refused):
    """The node has not read the documents since its start, so the credential may be a new one."""

    def __init__(self) -> None:
        super().__init__(
            Kind.UNAVAILABLE,
            "not_ready",
            "this node has not read the keys from etcd since its start and does not know this one; "
            "send the request to another node, or try again",
            retry_after_s=1,
        )


class Authenticator:
    """Authenticates requests.

    Args:
        table: The table of access.
        clock: The clocks of the node; tokens end by the wall clock.
        is_current: Returns True if the node has read the documents since its start.
        is_trusted: Returns True if the documents on this node are recent enough to be used.
        web_tokens: The tokens of issuers; None if none is accepted.
        task_tokens: The tokens of tasks; None if none is accepted.
    """

    def __init__(
        self,
        table: AccessTable,
        clock: Clock,
        *,
        is_current: Callable[[], bool] = lambda: True,
        is_trusted: Callable[[], bool] = lambda: True,
        web_tokens: WebTokens | None = None,
        task_tokens: TaskTokens | None = None,
    ) -> None:
        self._table = table
        self._clock = clock
        self._is_current = is_current
        self._is_trusted = is_trusted
        self._web_tokens = web_tokens
        self._task_tokens = task_tokens
        self._failures = FailedLogins()

    def authenticate(
        self,
        authorization: str | None,
        remote: str,
        certificate: ClientCertificate | None = None,
    ) -> Principal:
        """Return the principal of a request.

        Args:
            authorization: The header ``Authorization``; None without it.
            remote: The address of the client; empty for the unix socket.
            certificate: The client's certificate, if it has one that has not ended.

        Raises:
            LoginFailed: There is no valid credential.
            TooManyLogins: The credential is invalid, like too many before it.
            NoKeyYet: The cluster has no key yet.
            NotReadYet: This node cannot decide yet.
            KeysNotHere: This node has not downloaded the keys of the token's issuer yet.
        """
        if not self._is_trusted():
            raise NotReadYet
        if not self._table.is_initialized:
            raise NoKeyYet if self._is_current() else NotReadYet
        if authorization is None:
            if certificate is None:
                raise LoginFailed
            name = f"cert:{certificate.common_name}"
            found = self._table.principal(name, "", (name,))
            return replace(found, expires_at=certificate.ends_at)
        try:
            found = self._of_token(authorization, remote)
        except Refused:
            raise
        except Exception as error:  # A bug; its text may have a part of the token.
            raise self._failed(remote, reason="fault", detail=type(error).__name__) from error
        return found if found.attempt else self._with_certificate(found, certificate)

    def _with_certificate(
        self, principal: Principal, certificate: ClientCertificate | None
    ) -> Principal:
        """Return the principal of a token with the subject, and until the end, of a certificate."""
        if certificate is None:
            return principal
        subjects = (*principal.subjects, f"cert:{certificate.common_name}")
        found = self._table.principal(principal.name, principal.key_id, subjects)
        ends = (principal.expires_at, certificate.ends_at)
        expires_at = min(each for each in ends if each is not None)
        return replace(found, issuer=principal.issuer, expires_at=expires_at)

    def is_alive(self, principal: Principal) -> bool:
        """Return True if *principal* still has its token or certificate, and the same grants.

        A stream that began for the principal may continue as long as this is so.
        """
        if principal.attempt is not None and not self.is_valid(principal.attempt):
            return False
        if principal.expires_at is not None and self._clock.now() >= principal.expires_at:
            return False
        if principal.issuer and not self._table.has_issuer(principal.issuer):
            return False
        return (
            not principal.key_id or self.credential_of(principal) is not None
        ) and self._table.grants_of(principal.subjects) == principal.grants.granted

    def is_valid(self, identity: AttemptIdentity) -> bool:
        """Return True unless this node has proof that the token of a task has ended."""
        return self._task_tokens is not None and self._task_tokens.is_valid(identity)

    def credential_of(self, principal: Principal) -> Credential | None:
        """Return the token of *principal* if it has not ended; None without one."""
        now = self._clock.now()
        for found in self._table.credentials(principal.key_id):
            if found.principal == principal.name and not found.is_expired(now):
                return found
        return None

    def _of_token(self, authorization: str, remote: str) -> Principal:
        """Return the principal that the token in the header proves.

        Raises:
            Refused: As for `authenticate`.
        """
        task = self._of_task_token(authorization, remote)
        if task is not None:
            return task
        web_token = self._of_web_token(authorization, remote)
        if web_token is not None:
            return web_token
        credential = self._credential(authorization, remote)
        name, subject = credential.principal, f"principal:{credential.principal}"
        return self._table.principal(name, credential.token_id, (subject,))

    def _of_task_token(self, authorization: str, remote: str) -> Principal | None:
        """Return the principal that a token of a task proves; None for another credential.

        Raises:
            LoginFailed: The token is invalid.
            TooManyLogins: The token is invalid, like too many before it.
            NotReadYet: This node has not read the members of the cluster yet.
        """
        text = authorization[len(SCHEME) :].strip()
        if self._task_tokens is None or not text.startswith(OF_TASK):
            return None
        if authorization[: len(SCHEME)].lower() != SCHEME:
            raise self._failed(remote, reason="form")
        try:
            return self._task_tokens.principal(text)
        except TaskTokenInvalid as invalid:
            raise self._failed(remote, reason="task_token", detail=str(invalid)) from invalid
        except MembersUnknown as unknown:
            raise NotReadYet from unknown

    def _of_web_token(self, authorization: str, remote: str) -> Principal | None:
        """Return the principal that a token of an issuer proves; None for another credential.

        Raises:
            LoginFailed: The token is invalid.
            TooManyLogins: The token is invalid, like too many before it.
            KeysNotHere: This node has not downloaded the keys of the token's issuer yet.
        """
        text = authorization[len(SCHEME) :].strip()
        if self._web_tokens is None or not is_web_token(text):
            return None
        if authorization[: len(SCHEME)].lower() != SCHEME:
            raise self._failed(remote, reason="form")
        try:
            return self._web_tokens.principal(text)
        except TokenInvalid as invalid:
            raise self._failed(remote, reason="web_token", detail=str(invalid)) from invalid

    def _credential(self, authorization: str, remote: str) -> Credential:
        """Return the stored token that the header proves.

        Raises:
            LoginFailed: The token is invalid.
            TooManyLogins: The token is invalid, like too many before it.
            NotReadYet: The token is unknown, and this node may not know it yet.
        """
        token = parse(authorization[len(SCHEME) :].strip())
        if token is None or authorization[: len(SCHEME)].lower() != SCHEME:
            raise self._failed(remote, reason="form")
        reason, given = "unknown", token.hash
        for found in self._table.credentials(token.id):
            if compare_digest(found.hash, given):
                reason = _why_refused(found, self._clock.now(), remote)
                if not reason:
                    return found
        if reason == "unknown" and not self._is_current():
            raise NotReadYet
        raise self._failed(remote, reason=reason, token_id=token.id)

    def _failed(self, remote: str, *, reason: str, token_id: str = "", detail: str = "") -> Refused:
        """Return the refusal of an invalid credential, which is counted."""
        why = Refusal(reason=reason, token_id=token_id, detail=detail, is_login=True)
        if self._failures.count(remote, self._clock.elapsed()):
            return LoginFailed(why)
        return TooManyLogins(why)


def _why_refused(credential: Credential, now: Instant, remote: str) -> str:
    """Return why a known token is refused; empty if it is accepted."""
    if credential.is_expired(now):
        return "expired"
    if credential.networks and not _is_in(credential, remote):
        return "network"
    return ""


def _is_in(credential: Credential, remote: str) -> bool:
    address = _address(remote)
    return address is not None and any(address in each for each in credential.networks)


@lru_cache(ADDRESSES_CACHED)
def _address(remote: str) -> IPv4Address | IPv6Address | None:
    """Return an address; one of IPv4 if it is written as one of IPv6."""
    try:
        address = ip_address(remote.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
