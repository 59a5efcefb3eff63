"""Executions: read, list, wait for, cancel."""

import heapq
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager

import msgspec
from aiohttp import web
from msgspec.structs import replace

from rota.core.errors import Kind, Problem, Refused, invalid, not_found
from rota.core.model.execution import Execution, ExecutionStatus, Task, in_place
from rota.core.model.ids import ExecutionId, JobId, NodeId, instant_of, is_execution_id
from rota.core.quoting import in_quotes
from rota.core.timing.instants import SECOND, Duration, Instant, parse_duration, seconds
from rota.core.vocabulary.codec import Undecodable
from rota.core.vocabulary.commands import Cancel
from rota.node.api.documents.views import execution_view
from rota.node.api.requests import request_reader
from rota.node.api.requests.access import Verb, check
from rota.node.api.requests.error_codes import DECIDING, READING, WAITING
from rota.node.api.requests.operations import Body, Operations, Success
from rota.node.api.requests.parameters import (
    DRY_RUN,
    FROM,
    LIMIT,
    TO,
    Parameter,
    choice,
    text,
    timespan,
)
from rota.node.api.requests.request_reader import (
    CONTEXT,
    check_count,
    document,
    find_job_id,
    read_body,
    target_of,
)
from rota.node.api.routing.forwarding import all_of, ask_part, headers_of, owners_of, shards_meant
from rota.node.api.routing.scatter_gather import Page, merged, pages_of
from rota.node.api.routing.writes import write
from rota.node.context import NodeContext
from rota.node.peers.peer_apis import PeerRequest
from rota.node.shards.shard import Shard
from rota.storage.history import NEWEST, UnreadableExecution, past_before
from rota.wire.documents import (
    ExecutionList,
    ExecutionView,
    Timespan,
    WaitManyBody,
)

operations = Operations("Executions")
WAIT_DEFAULT = Duration(30 * SECOND)
WAIT_MAX = Duration(300 * SECOND)
TIMEOUT = timespan("timeout", "How long to wait; at most 300 seconds count.", default=WAIT_DEFAULT)
JOB = text("jobId", "Only those of one job: its id, or its name together with `namespace`.")
NAMESPACE = text("namespace", "Only those of jobs in it; where `jobId` is a name, where it is.")
STATUS = choice("status", "Only those in it.", [each.value for each in ExecutionStatus])
SCANNED_MAX = 10_000
"""Executions that one page looks at: a filter that matches nothing must not stall the node."""


def _read_cursor(text: str) -> ExecutionId:
    if not is_execution_id(text):
        raise ValueError(f"{in_quotes(text)} is not the nextCursor of a page")
    return ExecutionId(text)


CURSOR: Parameter[ExecutionId | None] = Parameter(
    "cursor", "The `nextCursor` of the page before.", _read_cursor, None, {"type": "string"}
)


async def load_execution(
    context: NodeContext, execution_id: ExecutionId
) -> tuple[Execution, dict[str, Task]]:
    """Return an execution and its tasks, as committed.

    Raises:
        Refused: There is none with that id, or one of its records cannot be read.
    """
    shard = context.shards.of_id(execution_id)
    live = shard.state.executions.get(execution_id)
    if live is not None:
        tasks = dict(shard.state.tasks[execution_id])
        await context.shards.settled(shard)
        return live, tasks
    await context.shards.settled(shard)
    with _readable():
        return _past(context, execution_id), context.history.tasks(shard.id, execution_id)


@contextmanager
def _readable() -> Generator[None]:
    """Turn the error of a record that cannot be decoded into a refusal that names the record."""
    try:
        yield
    except Undecodable as error:
        raise Refused(Kind.UNREADABLE, "record_unreadable", str(error)) from error


async def _whole(context: NodeContext, execution_id: ExecutionId) -> ExecutionView:
    """Return all that is known of an execution, what stand-ins ran under its id included.

    One that only a stand-in ran, where the ledger says why its shard did not, is that alone.

    Raises:
        Refused: There is none with that id, or one of its records cannot be read.
    """
    shard = context.shards.of_id(execution_id)
    with _readable():
        accounts = context.history.duplicates(shard.id, execution_id)
    try:
        execution, tasks = await load_execution(context, execution_id)
    except Refused as refusal:
        if refusal.kind is not Kind.NOT_FOUND or not accounts:
            raise
        account, *accounts = accounts
        execution = replace(account.execution, stand_in=account.node_id)
        tasks = in_place(account.tasks)
    return execution_view(execution, tasks, accounts)


@operations.declare(
    "GET",
    "/api/v1/executions/{execution}",
    Success(200, "The execution and its tasks.", ExecutionView),
    problems=("execution_not_found", *READING),
)
async def get_execution(request: web.Request) -> web.Response:
    """Show an execution with its tasks."""
    check(request, Verb.READ, "*")
    execution_id = request_reader.execution_id_of(request)
    return document(await _whole(request.app[CONTEXT], execution_id))


@operations.declare(
    "GET",
    "/api/v1/executions/{execution}/wait",
    Success(200, "The execution, as it is then.", ExecutionView),
    query=(TIMEOUT,),
    problems=("execution_not_found", *WAITING),
)
async def wait_for_execution(request: web.Request) -> web.Response:
    """Answer when an execution has ended, or after a timeout.

    The answer shows the execution as it is then: ``finishedAt`` tells which of the two it was. A
    node that stops answers 503, ``stopping``.
    """
    check(request, Verb.READ, "*")
    context = request.app[CONTEXT]
    execution_id = request_reader.execution_id_of(request)
    timeout = min(TIMEOUT.of(request), WAIT_MAX)
    shard = context.shards.of_id(execution_id)
    if execution_id in shard.state.executions:
        await context.waiters.ended([execution_id], timeout / SECOND)
    return document(await _whole(context, execution_id))


@operations.declare(
    "POST",
    "/api/v1/executions/{execution}/cancel",
    Success(202, "The execution; its end is asked for.", ExecutionView),
    query=(DRY_RUN,),
    problems=("execution_not_found", *DECIDING),
)
async def cancel_execution(request: web.Request) -> web.Response:
    """End an execution.

    Nothing more of it starts; attempts that run get TERM, and KILL after their ``stopGrace``. It is
    ``cancelled`` when the last has ended. One that is over is left as it is, and shown.
    """
    check(request, Verb.RUN, "*")
    context = request.app[CONTEXT]
    execution_id = request_reader.execution_id_of(request)
    shard = context.shards.of_id(execution_id)
    found = None
    if execution_id in shard.state.executions:
        try:
            _, written = await write(request, shard, Cancel(execution_id=execution_id))
            found = written.execution(shard, execution_id)
        except Refused as refusal:
            # It may have ended while the request waited its turn.
            if refusal.kind is not Kind.NOT_FOUND:
                raise
    execution, tasks = found or await load_execution(context, execution_id)
    return document(execution_view(execution, tasks), status=202)


@operations.declare(
    "POST",
    "/api/v1/executions:wait",
    Success(200, "The executions in the order asked for, without their tasks.", ExecutionList),
    body=Body(WaitManyBody),
    problems=(
        "no_items",
        "too_many_items",
        "invalid_execution_id",
        "execution_not_found",
        *WAITING,
    ),
)
async def wait_for_many(request: web.Request) -> web.Response:
    """Answer when many executions have ended, or after a timeout with what they are then."""
    check(request, Verb.READ, "*")
    context = request.app[CONTEXT]
    body = await read_body(request, WaitManyBody)
    check_count(len(body.execution_ids), "/executionIds")
    ids = [_checked_id(text, number) for number, text in enumerate(body.execution_ids)]
    by_shard: dict[Shard, list[ExecutionId]] = defaultdict(list)
    for execution_id in ids:
        by_shard[context.shards.of_id(execution_id)].append(execution_id)
    owners = owners_of(request, by_shard)

    def ids_of(shards: list[Shard]) -> list[ExecutionId]:
        return [each for shard in shards for each in by_shard[shard]]

    waits = [_ended(context, ids_of(owners.here), _wait_of(body))]
    for node_id, shards in owners.there.items():
        waits.append(_ended_there(request, node_id, ids_of(shards), body.timeout))
    views: dict[str, ExecutionView] = {}
    for ended in await all_of(waits):
        views |= ended
    return document(ExecutionList(items=[views[each] for each in ids]))


async def _ended_there(
    request: web.Request, node_id: NodeId, ids: list[ExecutionId], patience: Timespan
) -> dict[str, ExecutionView]:
    """Return what executions of another node are when they have ended, or after a timeout."""
    body = WaitManyBody(execution_ids=list(ids), timeout=patience)
    asked = PeerRequest(
        method="POST",
        target=target_of(request),
        headers=headers_of(request),
        body=msgspec.json.encode(body),
    )
    answer = await ask_part(request, node_id, asked, ExecutionList)
    return {view.execution_id: view for view in answer.items}


async def _ended(
    context: NodeContext, ids: list[ExecutionId], patience: Duration
) -> dict[str, ExecutionView]:
    """Return what executions of this node are when they have ended, or after a timeout."""
    open_ones = [each for each in ids if each in context.shards.of_id(each).state.executions]
    await context.waiters.ended(open_ones, patience / SECOND)
    live = [context.shards.of_id(each).state.executions.get(each) for each in ids]
    await context.shards.settled(*{context.shards.of_id(each) for each in ids})
    return {
        each: execution_view(execution or _past_or_unreadable(context, each))
        for each, execution in zip(ids, live, strict=True)
    }


@operations.declare(
    "GET",
    "/api/v1/executions",
    Success(200, "A page of executions, without their tasks.", ExecutionList),
    query=(JOB, NAMESPACE, STATUS, FROM, TO, LIMIT, CURSOR),
    problems=("job_not_found", *READING),
)
async def list_executions(request: web.Request) -> web.Response:
    """List executions of one job or of all, latest fire time first.

    One page looks at 10,000 executions at most: with a filter it may hold fewer than ``limit``, or
    none, and still have a ``nextCursor``.
    """
    check(request, Verb.READ, "*")
    if named := JOB.of(request):
        shard, job_id = find_job_id(request, named)
        return document(await _page(request, [shard], *_streams_of(request, shard, job_id)))
    owners = owners_of(request, shards_meant(request))
    here = await _page(request, owners.here, *_streams(request, owners.here))
    if not owners.there:
        return document(here)
    pages = [here, *await pages_of(request, owners, ExecutionList)]
    page = merged(
        [Page(each.items, each.next_cursor) for each in pages],
        LIMIT.of(request),
        cursor_of=lambda execution: execution.execution_id,
        place=lambda cursor: _order_of(ExecutionId(cursor)),
        is_descending=True,
    )
    return document(ExecutionList(items=list(page.items), next_cursor=page.next_cursor))


Listed = Execution | UnreadableExecution
Stream = Callable[[], Iterable[Listed]]
"""Yields executions, newest first."""


async def _page(
    request: web.Request, shards: Sequence[Shard], past: Stream, live: Stream
) -> ExecutionList:
    """Return a page of what has ended and of what is not finished as it is at this moment."""
    matches, limit = _filter_of(request), LIMIT.of(request)
    await request.app[CONTEXT].shards.settled(*shards)
    items: list[ExecutionView] = []
    next_cursor: ExecutionId | None = None
    last: ExecutionId | None = None
    scanned = 0
    for execution in heapq.merge(past(), live(), key=_order, reverse=True):
        if execution.id == last:
            # It ended while this page was read: the history's word stands.
            continue
        if len(items) >= limit or scanned >= SCANNED_MAX:
            next_cursor = last
            break
        last = execution.id
        scanned += 1
        if matches(execution):
            items.append(execution_view(execution))
    return ExecutionList(items=items, next_cursor=next_cursor)


def _streams_of(request: web.Request, shard: Shard, job_id: JobId) -> tuple[Stream, Stream]:
    """Return the executions of one job."""
    before, history = CURSOR.of(request), request.app[CONTEXT].history
    live = [shard.state.executions[each] for each in shard.state.live_of(job_id)]
    return (
        lambda: history.executions_of(shard.id, job_id, before),
        _newest_first(live, before),
    )


def _streams(request: web.Request, shards: Sequence[Shard]) -> tuple[Stream, Stream]:
    """Return the executions of *shards*."""
    before, history = CURSOR.of(request), request.app[CONTEXT].history
    live = [each for shard in shards for each in shard.state.executions.values()]
    start, numbers = past_before(before) if before else NEWEST, [shard.id for shard in shards]
    return lambda: history.executions(start, numbers), _newest_first(live, before)


def _newest_first(live: list[Execution], before: ExecutionId | None) -> Stream:
    limit = _order_of(before) if before else None
    chosen = [each for each in live if limit is None or _order(each) < limit]
    chosen.sort(key=_order, reverse=True)
    return lambda: chosen


def _order_of(execution_id: ExecutionId) -> tuple[Instant, ExecutionId]:
    return instant_of(execution_id), execution_id


def _order(execution: Listed) -> tuple[Instant, ExecutionId]:
    return _order_of(execution.id)


def _filter_of(request: web.Request) -> Callable[[Listed], bool]:
    status = STATUS.of(request)
    since, until = FROM.of(request), TO.of(request)
    within = "" if JOB.of(request) else _prefix_of(NAMESPACE.of(request))

    def matches(execution: Listed) -> bool:
        if isinstance(execution, UnreadableExecution):
            # Its status and its namespace are not known.
            return status is None and not within and since <= instant_of(execution.id) < until
        return (
            (status is None or execution.status.value == status)
            and since <= execution.fire_at < until
            and execution.job_name.startswith(within)
        )

    return matches


def _prefix_of(namespace: str | None) -> str:
    return "" if namespace is None else f"{namespace}/"


def _past(context: NodeContext, execution_id: ExecutionId) -> Execution:
    past = context.history.execution(context.shards.of_id(execution_id).id, execution_id)
    if past is None:
        raise not_found("execution", execution_id)
    return past


def _past_or_unreadable(
    context: NodeContext, execution_id: ExecutionId
) -> Execution | UnreadableExecution:
    try:
        return _past(context, execution_id)
    except Undecodable as error:
        return UnreadableExecution(execution_id, str(error))


def _checked_id(text: str, number: int) -> ExecutionId:
    if not is_execution_id(text):
        detail = f"{in_quotes(text)} is not an execution id"
        raise invalid("invalid_execution_id", detail, Problem(f"/executionIds/{number}", detail))
    return ExecutionId(text)


def _wait_of(body: WaitManyBody) -> Duration:
    try:
        asked = body.timeout
        timeout = parse_duration(asked) if isinstance(asked, str) else seconds(asked)
    except (ValueError, OverflowError) as error:
        raise invalid("invalid_body", str(error), Problem("/timeout", str(error))) from error
    return min(timeout, WAIT_MAX)
