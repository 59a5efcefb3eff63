"""The live events over HTTP: as server-sent events, or one JSON document a line."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from urllib.parse import urlencode

from aiohttp import web

from rota.core.errors import Problem, invalid, not_found
from rota.core.model.ids import ExecutionId, JobId, is_execution_id
from rota.core.quoting import in_quotes
from rota.core.vocabulary.effects import JobEvent, TaskEvent
from rota.node.api.handlers.lookups import check_execution, job_named
from rota.node.api.requests.access import Verb, check
from rota.node.api.requests.error_codes import READING
from rota.node.api.requests.operations import Header, Operations, Success
from rota.node.api.requests.parameters import Parameter, Repeatable, text
from rota.node.api.requests.request_reader import CONTEXT
from rota.node.api.routing.forwarding import is_forwarded, owners_of
from rota.node.api.routing.merged_events import following
from rota.node.feeds.events import TYPES, Filter, Happening, Seen, Told, parse_seen
from rota.wire.documents import EventView

SSE = "text/event-stream"
NDJSON = "application/x-ndjson"
BLOCKED_S = 10.0
"""How long a reader may take nothing at all; its connection is full then, 200 KB or more."""
SEND_BUFFER = 128 << 10
"""Bytes that the system may hold for one reader; by itself it would take 4 MiB for each."""


Happenings = frozenset[Happening]


def _one_of(words: Iterable[tuple[str, Happening]]) -> Callable[[str], Happenings]:
    """Return the reader of words joined by commas, each of which stands for some happenings."""
    table: dict[str, Happenings] = {}
    for word, happening in words:
        table[word] = table.get(word, frozenset()) | {happening}

    def read(given: str) -> Happenings:
        found: Happenings = frozenset()
        for word in given.split(","):
            if word not in table:
                raise ValueError(f"{in_quotes(word)} is not one of {', '.join(table)}")
            found |= table[word]
        return found

    return read


operations = Operations("Events")
JOB = text("jobId", "Only those of one job: its id, its name in `namespace`, `namespace/name`.")
NAMESPACE = text("namespace", "Only those of jobs in it; where `jobId` is a name, where it is.")
EXECUTION = text("executionId", "Only those of one execution and its tasks.")
TYPE: Repeatable[Happenings] = Repeatable(
    "type",
    "Only those of these types, joined by commas or each given by itself; `task` stands for all "
    "types that begin with `task.`.",
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
    "Only those of executions and tasks that came into one of these states.",
    _one_of(
        (happening.value, happening)
        for happening in TYPES
        if not isinstance(happening, JobEvent | TaskEvent)
    ),
    frozenset(),
    {"type": "string"},
)
AFTER: Parameter[Seen | None] = Parameter(
    "lastEventId",
    "Like the header, for clients that cannot send it; the header wins.",
    parse_seen,
    None,
    {"type": "string"},
)
LAST_EVENT_ID = Header(
    "Last-Event-ID", "The `id` of the last event that you got: what came after it is sent first."
)
ACCEPT = Header("Accept", f"`{SSE}`, as by default, or `{NDJSON}`.")


@operations.declare(
    "GET",
    "/api/v1/events",
    Success(200, "Events, until either side closes.", EventView, media_types=(SSE, NDJSON)),
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
async def follow_events(request: web.Request) -> web.StreamResponse:
    """Follow what happens, on whatever node, as it happens.

    An event is sent once what it tells is committed, and in the order in which it was. The first
    one is `stream.opened`: what happens from then on is sent, so that a list read after it and the
    events together miss nothing. An `id` stands for everything up to it; go on after it with
    `Last-Event-ID`. `stream.gap` says that this cannot be done: list again.

    A reader may be 1,000 events behind for as long as it likes, and further for 5 seconds; then it
    is told `stream.dropped`, and the stream ends. One that takes nothing at all for 10 seconds is
    cut off. In a cluster the stream also ends, with `stream.closed`, when a node comes or goes; go
    on after its last `id` then, too.
    """
    check(request, Verb.READ, NAMESPACE.of(request) or "*")
    wanted, after = await _wanted(request), _after(request)
    framing = _framing(request)
    if request.method == "HEAD":
        return web.Response(content_type=framing.media_type)
    context = request.app[CONTEXT]
    with context.events.reader(wanted, after) as reader:
        if context.others is None or is_forwarded(request):
            return await _stream(request, reader.batches(), framing)
        # Whoever decides for a shard tells its events, so somebody has to be there for each.
        owners_of(request, context.shards)
        target = f"{request.path}?{urlencode(_query_of(request, wanted))}"
        async with following(request, context.others, reader, target, after) as batches:
            return await _stream(request, batches, framing)


@dataclass(frozen=True, slots=True)
class _Framing:
    """How events are put into the body of an answer."""

    media_type: str
    frame: Callable[[Told], bytes]
    sign_of_life: bytes

    def of(self, batch: Iterable[Told]) -> bytes:
        return b"".join(map(self.frame, batch)) or self.sign_of_life


def _sse_frame(told: Told) -> bytes:
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (
        told.id.encode(),
        told.type.encode(),
        told.document,
    )


def _ndjson_line(told: Told) -> bytes:
    return told.document + b"\n"


_FRAMINGS: Mapping[str, _Framing] = {
    SSE: _Framing(SSE, _sse_frame, b": keep-alive\n\n"),
    NDJSON: _Framing(NDJSON, _ndjson_line, b"\n"),
}


def _framing(request: web.Request) -> _Framing:
    """Return the first framing that ``Accept`` names, whatever its weight; else that of SSE."""
    for accepted in ",".join(request.headers.getall("Accept", [])).split(","):
        framing = _FRAMINGS.get(accepted.partition(";")[0].strip().lower())
        if framing is not None:
            return framing
    return _FRAMINGS[SSE]


async def _wanted(request: web.Request) -> Filter:
    """Return which events are asked for.

    Raises:
        Refused: A parameter cannot be read, or there is no such job or execution.
    """
    named = JOB.of(request)
    return Filter(
        happenings=_happenings(request),
        namespace="" if named else NAMESPACE.of(request) or "",
        job_id=await _job_id(request, named) if named else None,
        execution_id=await _execution_id(request),
    )


def _happenings(request: web.Request) -> Happenings | None:
    """Return those of the types asked for that have one of the states asked for; None for all."""
    asked = [given for given in (TYPE.all_of(request), STATUS.all_of(request)) if given]
    if not asked:
        return None
    admitted = [frozenset[Happening]().union(*given) for given in asked]
    return admitted[0].intersection(*admitted)


def _query_of(request: web.Request, wanted: Filter) -> list[tuple[str, str]]:
    """Return the query that asks another node for the same, to be checked no more."""
    query = [
        (each.name, given)
        for each in (TYPE, STATUS)
        for given in request.query.getall(each.name, [])
    ]
    filters = {
        NAMESPACE.name: wanted.namespace,
        JOB.name: wanted.job_id,
        EXECUTION.name: wanted.execution_id,
    }
    return query + [(name, value) for name, value in filters.items() if value]


async def _job_id(request: web.Request, named: str) -> JobId:
    if is_forwarded(request):
        return JobId(named)
    return (await job_named(request, named)).id


async def _execution_id(request: web.Request) -> ExecutionId | None:
    given = EXECUTION.of(request)
    if given is None:
        return None
    if not is_execution_id(given):
        raise not_found("execution", given)
    if not is_forwarded(request):
        await check_execution(request, ExecutionId(given))
    return ExecutionId(given)


def _after(request: web.Request) -> Seen | None:
    """Return what has been seen; a browser's header is newer than what its URL says."""
    given = request.headers.get("Last-Event-ID")
    if not given:
        return AFTER.of(request)
    try:
        return parse_seen(given)
    except ValueError as error:
        problem = Problem("/headers/Last-Event-ID", str(error))
        raise invalid("invalid_event_id", f"Last-Event-ID: {error}", problem) from error


async def _stream(
    request: web.Request, events: AsyncGenerator[list[Told]], framing: _Framing
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"X-Accel-Buffering": "no"})
    response.content_type = framing.media_type
    # The connection has a small buffer from now on, which would slow down other answers.
    response.force_close()
    _bound_buffer(request)
    await response.prepare(request)
    try:
        async with aclosing(events) as batches:
            async for batch in batches:
                async with asyncio.timeout(BLOCKED_S):
                    await response.write(framing.of(batch))
                    await request.writer.drain()
    except TimeoutError:
        # What it does not take would only lie behind what it did not take before.
        if request.transport is not None:
            request.transport.abort()
    return response


def _bound_buffer(request: web.Request) -> None:
    connection = request.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
