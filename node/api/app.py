"""The application: its routes, and the handling common to all requests."""

import logging
from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from rota.core.errors import Kind, Refused
from rota.node.access.refused_access import Refusal
from rota.node.api.forwarding.request_forwarding import respond
from rota.node.api.handlers import (
    access,
    answers,
    backfills,
    batches,
    calendar_preview,
    changes,
    cluster,
    events,
    executions,
    explanations,
    health,
    hook_tests,
    job_changes,
    job_list,
    job_state,
    jobs,
    keys,
    ledger,
    namespaces,
    outputs,
    outside_events,
    recovery,
    reruns,
    secrets,
    shared_documents,
    webhook_deliveries,
)
from rota.node.api.http.access_log import IS_LOGGED
from rota.node.api.http.forwarded_requests import NotANode, identify_sender, is_from_peer_port
from rota.node.api.http.guard import (
    Guard,
    UnexpectedBody,
    UnsupportedEncoding,
    UnsupportedMediaType,
)
from rota.node.api.http.refusal_log import REFUSAL_LOGS, RefusalLogs
from rota.node.api.reference import openapi, served_description
from rota.node.api.requests import problems
from rota.node.api.requests.body_memory import BodyMemory
from rota.node.api.requests.noted_refusals import note_refusals
from rota.node.api.requests.operations import ACCEPTED, Operation
from rota.node.api.requests.request_context import REQUEST, RequestContext
from rota.node.api.requests.request_reader import BODY_MEMORY, release_body
from rota.node.api.requests.stopping import STOPPING, Stopping
from rota.node.context import NodeContext
from rota.node.peers.forward_port import OPENING_PATH
from rota.node.peers.peer_apis import PEER, REFUSED_PROOF
from rota.node.web.page_routes import add_page
from rota.wire.headers import NODE

log = logging.getLogger(__name__)

REQUEST_ID_MAX = 128

OPERATIONS = [
    operation
    for operations in (
        jobs.operations,
        hook_tests.operations,
        job_list.operations,
        job_changes.operations,
        backfills.operations,
        job_state.operations,
        explanations.operations,
        ledger.operations,
        changes.operations,
        executions.operations,
        reruns.operations,
        answers.operations,
        batches.operations,
        outputs.operations,
        *shared_documents.OF_ALL_KINDS,
        calendar_preview.operations,
        namespaces.operations,
        keys.operations,
        secrets.operations,
        access.operations,
        events.operations,
        outside_events.operations,
        webhook_deliveries.operations,
        cluster.operations,
        recovery.operations,
        health.operations,
        served_description.operations,
    )
    for operation in operations.declared
]
"""All operations, in the order in which the API's description lists them."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(context: NodeContext, next_id: Callable[[], int]) -> web.Application:
    """Return the application that serves the API of a node.

    Args:
        context: The parts of the node.
        next_id: Returns 64 random bits for the id of a request.
    """
    guard = Guard(context.config.own_names, context.config.allowed_origins)
    refusal_logs = RefusalLogs(context.clock.elapsed, context.access.logs)

    @web.middleware
    async def pass_through(request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get("X-Request-Id", "")[:REQUEST_ID_MAX]
        # Bytes that are not text arrive as lone surrogates, which cannot be sent back.
        is_text = given.isascii() and given.isprintable()
        received = request[REQUEST] = RequestContext(
            request,
            context,
            request_id=(is_text and given) or f"{next_id():016x}",
        )
        refusal = _guarded_by(guard, request)
        if isinstance(refusal, UnexpectedBody) and request.match_info.http_exception is not None:
            refusal = None  # An unknown path (404) or method (405) is the better error.
        response: web.StreamResponse
        if refusal is not None:
            response = _refused_by_guard(received, refusal, refusal_logs)
        else:
            try:
                response = await _response(received, handler)
            finally:
                if request.body_exists:
                    release_body(received)
        if received.refusals:
            note_refusals(received)
        if context.membership.is_leaving and not response.prepared:
            # A client must not send its next request over a connection that this node closes.
            response.force_close()
        context.metrics.requests.labels(request.method, str(response.status)).inc()
        return response

    app = web.Application(
        middlewares=[pass_through], client_max_size=context.config.body_max_mb << 20
    )
    app[BODY_MEMORY] = BodyMemory(largest=context.config.body_max_mb << 20)
    app[REFUSAL_LOGS] = refusal_logs
    app[STOPPING] = Stopping()
    app.on_shutdown.append(app[STOPPING].begin)
    # Headers are not added in the middleware, which gets a streamed response only after its end.
    app.on_response_prepare.append(_add_headers)
    # Longer paths first: jobs/a/next is the fire times of a job before it is a job of a namespace.
    by_length = sorted(OPERATIONS, key=lambda each: each.path.count("/"), reverse=True)
    app.add_routes(
        web.route(each.method, _route(each.path), _handler_of(each)) for each in by_length
    )
    add_page(app)
    app[served_description.DESCRIPTION] = served_description.Description(_describe)
    return app


def _route(path: str) -> str:
    """Return a path as a pattern: names of documents have no colon, those of jobs may have a slash.

    A colon begins a verb; a slash separates namespace and name.
    """
    pattern = path.replace("{document}", "{document:[^{}/:]+}")
    return pattern.replace("{job}", "{job:[^{}/]+(?:/[^{}/]+)?}")


def _describe() -> bytes:
    return msgspec.json.encode(openapi.describe(OPERATIONS))


def _handler_of(operation: Operation) -> Handler:
    async def handle(http: web.Request) -> web.StreamResponse:
        return await respond(http[REQUEST], operation)

    return handle


def _authority(http: web.Request) -> str | None:
    """Return the host and port in the target of a request to a proxy; None for the target ``*``."""
    url = http.url
    return url.host_port_subcomponent if url.absolute else None


def _guarded_by(guard: Guard, http: web.Request) -> Refused | None:
    """Return the refusal of a request, or None; another node has checked what it forwards."""
    if is_from_peer_port(http):
        return None
    return guard.refusal(
        http.method,
        http.headers,
        has_body=http.body_exists,
        authority=None if http.raw_path.startswith("/") else _authority(http),
    )


def _refused_by_guard(
    request: RequestContext, refusal: Refused, refusal_logs: RefusalLogs
) -> web.Response:
    """Return the response to a request that the guard refuses.

    The request is logged in a sampled log, because an attacker can send many such requests.
    """
    request.http[IS_LOGGED] = True
    if refusal.kind is Kind.FORBIDDEN:
        request.refusals.append(Refusal(reason=refusal.code, detail=refusal.detail))
    else:
        refusal_logs.refused.write(
            code=refusal.code, detail=refusal.detail, remote=request.http.remote
        )
    response = _refusal(request, refusal)
    if isinstance(refusal, UnexpectedBody):
        response.force_close()
    return response


async def _add_headers(http: web.Request, response: web.StreamResponse) -> None:
    """Add the headers that all responses have; files of the web page may be kept by browsers."""
    kept = response.headers.get("Cache-Control")
    response.headers.update(problems.SAME_FOR_ALL)
    if kept is not None:
        response.headers["Cache-Control"] = kept
    request = http.get(REQUEST)
    if request is None:
        return
    response.headers[NODE] = request.node.config.node_id
    response.headers["X-Request-Id"] = request.id
    if request.is_dry_run:
        response.headers["Rota-Dry-Run"] = "true"


async def _response(request: RequestContext, handler: Handler) -> web.StreamResponse:
    """Return the response of *handler*; the errors that it raises become error documents."""
    try:
        await identify_sender(request)
        if request.is_forwarded and request.http.path == OPENING_PATH:
            return web.Response(status=204)
        return await handler(request.http)
    except Refused as refusal:
        return _refusal(request, refusal)
    except web.HTTPException as error:
        return _http_error(request, error)
    except ConnectionError:
        raise
    except Exception:
        log.exception("request failed", extra={"request": request.id, "path": request.http.path})
        detail = "this is a bug in rota; the node's log has the details under this request id"
        return problems.response(problems.problem(500, "internal", detail), request_id=request.id)


def _refusal(request: RequestContext, refusal: Refused) -> web.Response:
    if refusal.kind in (Kind.UNAUTHENTICATED, Kind.FORBIDDEN) and not request.refusals:
        request.refusals.append(Refusal(reason=refusal.code))
    view = problems.problem_of(refusal)
    headers: dict[str, str] = {}
    if refusal.retry_after_s:
        headers["Retry-After"] = str(refusal.retry_after_s)
    if refusal.kind is Kind.UNAUTHENTICATED:
        headers["WWW-Authenticate"] = 'Bearer realm="rota"'
    if isinstance(refusal, NotANode):
        headers[PEER] = REFUSED_PROOF
    is_unsupported = isinstance(refusal, UnsupportedMediaType | UnsupportedEncoding)
    if is_unsupported and request.http.method in ACCEPTED:
        name, media_types = ACCEPTED[request.http.method]
        headers[name] = ", ".join(media_types)
    return problems.response(view, request_id=request.id, headers=headers)


def _http_error(request: RequestContext, error: web.HTTPException) -> web.Response:
    http = request.http
    codes = {404: "no_such_path", 405: "method_not_allowed", 413: "body_too_large"}
    code = codes.get(error.status, "bad_request")
    details = {
        404: f"{http.path} does not exist; paths of the API begin with /api/v1, and are listed at "
        "/openapi.json",
        405: f"{http.path} does not support {http.method}; the header Allow lists its methods",
    }
    detail = details.get(error.status, error.reason)
    # RFC 9110 requires the Allow header of a 405.
    allow = error.headers.get("Allow")
    headers = {"Allow": allow} if allow else None
    view = problems.problem(error.status, code, detail)
    return problems.response(view, request_id=request.id, headers=headers)
