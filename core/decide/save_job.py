"""Creation, replacement and deletion of jobs."""

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from rota.core.decide.backfills import drop_backfills
from rota.core.decide.fire import (
    clear_fire_timer,
    fire,
    first_fire,
    first_fire_of,
    set_fire_timer,
)
from rota.core.decide.outbox import OUTBOX_ITEMS_MAX, has_room, send_message
from rota.core.decide.quotas import refuse_execution_over_quota, refuse_job_over_quota
from rota.core.decide.recount_fires import counted_from, is_ahead
from rota.core.decide.stop_execution import cancel_execution
from rota.core.decide.trigger_job import refuse_if_paused
from rota.core.errors import Kind, Problem, Refused, invalid, not_found
from rota.core.model.ids import JobId, mint_job_id, slot_of
from rota.core.model.job import Consistency, Job, JobPlan, JobSpec, SchedulePolicy, Upstream
from rota.core.state.draft import Draft
from rota.core.state.shard_state import version_key
from rota.core.timing.instants import MICROSECOND, Duration, Instant, later
from rota.core.timing.schedule import Schedule, fault_of, has_ended, next_fire, one_shot_at
from rota.core.vocabulary.changes import (
    Available,
    Name,
    Pointer,
    Subscribe,
    Table,
    Unsubscribe,
    past_key,
)
from rota.core.vocabulary.commands import Cancel, DeleteJob, Fire, SaveJob
from rota.core.vocabulary.decision import Done, JobSaved, Reply
from rota.core.vocabulary.effects import JobEvent

PAST_VERSIONS_MAX = 20
"""The number of newest replaced definitions of a job that the history keeps."""
SLICES_MAX = 10
"""The number of slices of due fire times that a replacement decides; with more, it is refused."""


def save_job(draft: Draft, command: SaveJob) -> Reply:
    """Create a job, or replace it if the command allows it; the same definition changes nothing.

    Raises:
        Refused: Code ``job_exists``: another job has that name; ``version_mismatch``;
            ``past_schedule``; ``too_many_jobs``; ``catching_up``; ``outbox_full``;
            ``namespace_paused``: a one-off job cannot run now; ``quota_exceeded``.
    """
    existing_id = draft.state.names.get(command.spec.full_name)
    existing = draft.job(existing_id) if existing_id else None
    _check_version(command, existing)
    _check_instants(draft, command, existing)
    if existing is None and command.spec.is_one_off:
        # Its only fire time would be recorded as paused or skipped, and nothing would ever run.
        refuse_if_paused(draft, command.spec.namespace)
        refuse_execution_over_quota(draft, command.spec.namespace)
    if existing is None:
        job = _create(draft, command.spec)
    elif command.may_replace or existing.spec == command.spec:
        job = _replace(draft, existing, command.spec)
    else:
        raise Refused(
            Kind.CONFLICT,
            "job_exists",
            f"there is already a job {existing.spec.full_name!r} ({existing.id}) with another "
            "definition; replace it with PUT, or choose another name",
        )
    before = existing.version if existing is not None else 0
    replaced = before if before != job.version else 0
    return JobSaved(job.id, version=job.version, is_new=existing is None, replaced=replaced)


def delete_job(draft: Draft, command: DeleteJob) -> Reply:
    """Delete a job and cancel its executions.

    Raises:
        Refused: There is no such job; code ``version_mismatch``.
    """
    job, plan = draft.job(command.job_id), draft.plan(command.job_id)
    if job is None or plan is None:
        raise not_found("job", command.job_id)
    if command.if_version is not None and command.if_version != job.version:
        raise _mismatch(job, command.if_version)
    clear_fire_timer(draft, job.id, plan)
    _subscribe(draft, job.spec.full_name, before=job.spec.upstreams, after=())
    drop_backfills(draft, job.id)
    draft.entries.drop_all(job.id)
    live = [execution.id for execution in draft.live_of(job.id)]
    draft.drop(Table.JOB, job.id)
    draft.drop(Table.NAME, job.spec.full_name)
    draft.drop(Table.PLAN, job.id)
    if job.id in draft.state.available:
        draft.drop(Table.AVAILABLE, job.id)
    keep_version(draft, job)
    draft.publish_job(job, JobEvent.DELETED)
    # Newest first: the end of an execution must not release a waiting one, which is cancelled next.
    for execution_id in reversed(live):
        cancel_execution(draft, Cancel(execution_id=execution_id))
    return Done()


def keep_version(draft: Draft, job: Job) -> None:
    """Keep a replaced or deleted definition for the unfinished executions that run it."""
    if any(execution.job_version == job.version for execution in draft.live_of(job.id)):
        draft.put(Table.VERSION, version_key(job.id, job.version), job.spec)


def _put_past_version(draft: Draft, job: Job) -> None:
    """Put a replaced definition into the history, so that its executions can be run again.

    It is dated to now: all executions of the version were created earlier, so they are older.
    """
    key = version_key(job.id, job.version)
    pointer = Pointer(Table.PAST_VERSION, key)
    draft.put(Table.PAST_VERSION, key, job.spec)
    draft.put(Table.PAST, past_key(draft.now, pointer), pointer)
    if job.version > PAST_VERSIONS_MAX:
        draft.drop(Table.PAST_VERSION, version_key(job.id, job.version - PAST_VERSIONS_MAX))


def _create(draft: Draft, spec: JobSpec) -> Job:
    refuse_job_over_quota(draft, spec.namespace)
    if len(draft.state.jobs) >= draft.limits.jobs:
        raise Refused(
            Kind.TOO_MANY,
            "too_many_jobs",
            f"this shard already holds {draft.limits.jobs} jobs, which is its limit; "
            "delete jobs that are not needed, or choose another name: it may be in another shard",
            retry_after_s=60,
        )
    job_id = _new_job_id(draft, spec)
    at = counted_from(draft)
    job = Job(id=job_id, version=1, spec=spec, created_at=at, updated_at=at)
    draft.put(Table.NAME, spec.full_name, Name(job_id))
    _subscribe(draft, spec.full_name, before=(), after=spec.upstreams)
    _put(draft, job, _plan_of(draft, spec, JobPlan(), before=None))
    draft.publish_job(job, JobEvent.CREATED, "version 1")
    if spec.is_one_off:
        fire(draft, Fire(job_id=job_id))  # The reply has the id of its execution.
    return job


def _replace(draft: Draft, job: Job, spec: JobSpec) -> Job:
    """Give a job its next version; unfinished executions keep theirs."""
    if job.spec == spec:
        return job
    dropped = [n for n, each in enumerate(job.spec.schedules) if each not in spec.schedules]
    _decide_due_fires(draft, job, frozenset(dropped))
    plan = draft.plan(job.id)
    assert plan is not None, job.id
    clear_fire_timer(draft, job.id, plan)
    keep_version(draft, job)
    _put_past_version(draft, job)
    _subscribe(draft, spec.full_name, before=job.spec.upstreams, after=spec.upstreams)
    successor = replace(job, version=job.version + 1, spec=spec, updated_at=counted_from(draft))
    _put(draft, successor, _plan_of(draft, spec, plan, before=job))
    draft.publish_job(successor, JobEvent.REPLACED, f"version {successor.version}")
    return successor


def _decide_due_fires(draft: Draft, job: Job, dropped: frozenset[int]) -> None:
    """Decide the fire times that are due under the definition that is to be replaced.

    Deferred fires wait for the new definition, except those of schedules that are *dropped*.

    Raises:
        Refused: Code ``catching_up``: too many are due, or the shard is at its limit of executions.
    """
    for _ in range(SLICES_MAX):
        plan = draft.plan(job.id)
        assert plan is not None, job.id
        due = first_fire(_undeferred(_readable(job, plan), dropped))
        if due is None or due > draft.wall:
            return
        if draft.execution_count >= draft.limits.executions:
            break
        fire(draft, Fire(job_id=job.id), dropped)
    raise Refused(
        Kind.UNAVAILABLE,
        "catching_up",
        f"job {job.spec.full_name!r} still has past fire times without an outcome; try again",
        retry_after_s=5,
    )


def _readable(job: Job, plan: JobPlan) -> JobPlan:
    """Return *plan* without the unreadable schedules, which only a replacement can repair."""
    next_fires = zip(job.spec.schedules, plan.next_fires, strict=True)
    return replace(
        plan, next_fires=tuple(None if fault_of(each) else at for each, at in next_fires)
    )


def _undeferred(plan: JobPlan, numbers: frozenset[int]) -> JobPlan:
    """Return *plan* with the fires of the schedules *numbers* at their fire times."""
    starts = (Instant(0) if n in numbers else start for n, start in enumerate(plan.starts))
    return replace(plan, starts=tuple(starts))


def _plan_of(draft: Draft, spec: JobSpec, plan: JobPlan, *, before: Job | None) -> JobPlan:
    """Return the plan of *spec*, which keeps the parts of *plan* for unchanged schedules and jobs.

    Args:
        draft: The draft.
        spec: The new definition.
        plan: The plan of the job before the change.
        before: The job before the change; None if it is new.
    """
    fires = dict(zip(before.spec.schedules, plan.next_fires, strict=True)) if before else {}
    successes = dict(zip(before.spec.dependencies, plan.upstreams, strict=True)) if before else {}
    counts = _counts(before, plan)
    begun = tuple(
        counts.get((schedule, spec.policy_of(number)), 0)
        for number, schedule in enumerate(spec.schedules)
    )
    ended = _ended(before, plan)
    next_fires = tuple(
        fires[schedule]
        if schedule in fires
        and not (schedule in ended and (schedule, spec.policy_of(number)) not in counts)
        else _first_undecided(draft, schedule, _decided(draft, plan, before, number))
        for number, schedule in enumerate(spec.schedules)
    )
    # An earlier version may have run the job for an @at that has passed.
    is_again = any(at is not None and at <= draft.wall for at in next_fires)
    return JobPlan(
        next_fires=next_fires,
        upstreams=tuple(successes.get(name, Upstream()) for name in spec.dependencies),
        is_failing=plan.is_failing,
        paused_until=plan.paused_until,
        begun=begun if any(begun) else (),
        round=plan.round + 1 if before and (is_again or is_ahead(draft)) else plan.round,
    )


def _counts(job: Job | None, plan: JobPlan) -> Mapping[tuple[Schedule, SchedulePolicy], int]:
    """Return the numbers of executions that the schedules of *job* have begun."""
    if job is None:
        return {}
    numbered = enumerate(zip(job.spec.schedules, plan.begun, strict=False))
    return {(each, job.spec.policy_of(number)): begun for number, (each, begun) in numbered}


def _ended(job: Job | None, plan: JobPlan) -> set[Schedule]:
    """Return the schedules of *job* that have begun their most executions."""
    if job is None:
        return set()
    return {
        schedule
        for number, (schedule, at) in enumerate(
            zip(job.spec.schedules, plan.next_fires, strict=True)
        )
        if at is None and job.spec.policy_of(number).max_executions
    }


@dataclass(frozen=True, slots=True)
class _Decided:
    """The fire times of a schedule that have outcomes.

    Attributes:
        since: When the job's version with this schedule was saved; its fire times are later.
        until: An instant after all of them.
    """

    schedule: Schedule
    since: Instant
    until: Instant

    def __contains__(self, at: Instant) -> bool:
        if not self.since < at < self.until:
            return False
        return next_fire(self.schedule, Instant(at - MICROSECOND)) == at


def _decided(draft: Draft, plan: JobPlan, before: Job | None, number: int) -> _Decided | None:
    """Return the decided fire times of schedule *number* of the job *before*.

    The result is None if there is no such schedule, or if it is unreadable.
    """
    schedules = before.spec.schedules if before else ()
    if before is None or number >= len(schedules) or fault_of(schedules[number]):
        return None
    # A schedule may end before its fire times do: nothing later than this is decided.
    ahead = Duration(draft.situation.decide_ahead + MICROSECOND)
    until = plan.next_fires[number] or later(draft.wall, ahead)
    return _Decided(schedules[number], before.updated_at, until)


def _first_undecided(draft: Draft, schedule: Schedule, decided: _Decided | None) -> Instant | None:
    """Return the first fire time of a new schedule that has no outcome yet.

    A fire time decided ahead under the previous schedule is left out: an execution for it would
    have the same id (R33). If fire times were decided because the clock was ahead, the new schedule
    counts from the wall clock nevertheless.
    """
    at = first_fire_of(schedule, counted_from(draft))
    if is_ahead(draft):
        return at
    while at is not None and decided is not None and at in decided:
        at = next_fire(schedule, at)
    return at


def _put(draft: Draft, job: Job, plan: JobPlan) -> None:
    draft.put(Table.JOB, job.id, job)
    draft.put(Table.PLAN, job.id, plan)
    if job.spec.consistency is Consistency.AVAILABLE:
        draft.put(Table.AVAILABLE, job.id, Available())
    elif job.id in draft.state.available:
        draft.drop(Table.AVAILABLE, job.id)
    set_fire_timer(draft, job.id, plan)


def _subscribe(
    draft: Draft, full_name: str, *, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    """Send messages to jobs and channels on which *full_name* newly depends, or no longer depends.

    Raises:
        Refused: Code ``outbox_full``: too many messages to a new dependency wait. Ending a
            dependency is always possible.
    """
    for upstream in after:
        if upstream not in before and not has_room(draft, full_name, upstream):
            raise Refused(
                Kind.UNAVAILABLE,
                "outbox_full",
                f"{OUTBOX_ITEMS_MAX:,} changes of the dependencies of {full_name} wait for the "
                f"shard of {upstream}, which is closed; try again when that shard is open",
                retry_after_s=5,
            )
    for upstream in before:
        if upstream not in after:
            send_message(draft, upstream, Unsubscribe(upstream=upstream, dependent=full_name))
    for upstream in after:
        if upstream not in before:
            send_message(draft, upstream, Subscribe(upstream=upstream, dependent=full_name))


def _check_version(command: SaveJob, existing: Job | None) -> None:
    if command.if_version is None:
        return
    if (existing.version if existing else 0) != command.if_version:
        raise _mismatch(existing, command.if_version)


def _check_instants(draft: Draft, command: SaveJob, existing: Job | None) -> None:
    """Refuse a new schedule whose time has passed, unless the request sets the misfire policy.

    For an ``@at``, the default policy would run the job at once, which is rarely intended. With an
    end that has passed, the job would never run.
    """
    if command.may_be_past:
        return
    kept = existing.spec.schedules if existing is not None else ()
    for schedule in command.spec.schedules:
        if schedule in kept:
            continue
        if has_ended(schedule, draft.wall):
            detail = (
                f'"{schedule.text}" has no fire time left before its endAt, {schedule.end_at}; '
                "choose a later endAt, or set misfire to save a job that never fires by it"
            )
            raise invalid("past_schedule", detail, Problem("/misfire", detail))
        at = one_shot_at(schedule)
        if at is not None and at < draft.wall - command.spec.grace:
            detail = (
                f'"{schedule.text}" has passed; choose a later time, or set misfire: "all" or '
                '"latest" to run it at once, "skip" to record it as missed'
            )
            raise invalid("past_schedule", detail, Problem("/misfire", detail))


def _mismatch(existing: Job | None, expected: int) -> Refused:
    if existing is None:
        detail = f"the job does not exist, so it is not at version {expected}"
    elif not expected:
        detail = f"the job exists already, at version {existing.version}; choose another name"
    else:
        detail = (
            f"the job is at version {existing.version}, not at version {expected}; read the job "
            "and send the change again"
        )
    return Refused(Kind.PRECONDITION, "version_mismatch", detail)


def _new_job_id(draft: Draft, spec: JobSpec) -> JobId:
    slot = slot_of(spec.namespace, spec.name)
    entropy = draft.situation.entropy
    while (job_id := mint_job_id(slot, entropy)) in draft.state.jobs:
        entropy += 1
    return job_id
