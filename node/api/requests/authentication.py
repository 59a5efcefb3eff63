"""Authentication: the principal of each request."""

from hashlib import sha256
from typing import cast

from aiohttp import web
from multidict import istr

from rota.core.errors import Kind, Refused
from rota.node.access.access_control import AccessControl, AuthMode
from rota.node.access.forwarded_principal import PRINCIPAL
from rota.node.access.grants import Grants
from rota.node.access.principal import ANONYMOUS, OPERATOR, Principal
from rota.node.access.verbs import EVERY
from rota.node.api.requests.local_socket import LocalOnly, is_local
from rota.node.api.requests.node_headers import OF_NODES
from rota.node.api.requests.operations import Operation
from rota.node.api.requests.permissions import Scope
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import read_content
from rota.node.peers.peer_apis import PEER, RequestHead

LOCAL_USER = Principal(name="local", grants=Grants(()))
"""The caller of an operation that only the user of the node may use; it has no verbs."""

_AUTHORIZATION, _PRINCIPAL = istr("Authorization"), istr(PRINCIPAL)
_OF_NODES = tuple(map(istr, OF_NODES))


async def admit(request: RequestContext, operation: Operation) -> None:
    """Set the caller of *request*, and check what the operation requires of it.

    Raises:
        Refused: The caller is not authenticated, is not the node that it pretends to be, sends too
            many requests, or lacks a verb of the whole cluster.
    """
    access, scope = request.node.access, operation.permission.scope
    is_on_socket = is_local(request.http)
    await _check_node(request)
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
            authorization, http.remote or "", _common_name(http)
        )
    except Refused:
        if scope is Scope.PUBLIC:
            return ANONYMOUS
        if access.observed is None:
            raise
        access.observed.note("", None, EVERY, http.path)
        return ANONYMOUS


async def _check_node(request: RequestContext) -> None:
    """Check that a request with headers of nodes is from another node of the cluster.

    Raises:
        NotANode: The request does not prove this.
    """
    http, others = request.http, request.node.others
    found = [name for name in _OF_NODES if name in http.headers]
    if not found:
        return
    if others is None:
        # Without keys, a single node has nothing that these headers give access to.
        if request.node.access.mode is AuthMode.OPEN:
            return
        raise NotANode(found[0])
    head = RequestHead(http.method, http.raw_path, http.headers)
    # The proof covers the SHA-256 of the body, so that a body is not read for just anyone.
    digest = others.proofs.proven_digest(head)
    if digest is None or sha256(await read_content(request)).hexdigest() != digest:
        raise NotANode(found[0])


class NotANode(Refused):
    """The request has a header of nodes, and does not prove that it is from a node.

    Args:
        header: The header.
    """

    def __init__(self, header: str) -> None:
        super().__init__(
            Kind.FORBIDDEN,
            "not_a_node",
            f"only nodes of the cluster send the header {header}, with a proof in {PEER}; remove "
            "the header",
        )


def _common_name(http: web.BaseRequest) -> str:
    """Return the common name of the client's certificate, which TLS has verified; or nothing."""
    # asyncio returns the dict of ssl.SSLSocket.getpeercert, whose values have no type.
    found = None if http.transport is None else http.transport.get_extra_info("peercert")
    certificate = cast("dict[str, tuple[tuple[tuple[str, str], ...], ...]] | None", found)
    for name in (certificate or {}).get("subject", ()):
        for field, value in name:
            if field == "commonName":
                return value
    return ""
