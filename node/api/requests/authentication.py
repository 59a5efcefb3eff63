"""Authentication: the principal of each request."""

from functools import lru_cache
from ssl import cert_time_to_seconds
from typing import cast

from aiohttp import web
from multidict import istr

from rota.core.errors import Refused
from rota.core.timing.instants import SECOND, Instant
from rota.node.access.access_control import AccessControl, AuthMode
from rota.node.access.authenticator import NotLoggedIn
from rota.node.access.forwarded_principal import PRINCIPAL
from rota.node.access.grants import Grants
from rota.node.access.principal import ANONYMOUS, OPERATOR, ClientCertificate, Principal
from rota.node.access.verbs import EVERY
from rota.node.api.requests.local_socket import LocalOnly, is_local
from rota.node.api.requests.operations import Operation
from rota.node.api.requests.permissions import Scope
from rota.node.api.requests.request_context import RequestContext
from rota.node.system.clock import Clock

LOCAL_USER = Principal(name="local", grants=Grants(()))
"""The caller of an operation that only the user of the node may use; it has no verbs."""

ENDS_CACHED = 1_024

_AUTHORIZATION, _PRINCIPAL = istr("Authorization"), istr(PRINCIPAL)


async def admit(request: RequestContext, operation: Operation) -> None:
    """Set the caller of *request*, and check what the operation requires of it.

    Raises:
        Refused: The caller is not authenticated, sends too many requests, or lacks a verb of the
            whole cluster.
    """
    access, scope = request.node.access, operation.permission.scope
    is_on_socket = is_local(request.http)
    if scope is Scope.LOCAL:
        if not is_on_socket:
            raise LocalOnly
        principal = LOCAL_USER
    elif access.mode is AuthMode.OPEN:
        principal = ANONYMOUS if scope is Scope.PUBLIC else OPERATOR
    else:
        principal = await _authenticated(request, access, scope)
        if not request.is_forwarded:
            access.count_request(principal)
    request.admit(principal, operation.permission, observed=access.observed)


async def _authenticated(request: RequestContext, access: AccessControl, scope: Scope) -> Principal:
    http = request.http
    if request.is_forwarded:
        return await access.principal_from_forwarded_form(http.headers.get(_PRINCIPAL, ""))
    authorization = http.headers.get(_AUTHORIZATION)
    if scope is Scope.PUBLIC and authorization is None:
        return ANONYMOUS
    try:
        return access.authenticator.authenticate(
            authorization, http.remote or "", _certificate(http, request.node.clock)
        )
    except Refused as refusal:
        if scope is Scope.PUBLIC:
            return ANONYMOUS
        if isinstance(refusal, NotLoggedIn) and (refusal.why.is_login or access.observed is None):
            request.refusals.append(refusal.why)
        if access.observed is None:
            raise
        access.observed.note("", None, EVERY, http.path)
        return ANONYMOUS


def _certificate(http: web.BaseRequest, clock: Clock) -> ClientCertificate | None:
    """Return the client's certificate, which TLS has verified; None without a common name.

    A certificate may have expired since the handshake, and then is none any more.
    """
    # asyncio returns the dict of ssl.SSLSocket.getpeercert, whose values have no type.
    found = None if http.transport is None else http.transport.get_extra_info("peercert")
    certificate = cast("dict[str, object] | None", found)
    if not certificate:
        return None
    ends_at = _end_of(str(certificate["notAfter"]))
    subject = cast("tuple[tuple[tuple[str, str], ...], ...]", certificate.get("subject", ()))
    names = (value for name in subject for field, value in name if field == "commonName")
    common_name = next(names, "")
    if not common_name or clock.now() >= ends_at:
        return None
    return ClientCertificate(common_name, ends_at)


@lru_cache(ENDS_CACHED)
def _end_of(text: str) -> Instant:
    return Instant(int(cert_time_to_seconds(text)) * SECOND)
