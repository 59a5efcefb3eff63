"""Live events over HTTP, as server-sent events or as lines of JSON."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlencode

import msgspec
from aiohttp import web

from rota.core.errors import Problem, invalid, not_found
from rota.core.model.hook import HookOutcome
from rota.core.model.ids import ExecutionId, JobId, is_execution_id
from rota.core.model.ledger import FireOutcome
from rota.core.quoting import in_quotes
from rota.core.timing.instants import format_instant
from rota.core.vocabulary.effects import JobEvent, TaskEvent
from rota.node.access.access_control import AuthMode
from rota.node.access.open_streams import AccessEnded
from rota.node.access.verbs import Verb
from rota.node.api.forwarding.merged_events import CLOSED, merged_batches
from rota.node.api.forwarding.peer_requests import owners_of
from rota.node.api.handlers.lookups import check_execution, job_named
from rota.node.api.requests.error_codes import READING
from rota.node.api.requests.operations import Header, Operations, Success
from rota.node.api.requests.parameters import Parameter, Repeatable, text
from rota.node.api.requests.permissions import on_each
from rota.node.api.requests.request_context import RequestContext
from rota.node.feeds.events import (
    TYPES,
    EncodedEvent,
    Filter,
    Happening,
    HookAttempt,
    Seen,
    parse_seen,
)
from rota.wire import operations as api
from rota.wire.documents import EventView
from rota.wire.statuses import status_word

SSE = "text/event-stream"
NDJSON = "application/x-ndjson"
BLOCKED_S = 10.0
"""How long a client may read nothing while its connection has a backlog of 200 KB or more."""
SEND_BUFFER = 128 << 10
"""The bytes that the kernel buffers for one client; the kernel's default grows to 4 MiB."""


Happenings = frozenset[Happening]


def _one_of(words: Iterable[tuple[str, Happening]]) -> Callable[[str], Happenings]:
    """Return a parser of comma-separated words; each word stands for one or more happenings."""
    table: dict[str, Happenings] = {}
    for word, happening in words:
        table[word] = table.get(word, frozenset()) | {happening}

    def read(given: str) -> Happenings:
        found: Happenings = frozenset()
        for word in map(status_word, given.split(",")):
            if word not in table:
                raise ValueError(f"{in_quotes(word)} is not one of {', '.join(table)}")
            found |= table[word]
        return found

    return read


operations = Operations("Events")
JOB = text(
    "jobId", "Only events of this job: its id, its name in `namespace`, or `namespace/name`."
)
NAMESPACE = text(
    "namespace",
    "Only events of jobs in this namespace; also the namespace of a `jobId` that is a name.",
)
EXECUTION = text("executionId", "Only events of this execution and its tasks.")
TYPE: Repeatable[Happenings] = Repeatable(
    "type",
    "Only events of these types, separated by commas; may be repeated. `task` stands for all types "
    "that begin with `task.`.",
    _one_of(
        (word, happening)
        for happening, name in TYPES.items()
        for word in (name.partition(".")[0], name)
    ),
    frozenset(),
    {"type": "string"},
)
STATUS: Repeatable[Happenings] = Repeatable(
    "status",
    "Only events of executions and tasks that enter one of these states. `succeeded` means "
    "`success`.",
    _one_of(
        (happening.value, happening)
        for happening in TYPES
        if not isinstance(happening, JobEvent | TaskEvent | FireOutcome | HookOutcome | HookAttempt)
    ),
    frozenset(),
    {"type": "string"},
)
AFTER: Parameter[Seen | None] = Parameter(
    "lastEventId",
    "Like the header `Last-Event-ID`, for clients that cannot send it; the header has priority.",
    parse_seen,
    None,
    {"type": "string"},
)
LAST_EVENT_ID = Header(
    "Last-Event-ID", "The `id` of the last event received; the events after it are sent first."
)
ACCEPT = Header("Accept", f"`{SSE}` (the default) or `{NDJSON}`.")


@operations.declare(
    api.EVENTS,
    Success(
        200,
        "Events, until the client or the node ends the stream.",
        media_types=(SSE, NDJSON),
    ),
    permission=on_each(Verb.READ),
    query=(NAMESPACE, JOB, EXECUTION, TYPE, STATUS, AFTER),
    headers=(ACCEPT, LAST_EVENT_ID),
    problems=(
        "job_not_found",
        "execution_not_found",
        "invalid_event_id",
        "too_many_readers",
        *READING,
    ),
)
async def follow_events(request: RequestContext) -> web.StreamResponse:
    """Stream the events of all nodes as they happen.

    An event is sent after its commit, and the events of a shard are sent in the order of their
    commits. The first event is `stream.opened`. All later events are sent: a list that is requested
    after `stream.opened`, together with the events, is complete. To resume a stream, send the `id`
    of the last event in `Last-Event-ID`. An event `stream.gap` means that events may have been
    missed; request the list again.

    A client that is more than 1,000 events behind for 5 seconds gets `stream.dropped`, and the
    stream ends. The connection of a client that reads nothing for 10 seconds is closed. In a
    cluster the stream also ends, with `stream.closed`, when a node joins or leaves; resume it then.
    It ends in the same way when the key of the caller is revoked or expires, and when the roles of
    the caller change.
    """
    wanted, after = await _wanted(request), _after(request)
    framing = _framing(request)
    if request.http.method == "HEAD":
        return web.Response(content_type=framing.media_type)
    context = request.node
    # An open node gives all requests one principal, which has no key and no limit of its own.
    principal = "" if context.access.mode is AuthMode.OPEN else request.principal.identity
    with context.events.reader(wanted, after, principal=principal) as reader:
        if context.others is None or request.is_forwarded:
            return await _stream(request, reader.batches(), framing)
        # The primary of a shard publishes its events, so every shard needs a connected primary.
        owners_of(request, context.shards)
        target = f"{request.http.path}?{urlencode(_query_of(request, wanted))}"
        async with merged_batches(request, context.others, reader, target, after) as batches:
            return await _stream(request, batches, framing)


@dataclass(frozen=True, slots=True)
class _Framing:
    """The encoding of events in the body of a response.

    Attributes:
        media_type: The media type of the response.
        frame: Encodes one event.
        keep_alive: The bytes that are sent if there is no event.
    """

    media_type: str
    frame: Callable[[EncodedEvent], bytes]
    keep_alive: bytes

    def of(self, batch: Iterable[EncodedEvent]) -> bytes:
        return b"".join(map(self.frame, batch)) or self.keep_alive


def _sse_frame(event: EncodedEvent) -> bytes:
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (
        event.id.encode(),
        event.type.encode(),
        event.document,
    )


def _ndjson_line(event: EncodedEvent) -> bytes:
    return event.document + b"\n"


_FRAMINGS: Mapping[str, _Framing] = {
    SSE: _Framing(SSE, _sse_frame, b": keep-alive\n\n"),
    NDJSON: _Framing(NDJSON, _ndjson_line, b"\n"),
}


def _framing(request: RequestContext) -> _Framing:
    """Return the first encoding in ``Accept``, without regard to weights; by default SSE."""
    for accepted in ",".join(request.http.headers.getall("Accept", [])).split(","):
        framing = _FRAMINGS.get(accepted.partition(";")[0].strip().lower())
        if framing is not None:
            return framing
    return _FRAMINGS[SSE]


async def _wanted(request: RequestContext) -> Filter:
    """Return the filter for the events of a request.

    Raises:
        Refused: A parameter is malformed, or the job or execution does not exist.
    """
    named = JOB.of(request)
    return Filter(
        happenings=_happenings(request),
        namespace="" if named else NAMESPACE.of(request) or "",
        job_id=await _job_id(request, named) if named else None,
        execution_id=await _execution_id(request),
        may_see=request.may_see,
        may_read_output=partial(request.may, Verb.LOGS),
    )


def _happenings(request: RequestContext) -> Happenings | None:
    """Return the happenings with a requested type and a requested state; None for all."""
    requested = [given for given in (TYPE.all_of(request), STATUS.all_of(request)) if given]
    if not requested:
        return None
    admitted = [frozenset[Happening]().union(*given) for given in requested]
    return admitted[0].intersection(*admitted)


def _query_of(request: RequestContext, wanted: Filter) -> list[tuple[str, str]]:
    """Return the query of the request to the other nodes, with the job as an id."""
    query = [
        (each.name, given)
        for each in (TYPE, STATUS)
        for given in request.http.query.getall(each.name, [])
    ]
    filters = {
        NAMESPACE.name: wanted.namespace,
        JOB.name: wanted.job_id,
        EXECUTION.name: wanted.execution_id,
    }
    return query + [(name, value) for name, value in filters.items() if value]


async def _job_id(request: RequestContext, named: str) -> JobId:
    if request.is_forwarded:
        return JobId(named)
    return (await job_named(request, named)).id


async def _execution_id(request: RequestContext) -> ExecutionId | None:
    given = EXECUTION.of(request)
    if given is None:
        return None
    if not is_execution_id(given):
        raise not_found("execution", given)
    if not request.is_forwarded:
        await check_execution(request, ExecutionId(given))
    return ExecutionId(given)


def _after(request: RequestContext) -> Seen | None:
    """Return the position to resume after; None for new events only.

    The header has priority: a browser that reconnects sends it in addition to its old URL.
    """
    given = request.http.headers.get("Last-Event-ID")
    if not given:
        return AFTER.of(request)
    try:
        return parse_seen(given)
    except ValueError as error:
        problem = Problem("/headers/Last-Event-ID", str(error))
        raise invalid("invalid_event_id", f"Last-Event-ID: {error}", problem) from error


async def _stream(
    request: RequestContext, events: AsyncGenerator[list[EncodedEvent]], framing: _Framing
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"X-Accel-Buffering": "no"})
    response.content_type = framing.media_type
    # The small send buffer of the connection would slow down later responses.
    response.force_close()
    _bound_buffer(request)
    await request.start(response)
    stream = _EventStream(request, response, framing)
    try:
        async with (
            request.node.access.streams.interrupting(request.principal),
            aclosing(events) as batches,
        ):
            async for batch in batches:
                await stream.send(batch)
    except AccessEnded as ended:
        await stream.close(ended.detail)
    except TimeoutError:
        stream.abort()
    return response


class _EventStream:
    """The response with events to one client.

    Args:
        request: The request of the client.
        response: The response, which has begun.
        framing: The encoding of events.
    """

    def __init__(
        self, request: RequestContext, response: web.StreamResponse, framing: _Framing
    ) -> None:
        self._request = request
        self._response = response
        self._framing = framing
        self._last_id = ""

    async def send(self, batch: list[EncodedEvent]) -> None:
        """Send a batch.

        Raises:
            TimeoutError: The client has read nothing for `BLOCKED_S`.
        """
        if batch:
            self._last_id = batch[-1].id
        async with asyncio.timeout(BLOCKED_S):
            # The whole batch is in the buffer of the connection before anything is awaited.
            await self._response.write(self._framing.of(batch))
            await self._request.http.writer.drain()

    async def close(self, detail: str) -> None:
        """Send the last event, with the reason of the end."""
        at = format_instant(self._request.node.clock.now())
        view = EventView(id=self._last_id, type=CLOSED, at=at, detail=detail)
        try:
            await self.send([EncodedEvent(view.id, view.type, msgspec.json.encode(view))])
        except TimeoutError:
            self.abort()

    def abort(self) -> None:
        """Close the connection: more data would only be queued behind data that is not read."""
        if self._request.http.transport is not None:
            self._request.http.transport.abort()


def _bound_buffer(request: RequestContext) -> None:
    connection = request.http.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
