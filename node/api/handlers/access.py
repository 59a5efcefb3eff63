"""Operations on access itself: the first key, and the caller of a request."""

from aiohttp import web

from rota.core.errors import Problem, invalid
from rota.core.model.ids import NAME_RULE, is_name
from rota.core.quoting import in_quotes
from rota.core.timing.instants import format_instant
from rota.node.access.access_control import AuthMode
from rota.node.access.bootstrap import BOOTSTRAP, create_first_key
from rota.node.access.verbs import EVERY, Verb
from rota.node.api.handlers.coordinator_refusals import coordinator_refusals
from rota.node.api.handlers.keys import LIMITS, new_token
from rota.node.api.handlers.shared_documents import CHANGING
from rota.node.api.requests.operations import Body, Operations, Success
from rota.node.api.requests.parameters import choice, text
from rota.node.api.requests.permissions import ANYONE, LOCAL
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import document, read_body
from rota.wire import operations as api
from rota.wire.documents import HeldRoleView, InitBody, NewTokenView, WhoamiView

operations = Operations("Access")
VERB = choice("verb", "A verb, for `allowed`.", [each.value for each in Verb])
NAMESPACE = text(
    "namespace", "The namespace in which the verb is examined; by default the whole cluster."
)


@operations.declare(
    api.INIT_ACCESS,
    Success(201, "The first key, with its token."),
    permission=LOCAL,
    body=Body(InitBody, is_optional=True),
    problems=("already_initialized", "not_ready", *LIMITS, *CHANGING),
)
async def init_access(request: RequestContext) -> web.Response:
    """Create the first key of the cluster, for an administrator; its token is shown only here.

    The request is accepted only on the unix socket `DATA_DIR/api.sock` of a node, from the user of
    the node or root, and only until the cluster has its first key. The key and its binding are
    named `bootstrap`.
    """
    body = await read_body(request, InitBody, if_empty=InitBody())
    if not is_name(body.name):
        detail = f"{in_quotes(body.name)} is not a name: {NAME_RULE}"
        raise invalid("invalid_key", f"/name: {detail}", Problem("/name", detail))
    token, node = new_token(request), request.node
    with coordinator_refusals("repeat the request; it creates at most one key"):
        principal = await create_first_key(
            node.documents,
            node.access.table,
            token,
            principal=body.name,
            by=request.principal.name,
        )
    view = NewTokenView(
        name=BOOTSTRAP,
        principal=principal,
        token=token.text,
        token_id=token.id,
        expires_at=None,
    )
    return document(view, status=201)


@operations.declare(
    api.WHOAMI,
    Success(200, "The caller."),
    permission=ANYONE,
    query=(VERB, NAMESPACE),
)
async def whoami(request: RequestContext) -> web.Response:
    """Show the caller of the request, its roles, and whether it has a verb in a namespace."""
    access, caller = request.node.access, request.principal
    verb, namespace = VERB.of(request), NAMESPACE.of(request) or EVERY
    found = access.authenticator.credential_of(caller) if caller.key_id else None
    bindings = [
        HeldRoleView(role=each.role, namespaces=list(each.namespaces))
        for each in access.table.bindings_of(caller.subjects)
    ]
    if access.mode is AuthMode.OPEN:
        bindings = [HeldRoleView(role="cluster-admin", namespaces=[EVERY])]
    ends = (
        found.expires_at if found else None,
        caller.expires_at,
        caller.attempt.expires_at if caller.attempt else None,
    )
    expires_at = min((each for each in ends if each is not None), default=None)
    return document(
        WhoamiView(
            principal=caller.name,
            token_id=caller.key_id or None,
            expires_at=None if expires_at is None else format_instant(expires_at),
            bindings=bindings,
            allowed=None if verb is None else caller.may(Verb(verb), namespace),
        )
    )
