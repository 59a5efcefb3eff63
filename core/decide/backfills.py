"""Backfills: start, progress, pause, end.

    StartBackfill   the node has read which fire times have no execution, and sends them
    advance         begins executions while fewer than `Backfill.parallel` are unfinished
    note_end        the end of an execution of the job, which may let the next one begin
    ContinueBackfill  a timer, when nothing could begin

A job has one backfill at a time, so that no fire time gets two executions. What a backfill does
next follows from its records alone, so another primary continues with it. A backfill begins nothing
while the shard or the namespace has no room, the namespace is paused or, unless overlapping
executions are allowed, while an execution of the job is unfinished; it tries again later.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from rota.core.decide.advance_execution import Birth, begin_execution
from rota.core.decide.overlap import is_full, problem_of_key
from rota.core.decide.quotas import full_quota
from rota.core.errors import Kind, Problem, Refused, invalid, not_found
from rota.core.model.backfill import (
    ACTIVE,
    KEPT_MAX,
    Backfill,
    BackfillStatus,
    BackfillTimes,
    backfill_key,
)
from rota.core.model.execution import Execution, ExecutionStatus, Origin
from rota.core.model.ids import JobId, trigger_execution_id
from rota.core.model.job import Job, Overlap
from rota.core.state.draft import Draft
from rota.core.timing.instants import SECOND, Duration, Instant, later
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.commands import (
    BackfillAction,
    ContinueBackfill,
    ControlBackfill,
    StartBackfill,
)
from rota.core.vocabulary.effects import JobEvent, SetTimer, Timescale
from rota.core.vocabulary.facts import parameters_at

AGAIN = Duration(5 * SECOND)
"""The time after which a backfill tries again that could begin nothing."""
SLICE = 100
"""The most executions of backfills that one decision begins."""
SLICE_BYTES = 1 << 20
"""The most bytes of their parameters, which each execution stores; one execution begins anyway."""


def start_backfill(draft: Draft, command: StartBackfill) -> None:
    """Start a backfill; a repetition with the same id changes nothing.

    Raises:
        Refused: There is no such job; code ``invalid_parameters``: the parameters give no
            concurrency key; code ``idempotency_key_reused``: the id is that of another request;
            code ``backfill_active``: another backfill of the job has not ended; code
            ``contention``: one was started since the times were read.
    """
    job, backfill = draft.job(command.backfill.job_id), command.backfill
    if job is None:
        raise not_found("job", backfill.job_id)
    known = draft.backfills.of(job.id)
    if backfill.id in known:
        _check_repetition(known[backfill.id], backfill)
        return
    if problem := problem_of_key(job, backfill.parameters):
        raise invalid("invalid_parameters", problem, Problem("/parameters", problem))
    active = next((each for each in known.values() if each.status in ACTIVE), None)
    if active is not None:
        raise Refused(
            Kind.CONFLICT,
            "backfill_active",
            f"backfill {active.id} of job {job.spec.full_name!r} is {active.status.value}; wait "
            "for its end, or cancel it",
        )
    if set(known) != set(command.known):
        raise Refused(
            Kind.CONFLICT,
            "contention",
            f"another backfill of job {job.spec.full_name!r} was started and has ended in the "
            "meantime; try again",
        )
    _forget_old(draft, job.id)
    started = replace(backfill, created_at=draft.now, total=len(command.times))
    draft.put(Table.BACKFILL_TIMES, _key(started), BackfillTimes(command.times))
    draft.backfills.put(started.job_id, started.id, started)
    draft.publish_job(job, JobEvent.BACKFILL, f"{started.id} started for {started.total} times")
    _advance(draft, job, started)


def _check_repetition(known: Backfill, repeated: Backfill) -> None:
    fields = ("reprocess", "order", "parallel", "parameters", "since")
    if any(getattr(known, field) != getattr(repeated, field) for field in fields):
        raise Refused(
            Kind.INVALID,
            "idempotency_key_reused",
            "this idempotency key was used for another backfill; use a new key for a new request",
        )


def control_backfill(draft: Draft, command: ControlBackfill) -> None:
    """Pause, resume or cancel a backfill; unfinished executions of it continue.

    Raises:
        Refused: There is no such job or backfill; code ``backfill_ended``: it has ended.
    """
    job = draft.job(command.job_id)
    if job is None:
        raise not_found("job", command.job_id)
    backfill = draft.backfills.of(job.id).get(command.backfill_id)
    if backfill is None:
        raise not_found("backfill", command.backfill_id)
    if backfill.status not in ACTIVE:
        if command.action is BackfillAction.CANCEL and _is_cancelled(backfill):
            return
        detail = f"backfill {backfill.id} is {backfill.status.value} already"
        raise Refused(Kind.CONFLICT, "backfill_ended", detail)
    status = STATUS_AFTER[command.action]
    if status is backfill.status:
        return
    changed = replace(backfill, status=status)
    draft.backfills.put(changed.job_id, changed.id, changed)
    draft.publish_job(job, JobEvent.BACKFILL, f"{backfill.id} is {status.value}")
    if status is BackfillStatus.RUNNING:
        _advance(draft, job, changed)
    elif status is BackfillStatus.CANCELLED:
        _end(draft, job, changed)


STATUS_AFTER = {
    BackfillAction.PAUSE: BackfillStatus.PAUSED,
    BackfillAction.RESUME: BackfillStatus.RUNNING,
    BackfillAction.CANCEL: BackfillStatus.CANCELLED,
}


def continue_backfill(draft: Draft, command: ContinueBackfill) -> None:
    """Begin executions of a backfill that could begin none, or whose primary is new."""
    job = draft.job(command.job_id)
    backfill = draft.active_backfill(command.job_id)
    if job is not None and backfill is not None:
        _advance(draft, job, backfill)


def note_end(draft: Draft, past: Execution) -> None:
    """Count the end of an execution of a backfill; any end may let one begin the next ones."""
    backfill = draft.backfills.of(past.job_id).get(past.backfill)
    if backfill is not None:
        is_failure = past.status is not ExecutionStatus.SUCCESS
        counted = replace(backfill, open=backfill.open - 1, failed=backfill.failed + is_failure)
        draft.backfills.put(counted.job_id, counted.id, counted)
    continue_backfill(draft, ContinueBackfill(job_id=past.job_id))


def timers_of(backfills: Iterator[Backfill]) -> Iterator[SetTimer]:
    """Yield the timers of backfills for a new primary."""
    for each in backfills:
        if each.status is BackfillStatus.RUNNING and _has_turn(each) and not each.open:
            yield _timer(each.job_id, Instant(0))


def drop_backfills(draft: Draft, job_id: JobId) -> None:
    """Delete the backfills of a job that is deleted."""
    for each in draft.backfills.of(job_id).values():
        _drop(draft, each)


def _advance(draft: Draft, job: Job, backfill: Backfill) -> None:
    """Begin executions until a limit is reached; end the backfill if none is left."""
    if backfill.status is not BackfillStatus.RUNNING:
        return
    times, most = draft.backfill_times(backfill), _slice_of(job, backfill)
    while _has_turn(backfill) and draft.backfill_count < most:
        fire_at = times[backfill.begun]
        parameters = backfill.parameters or parameters_at(job.spec, fire_at)
        if not _may_begin(draft, job, parameters):
            break
        entropy = draft.situation.entropy + backfill.begun
        birth = Birth(
            id=trigger_execution_id(job.id, draft.now, entropy),
            origin=Origin.BACKFILL,
            fire_at=fire_at,
            parameters=parameters,
            triggered_by=backfill.author,
            backfill=backfill.id,
            interval_start=draft.situation.facts.interval_start_of(job.spec, fire_at),
        )
        backfill = replace(backfill, begun=backfill.begun + 1, open=backfill.open + 1)
        draft.backfill_count += 1
        begin_execution(draft, job, birth)
    draft.backfills.put(backfill.job_id, backfill.id, backfill)
    if backfill.begun == backfill.total and not backfill.open:
        _end(draft, job, replace(backfill, status=BackfillStatus.DONE))
    elif _has_turn(backfill) and draft.backfill_count >= most:
        draft.add(_timer(job.id, draft.now))
    elif _has_turn(backfill) and not backfill.open:
        draft.add(_timer(job.id, later(draft.now, AGAIN)))


def _slice_of(job: Job, backfill: Backfill) -> int:
    """Return the most executions that one decision begins."""
    spec = job.spec
    own = [spec.parameters_of(number) for number in range(len(spec.schedules))]
    texts = [backfill.parameters] if backfill.parameters else [spec.parameters, *own]
    size = max(1, *(len(each.encode()) for each in texts))
    return max(1, min(SLICE, SLICE_BYTES // size))


def _has_turn(backfill: Backfill) -> bool:
    """Return True if a fire time is left, and fewer than the most executions are unfinished."""
    return backfill.begun < backfill.total and backfill.open < backfill.parallel


def _may_begin(draft: Draft, job: Job, parameters: str) -> bool:
    """Return True if one more execution may begin now."""
    if draft.execution_count >= draft.limits.executions:
        return False
    if job.spec.namespace in draft.situation.facts.pauses or full_quota(draft, job.spec.namespace):
        return False
    return job.spec.overlap is Overlap.ALLOW or not is_full(draft, job, parameters)


def _timer(job_id: JobId, at: Instant) -> SetTimer:
    return SetTimer(at, ContinueBackfill(job_id=job_id), Timescale.ELAPSED)


def _end(draft: Draft, job: Job, backfill: Backfill) -> None:
    ended = replace(backfill, finished_at=draft.now)
    draft.backfills.put(ended.job_id, ended.id, ended)
    draft.drop(Table.BACKFILL_TIMES, _key(ended))
    if ended.status is BackfillStatus.DONE:
        succeeded = ended.total - ended.failed
        detail = f"{ended.id} is done: {succeeded} succeeded, {ended.failed} failed"
        draft.publish_job(job, JobEvent.BACKFILL, detail)


def _is_cancelled(backfill: Backfill) -> bool:
    return backfill.status is BackfillStatus.CANCELLED


def _forget_old(draft: Draft, job_id: JobId) -> None:
    """Delete the oldest backfills, which have ended, so that at most `KEPT_MAX` are left."""
    known = sorted(draft.backfills.of(job_id).values(), key=lambda each: each.created_at)
    for each in known[: max(0, len(known) + 1 - KEPT_MAX)]:
        _drop(draft, each)


def _drop(draft: Draft, backfill: Backfill) -> None:
    draft.backfills.drop(backfill.job_id, backfill.id)
    draft.drop(Table.BACKFILL_TIMES, _key(backfill))


def _key(backfill: Backfill) -> str:
    return backfill_key(backfill.job_id, backfill.id)
