"""The application: its routes, and what every request passes through."""

import logging
from collections.abc import Awaitable, Callable
from time import perf_counter

import msgspec
from aiohttp import web

from rota.core.errors import Kind, Refused
from rota.node.api.handlers import (
    batches,
    cluster,
    events,
    executions,
    health,
    job_changes,
    job_list,
    jobs,
    outputs,
    recovery,
)
from rota.node.api.http.access_log import BEGAN_AT, IS_LOGGED
from rota.node.api.http.guard import (
    Guard,
    UnexpectedBody,
    UnsupportedEncoding,
    UnsupportedMediaType,
)
from rota.node.api.http.refusal_log import STRANGERS, Strangers
from rota.node.api.reference import html_page, openapi, served_description
from rota.node.api.requests import access, problems
from rota.node.api.requests.body_memory import BodyMemory
from rota.node.api.requests.operations import ACCEPTED
from rota.node.api.requests.parameters import IS_DRY_RUN
from rota.node.api.requests.request_reader import BODY_MEMORY, CONTEXT, REQUEST_ID, forget_body
from rota.node.api.requests.stopping import STOPPING, Stopping
from rota.node.api.routing.forwarding import READS_NO_SHARD, answer_anywhere
from rota.node.context import NodeContext
from rota.wire.headers import NODE

log = logging.getLogger(__name__)

REQUEST_ID_MAX = 128

OPERATIONS = [
    operation
    for module in (
        jobs,
        job_list,
        job_changes,
        executions,
        batches,
        outputs,
        events,
        cluster,
        recovery,
        health,
        served_description,
    )
    for operation in module.operations.declared
]
"""All that can be asked, in the order of the description."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(context: NodeContext, next_id: Callable[[], int]) -> web.Application:
    """Return the application that serves *parts*.

    Args:
        context: The node.
        next_id: 64 random bits for a request's id.
    """
    guard = Guard(context.config.own_names, context.config.allowed_origins)
    strangers = Strangers(context.clock.elapsed)

    @web.middleware
    async def pass_through(request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get("X-Request-Id", "")[:REQUEST_ID_MAX]
        # Bytes that are not text come as lone surrogates, which cannot be sent back.
        is_text = given.isascii() and given.isprintable()
        request[REQUEST_ID] = (is_text and given) or f"{next_id():016x}"
        request[access.PRINCIPAL] = access.establish(request)
        request[BEGAN_AT] = perf_counter()
        target = request.raw_path
        refusal = guard.refusal(
            request.method,
            request.headers,
            has_body=request.body_exists,
            authority=None if target.startswith("/") else _authority(request),
        )
        if isinstance(refusal, UnexpectedBody) and request.match_info.http_exception is not None:
            refusal = None  # No such path (404) or method (405) tells more; no body is read.
        answer: web.StreamResponse
        if refusal is not None:
            answer = _refused(request, refusal, strangers)
        else:
            try:
                answer = await _answer(request, handler)
            finally:
                if request.body_exists:
                    forget_body(request)
        if context.membership.is_leaving and not answer.prepared:
            # So that no request is on its way over a connection when this node closes it.
            answer.force_close()
        context.metrics.requests.labels(request.method, str(answer.status)).inc()
        return answer

    app = web.Application(
        middlewares=[pass_through], client_max_size=context.config.body_max_mb << 20
    )
    app[CONTEXT] = context
    app[BODY_MEMORY] = BodyMemory(largest=context.config.body_max_mb << 20)
    app[STRANGERS] = strangers
    app[STOPPING] = Stopping()
    app.on_shutdown.append(app[STOPPING].begin)
    # Not in the middleware, which sees a streamed answer only when it has ended.
    app.on_response_prepare.append(_add_headers)
    app.add_routes(operation.route() for operation in OPERATIONS)
    app[served_description.DESCRIPTION] = served_description.Description(_describe)
    return app


def _describe() -> served_description.Documents:
    document = openapi.describe(OPERATIONS)
    return served_description.Documents(msgspec.json.encode(document), html_page.page_of(document))


def _authority(request: web.Request) -> str | None:
    """Return the host and port in the target of a request to a proxy; ``*`` has none."""
    url = request.url
    return url.host_port_subcomponent if url.absolute else None


def _refused(request: web.Request, refusal: Refused, strangers: Strangers) -> web.Response:
    """Return the answer to a request that the guard refuses, logged here: a stranger sends many."""
    request[IS_LOGGED] = True
    strangers.refused.write(code=refusal.code, detail=refusal.detail, remote=request.remote)
    answer = _refusal(request, refusal)
    if isinstance(refusal, UnexpectedBody):
        answer.force_close()
    return answer


async def _add_headers(request: web.Request, answer: web.StreamResponse) -> None:
    """Add to an answer the headers that all have."""
    answer.headers.update(problems.SAME_FOR_ALL)
    answer.headers[NODE] = request.app[CONTEXT].config.node_id
    if REQUEST_ID in request:
        answer.headers["X-Request-Id"] = request[REQUEST_ID]
    if request.get(IS_DRY_RUN):
        answer.headers["Rota-Dry-Run"] = "true"


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Return what *handler* answers; whatever it raises becomes a problem document."""
    try:
        return await _settled_answer(request, handler)
    except Refused as refusal:
        return _refusal(request, refusal)
    except web.HTTPException as error:
        return _http_error(request, error)
    except ConnectionError:
        raise
    except Exception:
        log.exception(
            "request failed", extra={"request": request[REQUEST_ID], "path": request.path}
        )
        view = problems.problem(
            500, "internal", "this is a bug in rota; its log has the details under this request id"
        )
        return problems.response(view, request_id=request[REQUEST_ID])


async def _settled_answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Return what *handler* answers; what it refuses may rest on what is not yet committed."""
    try:
        return await answer_anywhere(request, handler)
    except Refused as refusal:
        if refusal.kind is not Kind.UNAVAILABLE and not request.get(READS_NO_SHARD):
            shards = request.app[CONTEXT].shards
            # Whatever it rests on: that there is no such job, say, may be so here alone.
            await shards.settled(*shards.opened)
        raise


def _refusal(request: web.Request, refusal: Refused) -> web.Response:
    view = problems.problem_of(refusal)
    headers: dict[str, str] = {}
    if refusal.retry_after_s:
        headers["Retry-After"] = str(refusal.retry_after_s)
    is_unsupported = isinstance(refusal, UnsupportedMediaType | UnsupportedEncoding)
    if is_unsupported and request.method in ACCEPTED:
        name, media_types = ACCEPTED[request.method]
        headers[name] = ", ".join(media_types)
    return problems.response(view, request_id=request[REQUEST_ID], headers=headers)


def _http_error(request: web.Request, error: web.HTTPException) -> web.Response:
    codes = {404: "no_such_path", 405: "method_not_allowed", 413: "body_too_large"}
    code = codes.get(error.status, "bad_request")
    details = {
        404: f"there is nothing at {request.path}; the API begins with /api/v1; "
        "/livez, /readyz and /metrics are for monitoring",
        405: f"{request.method} is not allowed at {request.path}",
    }
    detail = details.get(error.status, error.reason)
    # A 405 without its Allow header says nothing useful.
    allow = error.headers.get("Allow")
    headers = {"Allow": allow} if allow else None
    view = problems.problem(error.status, code, detail)
    return problems.response(view, request_id=request[REQUEST_ID], headers=headers)
