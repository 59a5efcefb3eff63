"""Operations on executions: read, list, wait, cancel."""

import heapq
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager

import msgspec
from aiohttp import web
from msgspec.structs import replace

from rota.core.errors import Kind, Problem, Refused, invalid, not_found
from rota.core.model.execution import Execution, ExecutionStatus, Task, TaskStatus, in_place
from rota.core.model.given_durations import read_duration
from rota.core.model.ids import (
    ExecutionId,
    JobId,
    NodeId,
    instant_of,
    is_execution_id,
    job_of,
    namespace_of,
)
from rota.core.quoting import in_quotes
from rota.core.timing.instants import SECOND, Duration, Instant
from rota.core.vocabulary.codec import Undecodable
from rota.core.vocabulary.commands import Cancel
from rota.core.vocabulary.decision import Reply, Triggered
from rota.node.access.verbs import EVERY, Verb
from rota.node.api.documents.omitted_output import execution_without_tasks, without_output
from rota.node.api.documents.record_views import execution_view
from rota.node.api.forwarding.peer_requests import (
    ask_peer,
    forwarded_headers,
    gathered,
    owners_of,
    requested_shards,
)
from rota.node.api.forwarding.scatter_gather import Page, merged, pages_of
from rota.node.api.requests.authors import author_of
from rota.node.api.requests.error_codes import DECIDING, READING, WAITING
from rota.node.api.requests.operations import Body, Operations, Success
from rota.node.api.requests.parameters import (
    DRY_RUN,
    FROM,
    LIMIT,
    TO,
    Parameter,
    choice_of_status,
    flag,
    text,
    timespan,
)
from rota.node.api.requests.permissions import on_each, on_object
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import check_count, document, read_body, target_of
from rota.node.api.requests.targets import (
    execution_id_of,
    find_job_id,
    shard_named,
    shard_of_execution,
)
from rota.node.api.requests.writes import write
from rota.node.context import NodeContext
from rota.node.peers.peer_apis import PeerRequest
from rota.node.shards.shard import Shard
from rota.node.system.pacing import Pace
from rota.storage.history import NEWEST, KeptPosition, UnreadableExecution, past_before
from rota.wire import operations as api
from rota.wire.documents import (
    ExecutionList,
    ExecutionView,
    Timespan,
    TriggeredView,
    WaitManyBody,
)

operations = Operations("Executions")
WAIT_DEFAULT = Duration(30 * SECOND)
WAIT_MAX = Duration(300 * SECOND)
TIMEOUT = timespan("timeout", "How long to wait, at most 300 seconds.", default=WAIT_DEFAULT)
JOB = text("jobId", "Only executions of this job: its id, or its name in `namespace`.")
NAMESPACE = text(
    "namespace",
    "Only executions of jobs in this namespace; also the namespace of a `jobId` that is a name.",
)
STATUS = choice_of_status(
    "status", "Only executions with this status.", [each.value for each in ExecutionStatus]
)
EXAMINED_MAX = 10_000
"""The most executions that are examined for one page, so that a filter without matches cannot stall
the node."""


def _read_cursor(text: str) -> ExecutionId:
    if not is_execution_id(text):
        raise ValueError(
            f"{in_quotes(text)} is not a cursor; send the nextCursor of the previous page"
        )
    return ExecutionId(text)


CURSOR: Parameter[ExecutionId | None] = Parameter(
    "cursor", "The `nextCursor` of the previous page.", _read_cursor, None, {"type": "string"}
)


async def load_execution(
    request: RequestContext, execution_id: ExecutionId
) -> tuple[Execution, dict[str, Task]]:
    """Return an execution and its tasks, as committed.

    Raises:
        Refused: The execution does not exist, the caller lacks the operation's verb in its
            namespace, or one of its records cannot be read.
    """
    shard = request.node.shards.of_id(execution_id)
    state = request.state(shard)
    live = state.executions.get(execution_id)
    tasks = dict(state.tasks[execution_id]) if live is not None else {}
    history = await request.history(shard)
    if live is not None:
        authorize(request, live)
        return live, tasks
    with _readable():
        past = _past(request.node, execution_id)
        authorize(request, past)
        return past, history.tasks(shard.id, execution_id)


def authorize(request: RequestContext, execution: Execution) -> None:
    """Check that the caller has the operation's verb in the namespace of an execution.

    Raises:
        Refused: The caller lacks the verb.
    """
    missing = not_found("execution", execution.id)
    request.authorize_execution(execution.id, namespace_of(execution.job_name), missing=missing)


@contextmanager
def _readable() -> Generator[None]:
    """Turn the error of an undecodable record into a refusal that names the record."""
    try:
        yield
    except Undecodable as error:
        raise Refused(Kind.UNREADABLE, "record_unreadable", str(error)) from error


def created_execution(made: Reply) -> web.Response:
    """Return the response to a request that created an execution."""
    assert isinstance(made, Triggered), made
    view = TriggeredView(
        execution_id=made.execution_id,
        job_id=job_of(made.execution_id),
        status=ExecutionStatus.QUEUED.value,
    )
    headers = {"Location": f"/api/v1/executions/{made.execution_id}"}
    return document(view, status=201, headers=headers)


async def complete_view(
    request: RequestContext, execution_id: ExecutionId, *, has_parameters: bool = False
) -> ExecutionView:
    """Return the complete document of an execution, with the runs of stand-ins under its id.

    An execution that only a stand-in ran is shown as the stand-in recorded it. The ledger has the
    reason why the shard of the execution did not run it.

    Args:
        request: The request.
        execution_id: The execution.
        has_parameters: Whether to include its parameters, for a caller with the verb ``logs``.

    Raises:
        Refused: The execution does not exist, or one of its records cannot be read.
    """
    shard = request.node.shards.of_id(execution_id)
    with _readable():
        duplicates = request.node.history.duplicates(shard.id, execution_id)
    try:
        execution, tasks = await load_execution(request, execution_id)
    except Refused as refusal:
        if refusal.kind is not Kind.NOT_FOUND or not duplicates:
            raise
        first, *duplicates = duplicates
        authorize(request, first.execution)
        execution = replace(first.execution, stand_in=first.node_id)
        tasks = in_place(first.tasks)
    view = execution_view(execution, _with_places(request, execution, tasks), duplicates)
    return _permitted(request, execution, view, has_parameters=has_parameters)


def _permitted(
    request: RequestContext,
    execution: Execution | UnreadableExecution,
    view: ExecutionView,
    *,
    has_parameters: bool = False,
) -> ExecutionView:
    """Return *view* as the caller may read it.

    Without the verb ``logs`` the view has no output, and no text of an exception; parameters may be
    as confidential as output.
    """
    if not request.may(Verb.LOGS, _namespace_of(execution)):
        return without_output(view)
    if not has_parameters or isinstance(execution, UnreadableExecution) or not execution.parameters:
        return view
    # They were checked to be JSON when they were recorded.
    return replace(view, parameters=msgspec.Raw(execution.parameters.encode()))


def _with_places(
    request: RequestContext, execution: Execution, tasks: dict[str, Task]
) -> dict[str, Task]:
    """Return *tasks*; the reason of a task that waits for a slot has its place in the queue."""
    if not any(task.status is TaskStatus.READY for task in tasks.values()):
        return tasks
    table = request.node.attempts.slot_table
    slots = f"waits for a slot: {table.used} of {table.slots} used"
    places = table.places_of(execution.id)
    return {
        name: replace(task, reason=f"{task.reason or slots}, {places[name]} before it")
        if name in places
        else task
        for name, task in tasks.items()
    }


FORCE = flag("force", "Stop teardowns, too.")


@operations.declare(
    api.GET_EXECUTION,
    Success(200, "The execution and its tasks."),
    permission=on_object(Verb.READ),
    target=shard_of_execution,
    problems=("execution_not_found", *READING),
)
async def get_execution(request: RequestContext) -> web.Response:
    """Show an execution with its tasks.

    Parameters, and output, results and exceptions of attempts, are left out for a caller without
    the verb ``logs``. A reason, also in lists and events, ends before the message of an exception
    then: ``ValueError``.
    """
    execution_id = execution_id_of(request)
    return document(await complete_view(request, execution_id, has_parameters=True))


@operations.declare(
    api.WAIT,
    Success(200, "The execution at the end of the wait."),
    permission=on_object(Verb.READ),
    target=shard_of_execution,
    query=(TIMEOUT,),
    problems=("execution_not_found", *WAITING),
)
async def wait_for_execution(request: RequestContext) -> web.Response:
    """Wait until an execution ends, or until a timeout.

    After a timeout ``finishedAt`` is null. A node that stops during the wait responds with 503,
    ``stopping``.
    """
    execution_id = execution_id_of(request)
    timeout = min(TIMEOUT.of(request), WAIT_MAX)
    live = request.state(request.shard).executions.get(execution_id)
    if live is not None:
        authorize(request, live)
        await request.node.waiters.ended([execution_id], timeout / SECOND)
    return document(await complete_view(request, execution_id))


@operations.declare(
    api.CANCEL,
    Success(202, "The execution; its cancellation is requested."),
    permission=on_object(Verb.RUN),
    target=shard_of_execution,
    query=(FORCE, DRY_RUN),
    problems=("execution_not_found", *DECIDING),
)
async def cancel_execution(request: RequestContext) -> web.Response:
    """Cancel an execution.

    None of its tasks starts any more, except teardowns. Its running attempts get SIGTERM, and
    SIGKILL after their ``stopGrace``. The execution is ``cancelled`` when its last attempt has
    ended. An execution that has ended already is returned unchanged. With ``force``, which may
    follow a cancellation without it, teardowns are stopped, too.
    """
    execution_id, shard, is_forced = execution_id_of(request), request.shard, FORCE.of(request)
    found = None
    live = request.state(shard).executions.get(execution_id)
    if live is not None:
        authorize(request, live)
        try:
            cancel = Cancel(
                execution_id=execution_id,
                author=author_of(request),
                is_forced=is_forced,
            )
            _, written = await write(request, shard, cancel)
            found = written.execution(shard, execution_id)
        except Refused as refusal:
            # The execution may have ended before the command was decided.
            if refusal.kind is not Kind.NOT_FOUND:
                raise
    found = found or await load_execution(request, execution_id)
    return document(after_change(request, *found), status=202)


def after_change(
    request: RequestContext, execution: Execution, tasks: dict[str, Task]
) -> ExecutionView:
    """Return the answer to a change of an execution, without what the caller may not read."""
    view = _permitted(request, execution, execution_view(execution, tasks))
    may_read = request.may(Verb.READ, namespace_of(execution.job_name))
    return view if may_read else execution_without_tasks(view)


@operations.declare(
    api.WAIT_FOR_MANY,
    Success(200, "The executions in the order of the request, without their tasks."),
    permission=on_each(Verb.READ),
    body=Body(WaitManyBody),
    problems=(
        "no_items",
        "too_many_items",
        "invalid_execution_id",
        "execution_not_found",
        *WAITING,
    ),
)
async def wait_for_many(request: RequestContext) -> web.Response:
    """Wait until several executions end, or until a timeout."""
    shards = request.node.shards
    body = await read_body(request, WaitManyBody)
    check_count(len(body.execution_ids), "/executionIds")
    ids = [_checked_id(text, number) for number, text in enumerate(body.execution_ids)]
    by_shard: dict[Shard, list[ExecutionId]] = defaultdict(list)
    for execution_id in ids:
        by_shard[shards.of_id(execution_id)].append(execution_id)
    owners = owners_of(request, by_shard)

    def ids_of(owned: list[Shard]) -> list[ExecutionId]:
        return [each for shard in owned for each in by_shard[shard]]

    waits = [_ended(request, ids_of(owners.local), _timeout_of(body))]
    for node_id, owned in owners.remote.items():
        waits.append(_ended_remotely(request, node_id, ids_of(owned), body.timeout))
    views: dict[str, ExecutionView] = {}
    for ended in await gathered(waits):
        views |= ended
    return document(ExecutionList(items=[views[each] for each in ids]))


async def _ended_remotely(
    request: RequestContext, node_id: NodeId, ids: list[ExecutionId], limit: Timespan
) -> dict[str, ExecutionView]:
    """Return executions of another node, by id, once they have ended or after a timeout."""
    body = WaitManyBody(execution_ids=list(ids), timeout=limit)
    sent = PeerRequest(
        method="POST",
        target=target_of(request.http),
        headers=forwarded_headers(request),
        body=msgspec.json.encode(body),
    )
    response = await ask_peer(request, node_id, sent, ExecutionList)
    return {view.execution_id: view for view in response.items}


async def _ended(
    request: RequestContext, ids: list[ExecutionId], limit: Duration
) -> dict[str, ExecutionView]:
    """Return executions of this node, by id, once they have ended or after a timeout."""

    def live(execution_id: ExecutionId) -> Execution | None:
        shard = request.node.shards.of_id(execution_id)
        return request.state(shard).executions.get(execution_id)

    unfinished = [execution for each in ids if (execution := live(each))]
    for execution in unfinished:
        authorize(request, execution)
    await request.node.waiters.ended([each.id for each in unfinished], limit / SECOND)
    found = [live(each) for each in ids]
    await request.settle()  # Executions that have ended are in the history then.
    ended: dict[str, ExecutionView] = {}
    for each, execution in zip(ids, found, strict=True):
        shown = execution or _past_or_unreadable(request.node, each)
        namespace, missing = _namespace_of(shown), not_found("execution", each)
        request.authorize_execution(each, namespace, missing=missing, of=each)
        ended[each] = _permitted(request, shown, execution_view(shown))
    return ended


def _namespace_of(execution: Execution | UnreadableExecution) -> str:
    """Return the namespace of an execution; `EVERY` if its record cannot be read."""
    if isinstance(execution, UnreadableExecution):
        return EVERY
    return namespace_of(execution.job_name)


async def _shard_to_list(request: RequestContext) -> Shard | None:
    """Return the shard of the job whose executions are listed; None for all jobs."""
    named = JOB.of(request)
    return shard_named(request, named) if named else None


@operations.declare(
    api.LIST_EXECUTIONS,
    Success(200, "A page of executions, without their tasks."),
    permission=on_each(Verb.READ),
    target=_shard_to_list,
    query=(JOB, NAMESPACE, STATUS, FROM, TO, LIMIT, CURSOR),
    problems=("job_not_found", *READING),
)
async def list_executions(request: RequestContext) -> web.Response:
    """List executions of one job or of all jobs, latest fire time first.

    The list of all jobs has the executions within the retention (setting `history`); the list of
    one job also has its newest executions, which are kept longer (`history_per_job`). At most
    10,000 executions are examined for one page; in the list of all jobs these include the
    executions that are kept longer. A page may therefore have fewer than ``limit`` executions, or
    none, and still a ``nextCursor``.
    """
    if named := JOB.of(request):
        shard, job_id = find_job_id(request, named)
        of_job = _streams_of(request, shard, job_id, CURSOR.of(request))
        return document(await _page(request, [shard], *of_job, _filter_of(request)))
    owners = owners_of(request, requested_shards(request))
    of_all = _streams(request, owners.local)
    local = await _page(request, owners.local, *of_all, _filter_of(request))
    if not owners.remote:
        return document(local)
    pages = [local, *await pages_of(request, owners, ExecutionList)]
    page = merged(
        [Page(each.items, each.next_cursor) for each in pages],
        LIMIT.of(request),
        cursor_of=lambda execution: execution.execution_id,
        position=lambda cursor: _order_of(ExecutionId(cursor)),
        is_descending=True,
    )
    return document(ExecutionList(items=list(page.items), next_cursor=page.next_cursor))


Listed = Execution | UnreadableExecution
Stream = Callable[[], Iterable[Listed | KeptPosition]]
"""Yields executions, newest first, and the positions of executions that are not listed."""


async def executions_at(
    request: RequestContext, shard: Shard, job_id: JobId, at: Instant, limit: int
) -> list[ExecutionView]:
    """Return the executions of a job with the fire time *at*, the newest first, without tasks.

    Returns:
        At most *limit*, of the newest `EXAMINED_MAX` executions of the job.
    """

    def matches(execution: Listed) -> bool:
        return isinstance(execution, Execution) and execution.fire_at == at

    of_job = _streams_of(request, shard, job_id, None)
    return (await _page(request, [shard], *of_job, matches, limit)).items


async def _page(
    request: RequestContext,
    shards: Sequence[Shard],
    past: Stream,
    live: Stream,
    matches: Callable[[Listed], bool],
    limit: int | None = None,
) -> ExecutionList:
    """Return a page of ended executions (*past*) and of unfinished ones (*live*)."""
    limit = limit or LIMIT.of(request)
    await request.settle(*shards)  # Executions that have ended are in the history then.
    items: list[ExecutionView] = []
    next_cursor: ExecutionId | None = None
    last: ExecutionId | None = None
    examined = 0
    pace = Pace()
    await pace.next_slice()
    for execution in heapq.merge(past(), live(), key=_order, reverse=True):
        await pace.rest()
        if execution.id == last:
            # The execution ended while this page was read; its record in the history is newer.
            continue
        if len(items) >= limit or examined >= EXAMINED_MAX:
            next_cursor = last
            break
        last = execution.id
        examined += 1
        if not isinstance(execution, KeptPosition) and matches(execution):
            items.append(_permitted(request, execution, execution_view(execution)))
    for shard in shards:
        # The primary may have changed in a pause, so the authority is checked before the response.
        request.note_read(shard)
    return ExecutionList(items=items, next_cursor=next_cursor)


def _streams_of(
    request: RequestContext, shard: Shard, job_id: JobId, before: ExecutionId | None
) -> tuple[Stream, Stream]:
    """Return the past and the unfinished executions of one job, from *before* down."""
    history = request.node.history
    state = request.state(shard)
    live = [state.executions[each] for each in state.live_of(job_id)]
    return (
        lambda: history.executions_of(shard.id, job_id, before),
        _newest_first(live, before),
    )


def _streams(request: RequestContext, shards: Sequence[Shard]) -> tuple[Stream, Stream]:
    """Return the past and the unfinished executions of *shards*."""
    before, history = CURSOR.of(request), request.node.history
    live = [each for shard in shards for each in request.state(shard).executions.values()]
    start, numbers = past_before(before) if before else NEWEST, [shard.id for shard in shards]
    return lambda: history.executions(start, numbers), _newest_first(live, before)


def _newest_first(live: list[Execution], before: ExecutionId | None) -> Stream:
    limit = _order_of(before) if before else None
    chosen = [each for each in live if limit is None or _order(each) < limit]
    chosen.sort(key=_order, reverse=True)
    return lambda: chosen


def _order_of(execution_id: ExecutionId) -> tuple[Instant, ExecutionId]:
    return instant_of(execution_id), execution_id


def _order(execution: Listed | KeptPosition) -> tuple[Instant, ExecutionId]:
    return _order_of(execution.id)


def _filter_of(request: RequestContext) -> Callable[[Listed], bool]:
    status = STATUS.of(request)
    since, until = FROM.of(request), TO.of(request)
    within = "" if JOB.of(request) else _prefix_of(NAMESPACE.of(request))

    def matches(execution: Listed) -> bool:
        if not request.may_see(_namespace_of(execution)):
            return False
        if isinstance(execution, UnreadableExecution):
            # Its status and its namespace are unknown.
            return status is None and not within and since <= instant_of(execution.id) < until
        return (
            (status is None or execution.status.value == status)
            and since <= instant_of(execution.id) < until
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
        detail = f"{in_quotes(text)} is not an execution id; send the executionId of a trigger"
        raise invalid("invalid_execution_id", detail, Problem(f"/executionIds/{number}", detail))
    return ExecutionId(text)


def _timeout_of(body: WaitManyBody) -> Duration:
    try:
        timeout = read_duration(body.timeout)
    except ValueError as error:
        problem = Problem("/timeout", str(error))
        raise invalid("invalid_body", str(problem), problem) from error
    return min(timeout, WAIT_MAX)
