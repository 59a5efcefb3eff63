"""Backfills of jobs: start, list, show, pause, resume, cancel."""

import heapq
from collections.abc import AsyncIterator, Iterator
from hashlib import blake2b
from itertools import islice

import msgspec
from aiohttp import web

from rota.core.errors import Problem, Refused, invalid_fields, not_found
from rota.core.model.backfill import (
    TIMES_MAX,
    Backfill,
    FireOrder,
    Reprocess,
    backfill_key,
)
from rota.core.model.execution import Execution, ExecutionStatus
from rota.core.model.job import Job
from rota.core.state.shard_state import State
from rota.core.timing.instants import (
    MICROSECOND,
    Instant,
    format_duration,
    format_instant,
    parse_instant,
)
from rota.core.timing.schedule import fault_of, next_fire
from rota.core.vocabulary.commands import BackfillAction, ControlBackfill, StartBackfill
from rota.node.access.verbs import Verb
from rota.node.api.documents.change_views import author_view
from rota.node.api.handlers.jobs import NAMESPACE
from rota.node.api.kinds.job_types import checked_parameters
from rota.node.api.requests.authors import author_of
from rota.node.api.requests.error_codes import DECIDING, KEYED, READING
from rota.node.api.requests.operations import IDEMPOTENCY_KEY, Body, Operations, Success
from rota.node.api.requests.parameters import DRY_RUN
from rota.node.api.requests.permissions import on_object
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import document, idempotency_key, read_body
from rota.node.api.requests.targets import find_job, shard_of_job
from rota.node.api.requests.writes import write
from rota.node.shards.shard import Shard
from rota.node.system.pacing import Pace
from rota.wire import operations as api
from rota.wire.bodies.job_bodies import parameters_json
from rota.wire.documents import BackfillBody, BackfillList, BackfillView

operations = Operations("Backfills")
EXAMINED_MAX = 200_000
"""The most fire times of a range that are examined."""
NEXT_SHOWN = 10
"""The number of next fire times that the document of a backfill has."""

Newest = dict[Instant, Execution]
"""The newest execution for each fire time."""


@operations.declare(
    api.CREATE_BACKFILL,
    Success(201, "The backfill, started."),
    permission=on_object(Verb.RUN),
    target=shard_of_job,
    query=(NAMESPACE, DRY_RUN),
    headers=(IDEMPOTENCY_KEY,),
    body=Body(BackfillBody),
    problems=(
        "job_not_found",
        "invalid_backfill",
        "invalid_parameters",
        "backfill_active",
        "contention",
        *KEYED,
        *DECIDING,
    ),
)
async def create_backfill(request: RequestContext) -> web.Response:
    """Run a job for the fire times of a range of the past.

    Each fire time of its schedules in the range that has no execution (or, with ``reprocess``,
    whose newest one failed, or any) gets an execution with the trigger ``backfill``; its
    ``fireTime`` is that time. Calendars of the job apply, blackouts do not. The next fire times of
    the job stay as they are. A dry run shows how many there are, and the first ones.
    """
    shard, job = find_job(request, request.http.match_info["job"])
    body = await read_body(request, BackfillBody)
    since, until = _range_of(body, request.node.clock.now())
    parameters = checked_parameters(request.node.documents, job.spec, body.parameters)
    state = request.state(shard)
    known = tuple(state.backfills.get(job.id, ()))
    times = await _times(request, shard, job, body, since, until)
    if body.order == FireOrder.NEWEST_FIRST.value:
        times.reverse()
    backfill = Backfill(
        id=_id_of(request, job),
        job_id=job.id,
        since=since,
        until=until,
        reprocess=Reprocess(body.reprocess),
        order=FireOrder(body.order),
        parallel=body.parallel,
        total=len(times),
        created_at=request.node.clock.now(),
        parameters=parameters_json(parameters),
        author=author_of(request),
    )
    command = StartBackfill(
        backfill=backfill, times=tuple(times), known=known, author=backfill.author
    )
    _, made = await write(request, shard, command)
    after = made.state(shard)
    view = _view_of(after, after.backfills[job.id][backfill.id])
    if request.is_dry_run:
        view = msgspec.structs.replace(
            view,
            status="dry_run",
            begun=0,
            running=0,
            next_times=list(map(format_instant, times[:NEXT_SHOWN])),
        )
    view = msgspec.structs.replace(view, warnings=_warnings(request, job, since))
    return document(view, status=201)


@operations.declare(
    api.LIST_BACKFILLS,
    Success(200, "The backfills, the newest first."),
    permission=on_object(Verb.READ),
    target=shard_of_job,
    query=(NAMESPACE,),
    problems=("job_not_found", *READING),
)
async def list_backfills(request: RequestContext) -> web.Response:
    """List the backfills of a job: the one that has not ended, and the newest of the others."""
    shard, job = find_job(request, request.http.match_info["job"])
    state = request.state(shard)
    found = sorted(state.backfills.get(job.id, {}).values(), key=lambda each: -each.created_at)
    return document(BackfillList(items=[_view_of(state, each) for each in found]))


@operations.declare(
    api.GET_BACKFILL,
    Success(200, "The backfill."),
    permission=on_object(Verb.READ),
    target=shard_of_job,
    query=(NAMESPACE,),
    problems=("job_not_found", "backfill_not_found", *READING),
)
async def get_backfill(request: RequestContext) -> web.Response:
    """Show a backfill and its progress."""
    shard, job = find_job(request, request.http.match_info["job"])
    return _answer(request.state(shard), job, request.http.match_info["backfill"])


def _declare_control(
    operation: api.Operation[BackfillView], action: BackfillAction, done: str, about: str
) -> None:
    async def control(request: RequestContext) -> web.Response:
        shard, job = find_job(request, request.http.match_info["job"])
        name = request.http.match_info["backfill"]
        command = ControlBackfill(
            job_id=job.id, backfill_id=name, action=action, author=author_of(request)
        )
        _, made = await write(request, shard, command)
        return _answer(made.state(shard), job, name)

    control.__name__ = f"{action.value}_backfill"
    control.__doc__ = about
    operations.declare(
        operation,
        Success(200, f"The backfill, {done}."),
        permission=on_object(Verb.RUN),
        target=shard_of_job,
        query=(NAMESPACE, DRY_RUN),
        problems=("job_not_found", "backfill_not_found", "backfill_ended", *DECIDING),
    )(control)


_declare_control(
    api.PAUSE_BACKFILL,
    BackfillAction.PAUSE,
    "paused",
    "Pause a backfill: it begins no further executions; those that have begun continue.",
)
_declare_control(api.RESUME_BACKFILL, BackfillAction.RESUME, "running", "Resume a paused backfill.")
_declare_control(
    api.CANCEL_BACKFILL,
    BackfillAction.CANCEL,
    "cancelled",
    "Cancel a backfill: it begins no further executions; those that have begun continue.",
)


def _answer(state: State, job: Job, name: str) -> web.Response:
    found = state.backfills.get(job.id, {}).get(name)
    if found is None:
        raise not_found("backfill", name)
    return document(_view_of(state, found))


def _range_of(body: BackfillBody, now: Instant) -> tuple[Instant, Instant]:
    """Return the range of a backfill.

    Raises:
        Refused: It is no range, or it is not in the past.
    """
    problems: list[Problem] = []
    ends = {"since": body.since, "until": body.until or format_instant(now)}
    found: dict[str, Instant] = {}
    for field, text in ends.items():
        try:
            found[field] = parse_instant(text)
        except ValueError as error:
            problems.append(Problem(f"/{field}", str(error)))
    if not problems and found["since"] >= found["until"]:
        detail = f"the range ends at {ends['until']}, which is not later than its begin"
        problems.append(Problem("/until", detail))
    if not problems and found["until"] > now:
        detail = f"{ends['until']} is in the future; the schedule runs the job then"
        problems.append(Problem("/until", detail))
    if problems:
        raise invalid_fields("invalid_backfill", problems)
    return found["since"], found["until"]


async def _times(
    request: RequestContext,
    shard: Shard,
    job: Job,
    body: BackfillBody,
    since: Instant,
    until: Instant,
) -> list[Instant]:
    """Return the fire times that are to run, oldest first.

    Raises:
        Refused: There are too many.
    """
    newest = await _newest(request, shard, job, since, until)
    times: list[Instant] = []
    pace = Pace()
    async for at in _fire_times(request, shard, job, since, until, pace):
        if _runs(newest.get(at), body.reprocess):
            times.append(at)
        if len(times) > TIMES_MAX:
            detail = f"the range has more than {TIMES_MAX:,} fire times to run; split it"
            raise _too_many(detail)
    return times


def _runs(execution: Execution | None, reprocess: str) -> bool:
    """Return True if a fire time with this newest execution is to run."""
    if execution is None:
        return True
    if not execution.finished_at or reprocess == Reprocess.MISSING.value:
        return False
    is_success = execution.status is ExecutionStatus.SUCCESS
    return reprocess == Reprocess.ALL.value or not is_success


async def _fire_times(
    request: RequestContext, shard: Shard, job: Job, since: Instant, until: Instant, pace: Pace
) -> AsyncIterator[Instant]:
    """Yield the decided fire times of all schedules in a range that no calendar excludes."""
    plan, facts = request.state(shard).plans[job.id], request.node.facts.present()
    streams = [
        _decided(job, number, since, min(until, undecided or until))
        for number, undecided in enumerate(plan.next_fires)
        if not fault_of(job.spec.schedules[number])
    ]
    exclusions = [
        facts.exclusion_of(job.spec, each, has_blackouts=False) for each in job.spec.schedules
    ]
    last: Instant | None = None
    for examined, (at, number) in enumerate(heapq.merge(*streams)):
        if examined >= EXAMINED_MAX:
            raise _too_many(f"the range has more than {EXAMINED_MAX:,} fire times; split it")
        exclusion = exclusions[number]
        if at != last and not (exclusion and exclusion.why(at)):
            last = at
            yield at
        await pace.rest()


def _decided(
    job: Job, number: int, since: Instant, until: Instant
) -> Iterator[tuple[Instant, int]]:
    schedule = job.spec.schedules[number]
    at = next_fire(schedule, Instant(since - MICROSECOND))
    while at is not None and at < until:
        yield at, number
        at = next_fire(schedule, at)


async def _newest(
    request: RequestContext, shard: Shard, job: Job, since: Instant, until: Instant
) -> Newest:
    """Return the newest execution for each fire time in a range, of all that are stored."""
    found: Newest = {}
    pace = Pace()
    state, history = request.state(shard), await request.history(shard)
    live = [state.executions[each] for each in state.live_of(job.id)]
    for execution in live:
        _note(found, execution, since, until)
    for past in history.executions_of(shard.id, job.id, None):
        if isinstance(past, Execution):
            _note(found, past, since, until)
        await pace.rest()
    return found


def _note(found: Newest, execution: Execution, since: Instant, until: Instant) -> None:
    at = execution.fire_at
    if since <= at < until and (at not in found or execution.queued_at >= found[at].queued_at):
        found[at] = execution


def _too_many(detail: str) -> Refused:
    return invalid_fields("invalid_backfill", [Problem("/since", detail)])


def _id_of(request: RequestContext, job: Job) -> str:
    """Return the id of a new backfill; a repeated request has the same one."""
    key = idempotency_key(request.http)
    if not key:
        return f"{request.node.entropy.draw():016x}"
    parts = (job.id, author_of(request).principal, key)
    return blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()


def _warnings(request: RequestContext, job: Job, since: Instant) -> list[str]:
    """Return a warning if executions of the range may be deleted."""
    kept = request.node.config.history
    kept_since = Instant(request.node.clock.now() - kept)
    if since >= kept_since or job.created_at >= kept_since:
        return []
    warning = (
        f"executions are kept for {format_duration(kept)}: fire times before "
        f"{format_instant(kept_since)} may have had executions, and count as missing"
    )
    return [warning]


def _view_of(state: State, backfill: Backfill) -> BackfillView:
    times = state.backfill_times.get(backfill_key(backfill.job_id, backfill.id))
    following = islice(times.times, backfill.begun, backfill.begun + NEXT_SHOWN) if times else ()
    ended = backfill.begun - backfill.open
    return BackfillView(
        backfill_id=backfill.id,
        job_id=backfill.job_id,
        status=backfill.status.value,
        since=format_instant(backfill.since),
        until=format_instant(backfill.until),
        reprocess=backfill.reprocess.value,
        order=backfill.order.value,
        parallel=backfill.parallel,
        total=backfill.total,
        begun=backfill.begun,
        running=backfill.open,
        succeeded=ended - backfill.failed,
        failed=backfill.failed,
        created_at=format_instant(backfill.created_at),
        finished_at=format_instant(backfill.finished_at) if backfill.finished_at else None,
        started_by=author_view(backfill.author, has_address=False) if backfill.author else None,
        next_times=list(map(format_instant, following)),
    )
