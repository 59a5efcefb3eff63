"""The live events over HTTP: as server-sent events, or one JSON document a line."""

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass

from aiohttp import web

from rota.client.wire import EventView
from rota.core.effects import JobEvent, TaskEvent
from rota.core.errors import Problem, invalid, not_found
from rota.core.ids import ExecutionId, JobId, is_execution_id
from rota.node.api.access import Verb, check
from rota.node.api.codes import READING
from rota.node.api.executions import load_execution
from rota.node.api.operations import Header, Operations, Success
from rota.node.api.parameters import Parameter, Repeatable, text
from rota.node.api.requests import PARTS, find_job
from rota.node.events import TYPES, EventId, Filter, Happening, Reader, Told, parse_event_id

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
                raise ValueError(f"{word!r} is not one of {', '.join(table)}")
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
AFTER: Parameter[EventId | None] = Parameter(
    "lastEventId",
    "Like the header, for clients that cannot send it; the header wins.",
    parse_event_id,
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
        "stopping",
        *READING,
    ),
)
async def follow_events(request: web.Request) -> web.StreamResponse:
    """Follow what happens on the node, as it happens.

    An event is sent once what it tells is committed, and in the order in which it was. The first
    one is `stream.opened`: what happens from then on is sent, so that a list read after it and the
    events together miss nothing. An `id` stands for everything up to it; go on after it with
    `Last-Event-ID`. `stream.gap` says that this cannot be done: list again.

    A reader may be 1,000 events behind for as long as it likes, and further for 5 seconds; then it
    is told `stream.dropped`, and the stream ends. One that takes nothing at all for 10 seconds is
    cut off.
    """
    check(request, Verb.READ, NAMESPACE.of(request) or "*")
    wanted, after = await _wanted(request), _after(request)
    framing = _framing(request)
    if request.method == "HEAD":
        return web.Response(content_type=framing.media_type)
    with request.app[PARTS].events.reader(wanted, after) as reader:
        return await _stream(request, reader, framing)


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


async def _job_id(request: web.Request, named: str) -> JobId:
    shard, job = find_job(request, named)
    await request.app[PARTS].shards.settled(shard)
    return job.id


async def _execution_id(request: web.Request) -> ExecutionId | None:
    given = EXECUTION.of(request)
    if given is None:
        return None
    if not is_execution_id(given):
        raise not_found("execution", given)
    execution, _ = await load_execution(request.app[PARTS], ExecutionId(given))
    return execution.id


def _after(request: web.Request) -> EventId | None:
    """Return the id to go on after; a browser's header is newer than what its URL says."""
    given = request.headers.get("Last-Event-ID")
    if not given:
        return AFTER.of(request)
    try:
        return parse_event_id(given)
    except ValueError as error:
        problem = Problem("/headers/Last-Event-ID", str(error))
        raise invalid("invalid_event_id", f"Last-Event-ID: {error}", problem) from error


async def _stream(request: web.Request, reader: Reader, framing: _Framing) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
    response.content_type = framing.media_type
    # The connection has a small buffer from now on, which would slow down other answers.
    response.force_close()
    _bound_buffer(request)
    await response.prepare(request)
    try:
        async with aclosing(reader.batches()) as batches:
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
