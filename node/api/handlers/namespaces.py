"""Operations that pause and resume namespaces, and show the use of their quotas."""

from collections.abc import Callable

from aiohttp import web
from msgspec.structs import replace

from rota.core.errors import Kind, Refused
from rota.core.model.job import Pause
from rota.core.model.shared_document import Definition, SharedDocument
from rota.core.vocabulary.quotas import NO_QUOTA
from rota.node.access.verbs import Verb
from rota.node.api.handlers.coordinator_refusals import coordinator_refusals
from rota.node.api.handlers.shared_documents import READ_AGAIN, view_of
from rota.node.api.kinds.namespaces import NAMESPACES, RULES
from rota.node.api.requests.authors import author_of
from rota.node.api.requests.operations import ETAG, Body, Operations, Success
from rota.node.api.requests.parameters import DRY_RUN
from rota.node.api.requests.permissions import on_object
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import document, read_body
from rota.node.facts.pauses import PAUSE, pause_fields, with_pause
from rota.node.namespaces.namespaces import DEFAULT
from rota.wire import operations as api
from rota.wire.documents import PauseBody, QuotaView, UseView

operations = Operations(NAMESPACES.title)
TRIES_MAX = 10
"""How often a change is tried while other requests change the namespace."""
PROBLEMS = (
    "namespace_not_found",
    "invalid_namespace",
    "document_too_large",
    "too_many_documents",
    "contention",
    "coordination_lost",
    "coordinator_unavailable",
    "outcome_unknown",
)


@operations.declare(
    api.PAUSE_NAMESPACE,
    Success(200, "The namespace, paused.", headers=(ETAG,)),
    permission=on_object(Verb.RUN),
    query=(DRY_RUN,),
    body=Body(PauseBody, is_optional=True),
    problems=PROBLEMS,
)
async def pause_namespace(request: RequestContext) -> web.Response:
    """Pause a namespace: no execution begins in it until it is resumed.

    Fire times are recorded as ``paused``, and triggers and reruns are refused. Executions that
    exist continue. Pausing a paused namespace changes nothing. If the namespace has no document,
    the pause creates one.
    """
    body = await read_body(request, PauseBody, if_empty=PauseBody())
    pause = Pause(at=request.node.clock.now(), by=request.principal.name, reason=body.reason)

    def paused(before: Definition) -> Definition:
        return with_pause(before, pause) if pause_fields(before) is None else before

    return await _changed(request, paused, may_create=True)


@operations.declare(
    api.RESUME_NAMESPACE,
    Success(200, "The namespace, resumed.", headers=(ETAG,)),
    permission=on_object(Verb.RUN),
    query=(DRY_RUN,),
    problems=PROBLEMS,
)
async def resume_namespace(request: RequestContext) -> web.Response:
    """Resume a paused namespace, from the next fire times of its jobs on.

    Jobs whose dependencies succeeded during the pause run within some seconds.
    """
    return await _changed(request, lambda before: with_pause(before, None), may_create=False)


@operations.declare(
    api.NAMESPACE_QUOTA,
    Success(200, "The quota of the namespace and its use."),
    permission=on_object(Verb.READ),
    problems=("namespace_not_found",),
)
async def get_quota(request: RequestContext) -> web.Response:
    """Return the quota of a namespace and its use.

    The use on other nodes is that of their last reports, about a second ago.
    """
    name, node = request.http.match_info["document"], request.node
    missing, found = NAMESPACES.missing(name), node.documents.get(NAMESPACES.key(name))
    RULES.authorize_read(request, name, found.definition if found else None, missing)
    if found is None:
        raise missing
    quota = node.facts.present().quotas.get(name, NO_QUOTA)
    used = node.shards.use_of(name) if quota != NO_QUOTA else None
    secrets = len(node.secrets.names_in(name))
    return document(
        QuotaView(
            namespace=name,
            jobs=UseView(most=quota.jobs, used=used.jobs if used else None),
            executions=UseView(most=quota.executions, used=used.executions if used else None),
            secrets=UseView(most=node.namespaces.secrets_max_of(name), used=secrets),
        )
    )


async def _changed(
    request: RequestContext, change: Callable[[Definition], Definition], *, may_create: bool
) -> web.Response:
    """Change the document of a namespace, and return the response.

    The definition is not decoded, so that a namespace can be paused whose document has fields of
    another version.
    """
    name, documents = request.http.match_info["document"], request.node.documents
    request.authorize(name, missing=NAMESPACES.missing(name))
    for _ in range(TRIES_MAX):
        before = documents.get(NAMESPACES.key(name))
        if before is None and not (may_create and _may_exist(request, name)):
            raise NAMESPACES.missing(name)
        definition = change(before.definition or {} if before else {})
        if before is None:
            NAMESPACES.checked(name, NAMESPACES.body())
        try:
            return _answer(request, await _save(request, name, definition, before))
        except Refused as refusal:
            if refusal.kind is not Kind.PRECONDITION:
                raise
    detail = f"other requests changed the namespace {name!r} {TRIES_MAX} times; try again"
    raise Refused(Kind.CONFLICT, "contention", detail, retry_after_s=1)


def _may_exist(request: RequestContext, name: str) -> bool:
    """Return True if a namespace may exist without a document."""
    return name == DEFAULT or request.node.config.unknown_namespaces != "refuse"


async def _save(
    request: RequestContext, name: str, definition: Definition, before: SharedDocument | None
) -> SharedDocument:
    with coordinator_refusals(READ_AGAIN):
        return await request.node.documents.change(
            NAMESPACES.key(name),
            definition,
            by=author_of(request),
            if_version=before.version if before else 0,
            is_dry=request.is_dry_run,
        )


def _answer(request: RequestContext, found: SharedDocument) -> web.Response:
    """Return the response with the document; without the verb ``read``, only whether it pauses."""
    view = view_of(NAMESPACES, found)
    if not request.may(Verb.READ, found.name):
        pause = pause_fields(view.definition)
        view = replace(view, definition={PAUSE: {"at": pause["at"]}} if pause else {})
    return document(view, headers={"ETag": f'"{found.version}"'})
