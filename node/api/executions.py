"""Executions: read, list, wait for, cancel; many triggers at once."""

import heapq
from collections.abc import Callable, Iterable

from aiohttp import web

from rota.client.wire import (
    ITEMS_MAX,
    ExecutionList,
    ExecutionView,
    TriggeredItem,
    TriggeredManyView,
    TriggerItem,
    TriggerManyBody,
    WaitManyBody,
)
from rota.core.commands import Ask, Cancel, Trigger
from rota.core.decision import Triggered
from rota.core.errors import Kind, Problem, Refused, invalid, not_found
from rota.core.execution import Execution, ExecutionStatus, Task
from rota.core.ids import ExecutionId, instant_of, is_execution_id
from rota.core.instants import LATEST_INSTANT, SECOND, Duration, Instant, parse_duration, seconds
from rota.node.api import requests
from rota.node.api.access import Verb, check
from rota.node.api.bodies import parameters_json, print_of
from rota.node.api.problems import problem_of
from rota.node.api.requests import (
    PARTS,
    check_query,
    checked_key,
    document,
    find_job,
    find_job_id,
    read_body,
)
from rota.node.api.views import execution_view
from rota.node.parts import Parts
from rota.node.shards import Answer, Shard
from rota.storage.history import NEWEST, past_before

routes = web.RouteTableDef()
WAIT_DEFAULT = Duration(30 * SECOND)
WAIT_MAX = Duration(300 * SECOND)
SCANNED_MAX = 10_000
"""Executions that one page looks at: a filter that matches nothing must not stall the node."""


async def load_execution(
    parts: Parts, execution_id: ExecutionId
) -> tuple[Execution, dict[str, Task]]:
    """Return an execution and its tasks, as committed.

    Raises:
        Refused: There is none with that id.
    """
    shard = parts.shards.of_id(execution_id)
    live = shard.state.executions.get(execution_id)
    if live is not None:
        tasks = dict(shard.state.tasks[execution_id])
        await parts.shards.settled()
        return live, tasks
    await parts.shards.settled()
    return _past(parts, execution_id), parts.history.tasks(shard.id, execution_id)


@routes.get("/api/v1/executions/{execution_id}")
async def get_execution(request: web.Request) -> web.Response:
    """Show one execution with its tasks."""
    check_query(request)
    check(request, Verb.READ, "*")
    execution_id = requests.execution_id_of(request)
    return document(execution_view(*await load_execution(request.app[PARTS], execution_id)))


@routes.get("/api/v1/executions/{execution_id}/wait")
async def wait_for_execution(request: web.Request) -> web.Response:
    """Answer when an execution has ended, or after ``?timeout=`` with what it is then."""
    check_query(request, "timeout")
    check(request, Verb.READ, "*")
    parts = request.app[PARTS]
    execution_id = requests.execution_id_of(request)
    timeout = min(requests.timespan_of(request, "timeout", WAIT_DEFAULT), WAIT_MAX)
    shard = parts.shards.of_id(execution_id)
    if execution_id in shard.state.executions:
        await parts.watch.ended([execution_id], timeout / SECOND)
    return document(execution_view(*await load_execution(parts, execution_id)))


@routes.post("/api/v1/executions/{execution_id}/cancel")
async def cancel_execution(request: web.Request) -> web.Response:
    """Ask for the end of an execution; one that is over is left as it is."""
    check_query(request)
    check(request, Verb.RUN, "*")
    parts = request.app[PARTS]
    execution_id = requests.execution_id_of(request)
    shard = parts.shards.of_id(execution_id)
    if execution_id in shard.state.executions:
        try:
            await parts.shards.ask(shard, Cancel(execution_id=execution_id))
        except Refused as refusal:
            # It may have ended while the request waited its turn.
            if refusal.kind is not Kind.NOT_FOUND:
                raise
    return document(execution_view(*await load_execution(parts, execution_id)), status=202)


@routes.post("/api/v1/executions:batch")
async def trigger_many(request: web.Request) -> web.Response:
    """Make many executions now; each item succeeds or fails alone."""
    check_query(request)
    check(request, Verb.RUN, "*")
    body = await read_body(request, TriggerManyBody)
    _check_count(len(body.items), "/items")
    results: list[TriggeredItem | None] = []
    commands: list[tuple[Shard, Trigger]] = []
    for item in body.items:
        try:
            commands.append(_trigger_of(request, item))
            results.append(None)
        except Refused as refusal:
            results.append(TriggeredItem(error=problem_of(refusal)))
    answers = iter(await request.app[PARTS].shards.ask_many(commands))
    items = [_triggered(next(answers)) if result is None else result for result in results]
    if not commands:
        # No answer waited for a commit, though what was not found may have gone in one to come.
        await request.app[PARTS].shards.settled()
    return document(TriggeredManyView(items=items))


@routes.post("/api/v1/executions:wait")
async def wait_for_many(request: web.Request) -> web.Response:
    """Answer when all the executions have ended, or after the timeout with what they are then."""
    check_query(request)
    check(request, Verb.READ, "*")
    parts = request.app[PARTS]
    body = await read_body(request, WaitManyBody)
    _check_count(len(body.execution_ids), "/executionIds")
    ids = [_checked_id(text, number) for number, text in enumerate(body.execution_ids)]
    open_ones = [each for each in ids if each in parts.shards.of_id(each).state.executions]
    await parts.watch.ended(open_ones, _wait_of(body) / SECOND)
    live = [parts.shards.of_id(each).state.executions.get(each) for each in ids]
    await parts.shards.settled()
    items = [
        execution_view(execution or _past(parts, each))
        for each, execution in zip(ids, live, strict=True)
    ]
    return document(ExecutionList(items=items))


@routes.get("/api/v1/executions")
async def list_executions(request: web.Request) -> web.Response:
    """List executions, latest fire time first, of one job or of all."""
    check_query(request, "jobId", "namespace", "status", "from", "to", "limit", "cursor")
    check(request, Verb.READ, "*")
    parts = request.app[PARTS]
    matches = _filter_of(request)
    limit = requests.limit_of(request)
    streams = _streams(request, parts)
    await parts.shards.settled()
    items: list[ExecutionView] = []
    next_cursor: ExecutionId | None = None
    last: ExecutionId | None = None
    scanned = 0
    for execution in heapq.merge(*(stream() for stream in streams), key=_order, reverse=True):
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
    return document(ExecutionList(items=items, next_cursor=next_cursor))


Stream = Callable[[], Iterable[Execution]]


def _streams(request: web.Request, parts: Parts) -> tuple[Stream, Stream]:
    """Return the history and, as it is at this moment, what is not finished; newest first."""
    cursor = request.query.get("cursor")
    before = _checked_id(cursor, 0) if cursor else None
    named = request.query.get("jobId")
    if named:
        shard, job_id = find_job_id(request, named)
        live = [shard.state.executions[each] for each in shard.state.live_of(job_id)]
        return (
            lambda: parts.history.executions_of(shard.id, job_id, before),
            _newest_first(live, before),
        )
    live = [each for shard in parts.shards for each in shard.state.executions.values()]
    start = past_before(before) if before else NEWEST
    return (lambda: parts.history.executions(start), _newest_first(live, before))


def _newest_first(live: list[Execution], before: ExecutionId | None) -> Stream:
    limit = _order_of(before) if before else None
    chosen = [each for each in live if limit is None or _order(each) < limit]
    chosen.sort(key=_order, reverse=True)
    return lambda: chosen


def _order_of(execution_id: ExecutionId) -> tuple[Instant, ExecutionId]:
    return instant_of(execution_id), execution_id


def _order(execution: Execution) -> tuple[Instant, ExecutionId]:
    return _order_of(execution.id)


def _filter_of(request: web.Request) -> Callable[[Execution], bool]:
    status = request.query.get("status")
    known = [each.value for each in ExecutionStatus]
    if status is not None and status not in known:
        detail = f"{status!r} is not one of {', '.join(known)}"
        raise invalid("invalid_query", f"status: {detail}", Problem("/query/status", detail))
    since = requests.instant_of(request, "from", Instant(0))
    until = requests.instant_of(request, "to", LATEST_INSTANT)
    is_named = request.query.get("jobId")
    within = "" if is_named else _prefix_of(request.query.get("namespace"))
    return lambda execution: (
        (status is None or execution.status.value == status)
        and since <= execution.fire_at < until
        and execution.job_name.startswith(within)
    )


def _prefix_of(namespace: str | None) -> str:
    return "" if namespace is None else f"{namespace}/"


def _trigger_of(request: web.Request, item: TriggerItem) -> tuple[Shard, Trigger]:
    shard, job = find_job(request, item.job)
    parameters = parameters_json(item.parameters)
    ask = None
    key = checked_key(item.idempotency_key or "")
    if key:
        digest = print_of(job.id.encode(), parameters.encode())
        ask = Ask(key=key, print=digest)
    return shard, Trigger(job_id=job.id, parameters=parameters, ask=ask)


def _triggered(answer: Answer) -> TriggeredItem:
    if isinstance(answer, Refused):
        return TriggeredItem(error=problem_of(answer))
    assert isinstance(answer, Triggered)
    return TriggeredItem(execution_id=answer.execution_id)


def _past(parts: Parts, execution_id: ExecutionId) -> Execution:
    past = parts.history.execution(parts.shards.of_id(execution_id).id, execution_id)
    if past is None:
        raise not_found("execution", execution_id)
    return past


def _checked_id(text: str, number: int) -> ExecutionId:
    if not is_execution_id(text):
        detail = f"{text!r} is not an execution id"
        raise invalid("invalid_execution_id", detail, Problem(f"/executionIds/{number}", detail))
    return ExecutionId(text)


def _check_count(count: int, pointer: str) -> None:
    if not 1 <= count <= ITEMS_MAX:
        detail = f"has {count} items; 1 to {ITEMS_MAX} are taken at once"
        raise invalid("too_many_items", detail, Problem(pointer, detail))


def _wait_of(body: WaitManyBody) -> Duration:
    try:
        asked = body.timeout
        timeout = parse_duration(asked) if isinstance(asked, str) else seconds(asked)
    except (ValueError, OverflowError) as error:
        raise invalid("invalid_body", str(error), Problem("/timeout", str(error))) from error
    return min(timeout, WAIT_MAX)
