"""Due fire times: each gets its outcome in the ledger, in the entry that decides it.

    the job or its namespace is paused     paused
    the disk has too little space          missed (`rota.core.vocabulary.disk_space`)
    a calendar or a blackout excludes it   excluded (`rota.core.timing.calendars`)
    the namespace is at its quota          skipped (`rota.core.decide.quotas`)
    on time (noticed within its grace)     the overlap policy decides: fired or skipped
    late, misfire policy `all`             the same as on time
    late, misfire policy `latest`          coalesced into the first later fire that is on time or,
                                           if there is none, into the last late one, which fires
    late, misfire policy `skip`            missed
    later than the misfire window, or      missed
    not among the latest `misfire_max`

A fire is normally decided a little before it is due (`Situation.decide_ahead`), so that its entry
is committed in time; its attempts start when it is due. A fire of a paused job, one that a calendar
excludes, one of a job with dependencies, and one of a job whose overlap policy or namespace's quota
forbids an execution now, are decided when they are due, because they may be permitted by then.

A plan's `next_fires` has the first fire time of each schedule without an outcome, and is updated in
the same entry, so a fire is neither lost nor repeated (PROTOCOL R33). One command decides at most
`SLICE` fire times of a job, oldest first; a timer that is due at once continues with the rest.

A stored schedule may have become unreadable: its zone is missing from this node's tz database, or
another version wrote it. Its fire times stay due and are retried every `UNREADABLE_PAUSE`.
"""

from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, repeat

from msgspec.structs import replace

from rota.core.decide import dependencies
from rota.core.decide.advance_execution import Birth, begin_execution
from rota.core.decide.overlap import Admission, admit
from rota.core.decide.quotas import full_quota
from rota.core.decide.run_hooks import note_missed
from rota.core.model.execution import Hold, Origin
from rota.core.model.ids import ExecutionId, JobId, fire_execution_id, fire_mark
from rota.core.model.job import Job, JobPlan, Misfire, Pause
from rota.core.model.ledger import FireOutcome, LedgerEntry, ledger_key
from rota.core.state.draft import Draft
from rota.core.timing.calendars import (
    Deferral,
    latest_permitted,
    next_permitted,
    previous_permitted,
)
from rota.core.timing.instants import (
    MICROSECOND,
    MINUTE,
    SECOND,
    Duration,
    Instant,
    format_duration,
    later,
    to_datetime,
)
from rota.core.timing.schedule import (
    Schedule,
    fault_of,
    fire_times,
    next_fire,
    one_shot_at,
)
from rota.core.vocabulary.changes import Pointer, Table, past_key
from rota.core.vocabulary.commands import Fire
from rota.core.vocabulary.disk_space import DiskSpace
from rota.core.vocabulary.effects import ClearTimer, SetTimer, Timescale

SLICE = 200
"""The number of fire times that one command decides: a few milliseconds of work."""
FULL_PAUSE = SECOND
"""The delay of due fires while the shard is at its limit of executions."""
SCARCE_PAUSE = Duration(2 * SECOND)
"""The interval at which fires are decided while the disk has too little space.

The fires of a schedule within one interval share an entry, which saves space. The interval is
shorter than the usual grace: if space is freed within it, the fires are late but not missed.
"""
UNREADABLE_PAUSE = MINUTE
"""The interval at which fires of an unreadable schedule are retried."""


def fire(draft: Draft, command: Fire, undeferred: frozenset[int] = frozenset()) -> None:
    """Decide the fire times of a job that are due now or within `Situation.decide_ahead`.

    A fire that is deferred is decided when it starts; those of the schedules *undeferred* now.
    """
    job, plan = draft.job(command.job_id), draft.plan(command.job_id)
    if job is None or plan is None:
        return
    soon = later(draft.wall, draft.situation.decide_ahead)
    postponed, room, starts = set[int](), SLICE, dict[int, Instant]()
    near = ((due, n) for n, due in enumerate(plan.next_fires) if due is not None and due <= soon)
    for due, number in sorted(near):
        if fault_of(job.spec.schedules[number]):
            postponed.add(number)
        elif number not in undeferred and _is_deferred(draft, job, number, due):
            starts[number] = draft.situation.facts.start_of(job.spec, number, due)
        elif due <= draft.wall:
            room -= _fire_schedule(draft, job, number, due, room) if room > 0 else 0
        elif _could_start(draft, job, number) and not _excluded(draft, job, number, (due,)):
            _fire_one(draft, job, number, due)
            advance(draft, job, number, due)
    plan = _with_starts(draft, job.id, starts)
    again_at = later(draft.wall, UNREADABLE_PAUSE)
    next_fires = [again_at if n in postponed else at for n, at in enumerate(plan.next_fires)]
    set_fire_timer(draft, job.id, replace(plan, next_fires=tuple(next_fires)))


def _is_deferred(draft: Draft, job: Job, number: int, due: Instant) -> bool:
    """Return True if the fire of *due* starts later than that, and later than now."""
    start = draft.situation.facts.start_of(job.spec, number, due)
    return start > due and start > draft.wall


def _with_starts(draft: Draft, job_id: JobId, starts: Mapping[int, Instant]) -> JobPlan:
    """Return the plan of a job with the starts of its deferred fires."""
    plan = draft.plan(job_id)
    assert plan is not None, job_id
    deferred = tuple(starts.get(n, Instant(0)) for n in range(len(plan.next_fires)))
    after = replace(plan, starts=deferred if starts else ())
    if after != plan:
        draft.put(Table.PLAN, job_id, after)
    return after


def set_fire_timer(draft: Draft, job_id: JobId, plan: JobPlan) -> None:
    """Set the timer for the job's next fire time."""
    due = first_fire(plan)
    if due is None:
        return
    if draft.execution_count >= draft.limits.executions and due <= draft.wall:
        due = later(draft.wall, FULL_PAUSE)
    elif _has_no_space(draft) and due > later(draft.wall, draft.situation.decide_ahead):
        due = max(due, later(draft.wall, SCARCE_PAUSE))
    draft.add(SetTimer(noticed_at(draft, due), Fire(job_id=job_id), Timescale.WALL))


def clear_fire_timer(draft: Draft, job_id: JobId, plan: JobPlan) -> None:
    """Clear the timer for the next fire time of *plan*."""
    due = first_fire(plan)
    if due is not None:
        draft.add(ClearTimer(noticed_at(draft, due), Fire(job_id=job_id), Timescale.WALL))


def noticed_at(draft: Draft, due: Instant) -> Instant:
    """Return when the timer of the fire time *due* is due.

    This is `Situation.decide_ahead` before *due* or, if that instant has passed, *due* itself.
    """
    ahead = Instant(due - draft.situation.decide_ahead)
    return ahead if ahead > draft.wall else due


def _could_start(draft: Draft, job: Job, number: int) -> bool:
    """Return True if an execution of schedule *number* of *job* could start now."""
    if _has_no_space(draft):
        return False
    is_free = draft.pause_of(job) is None and not job.spec.dependencies
    has_room = draft.execution_count < draft.limits.executions
    if not is_free or not has_room or full_quota(draft, job.spec.namespace):
        return False
    return admit(draft, job, job.spec.parameters_of(number), number) == Admission()


def _has_no_space(draft: Draft) -> bool:
    """Return True if the disk has too little space for new executions."""
    return draft.situation.disk_space is DiskSpace.SCARCE


def first_fire(plan: JobPlan) -> Instant | None:
    """Return when the earliest fire of the plan starts; None if there is none."""
    starts = plan.starts or repeat(Instant(0))
    fires = zip(plan.next_fires, starts, strict=False)
    return min((max(at, start) for at, start in fires if at is not None), default=None)


def first_fire_of(schedule: Schedule, saved_at: Instant) -> Instant | None:
    """Return the first fire time of a schedule saved at *saved_at*; None if there is none.

    The instant of an ``@at`` counts even if it has passed: the misfire policy decides its outcome.
    """
    at = one_shot_at(schedule)
    return next_fire(schedule, saved_at) if at is None else at


@dataclass(frozen=True, slots=True)
class _Due:
    """Due fire times of one schedule that get the same outcome, oldest first."""

    job: Job
    number: int
    times: Sequence[Instant]


def _fire_schedule(draft: Draft, job: Job, number: int, due: Instant, room: int) -> int:
    """Decide due fire times of a schedule, about *room* at most.

    Returns:
        The number of fire times that were computed.
    """
    schedule = job.spec.schedules[number]
    times = fire_times(schedule, _before(due), draft.wall, room)
    if not times or times[0] != due:
        # For @startup, and for an @at in the past, the fire time is in the plan only.
        times = [due, *times]
    if len(times) > 1 and _is_deferred(draft, job, number, times[-1]):
        times.pop()
    pause = draft.pause_of(job)
    # Fire times after the end of a pause are decided without it, also before it is noticed.
    paused = [at for at in times if not 0 < pause.until <= at] if pause else []
    if pause is not None and paused:
        _record_paused(draft, _Due(job, number, paused), pause)
        advance(draft, job, number, paused[-1])
        return len(paused)
    if _has_no_space(draft):
        _record_disk_full(draft, _Due(job, number, times))
        advance(draft, job, number, times[-1])
        return len(times)
    excluded = _excluded(draft, job, number, times)
    permitted = [at for at in times if at not in excluded] if excluded else times
    decided: Sequence[Instant] = ()
    if permitted:
        gaps = sorted(excluded)
        decided = _decide(draft, job, number, permitted, gaps, is_all=len(times) < room)
    last = times[-1] if len(decided) == len(permitted) else max(decided, default=None)
    if last is not None:
        _record_excluded(draft, job, number, [at for at in times if at <= last], excluded)
        advance(draft, job, number, last)
    return len(times)


def _decide(
    draft: Draft,
    job: Job,
    number: int,
    times: Sequence[Instant],
    gaps: Sequence[Instant],
    *,
    is_all: bool,
) -> Sequence[Instant]:
    """Fire each of *times* that is on time, and decide the late ones by the misfire policy.

    Args:
        draft: The draft.
        job: The job.
        number: The number of its schedule.
        times: Due fire times of the schedule that no calendar excludes, oldest first.
        gaps: Those that one excludes, which no entry about others spans.
        is_all: Whether no fire time beyond *times* is due.

    Returns:
        The decided ones, which are fewer if the shard is full.
    """
    lost_until, why = _lost_until(draft, job, number, times)
    lost = [at for at in times if at < lost_until]
    for run in _between(gaps, lost):
        _record_missed(draft, _Due(job, number, run), why)
    if len(lost) == len(times):
        return lost
    rest = times[len(lost) :]
    late_until = _late_until(draft, job, number, rest, is_all=is_all)
    late = [at for at in rest if at < late_until]
    for run in _between(gaps, late):
        _record_coalesced(draft, _Due(job, number, run), into=late_until)
    return (*lost, *late, *_fire_each(draft, job, number, rest[len(late) :]))


def _between(gaps: Sequence[Instant], times: Iterable[Instant]) -> Iterator[list[Instant]]:
    """Yield the runs of *times* without one of *gaps* between them."""
    for _, run in groupby(times, lambda at: bisect(gaps, at)):
        yield list(run)


def _lost_until(
    draft: Draft, job: Job, number: int, times: Sequence[Instant]
) -> tuple[Instant, str]:
    """Return the instant before which due fire times are missed for good, and why."""
    spec, misfire = job.spec, job.spec.misfire_of(number)
    on_time_from = _on_time_from(draft, job, number, times)
    if times[0] >= on_time_from:
        return times[0], ""
    if misfire is Misfire.SKIP:
        return on_time_from, "the misfire policy is skip"
    lost_until, why = times[0], ""
    window_from = Instant(on_time_from + spec.grace - spec.misfire_window)
    if spec.misfire_window and lost_until < window_from:
        lost_until = window_from
        why = f"the misfire window is {format_duration(spec.misfire_window)}"
    if spec.misfire_max and misfire is Misfire.ALL:
        kept = _latest_late(draft, job, number, on_time_from)
        if kept > lost_until:
            return kept, f"the latest {spec.misfire_max} late fire times run (misfireMax)"
    return lost_until, why


def _on_time_from(draft: Draft, job: Job, number: int, times: Sequence[Instant]) -> Instant:
    """Return the first fire time that is not late; a deferred one is due when it starts."""
    deferred_by = draft.situation.facts.start_of(job.spec, number, times[-1]) - times[-1]
    return Instant(draft.wall - job.spec.grace - deferred_by)


def _latest_late(draft: Draft, job: Job, number: int, on_time_from: Instant) -> Instant:
    """Return the first of the latest `misfire_max` fire times before *on_time_from*."""
    schedule = job.spec.schedules[number]
    exclusion = draft.situation.facts.exclusion_of(job.spec, schedule)
    first = latest_permitted(schedule, exclusion, Instant(0), _before(on_time_from))
    for _ in range(job.spec.misfire_max - 1):
        first = None if first is None else previous_permitted(schedule, exclusion, first)
    return first or Instant(0)


def _excluded(
    draft: Draft, job: Job, number: int, times: Sequence[Instant]
) -> Mapping[Instant, str]:
    """Return the reason for each of *times* that a calendar or a blackout excludes."""
    exclusion = draft.situation.facts.exclusion_of(job.spec, job.spec.schedules[number])
    if exclusion is None:
        return {}
    found = {at: why for at in times if (why := exclusion.why(at))}
    if isinstance(exclusion, Deferral) and _is_deferred(draft, job, number, times[-1]):
        # Its schedule is replaced before the calendar permits the start.
        found[times[-1]] = exclusion.reason(times[-1])
    return {at: why for at, why in found.items() if why}


def _record_excluded(
    draft: Draft,
    job: Job,
    number: int,
    times: Sequence[Instant],
    excluded: Mapping[Instant, str],
) -> None:
    """Record the *excluded* ones of *times*, each run with the same reason in one entry."""
    for why, run in groupby(times, lambda at: excluded.get(at, "")):
        if why:
            due = _Due(job, number, list(run))
            _record(draft, due, FireOutcome.EXCLUDED, ExecutionId(""), why)


def _late_until(
    draft: Draft, job: Job, number: int, times: Sequence[Instant], *, is_all: bool
) -> Instant:
    """Return the fire time into which all late ones of *times* are coalesced.

    It may be beyond this slice. It is the first of *times* if none is late, and for the policy
    ``all``, which coalesces none. The arguments are those of `_decide`.
    """
    on_time_from = _on_time_from(draft, job, number, times)
    if job.spec.misfire_of(number) is Misfire.ALL or times[0] >= on_time_from:
        return times[0]
    schedule = job.spec.schedules[number]
    exclusion = draft.situation.facts.exclusion_of(job.spec, schedule)
    first_on_time = next_permitted(schedule, exclusion, _before(on_time_from))
    if first_on_time is not None and first_on_time <= draft.wall:
        return first_on_time
    if is_all:
        return times[-1]
    return latest_permitted(schedule, exclusion, _before(times[0]), draft.wall) or times[-1]


def _fire_each(draft: Draft, job: Job, number: int, times: Sequence[Instant]) -> Sequence[Instant]:
    """Fire each of *times*; return the decided ones, which are fewer if the shard is full."""
    for count, at in enumerate(times):
        if draft.execution_count >= draft.limits.executions or _has_begun_all(draft, job, number):
            return times[:count]
        _fire_one(draft, job, number, at)
    return times


def _has_begun_all(draft: Draft, job: Job, number: int) -> bool:
    """Return True if a schedule has begun as many executions as it may."""
    most, plan = job.spec.policy_of(number).max_executions, draft.plan(job.id)
    return bool(most and plan is not None and plan.begun and plan.begun[number] >= most)


def count_begun(draft: Draft, job: Job, number: int) -> None:
    """Count an execution that a schedule with a limit has begun."""
    if job.spec.policy_of(number).max_executions:
        plan = draft.plan(job.id)
        assert plan is not None, job.id
        begun = list(plan.begun or (0,) * len(plan.next_fires))
        begun[number] += 1
        draft.put(Table.PLAN, job.id, replace(plan, begun=tuple(begun)))


def _fire_one(draft: Draft, job: Job, number: int, at: Instant) -> None:
    if full := full_quota(draft, job.spec.namespace):
        reason = f"quota_exceeded: {full}"
        _record(draft, _Due(job, number, [at]), FireOutcome.SKIPPED, ExecutionId(""), reason)
        return
    parameters, facts = job.spec.parameters_of(number), draft.situation.facts
    admission = _admit(draft, job, number)
    execution_id = _execution_id(draft, job, number, at)
    if admission.blocked_by is not None:
        _record_skipped(draft, _Due(job, number, [at]), admission.blocked_by)
        return
    begin_execution(
        draft,
        job,
        Birth(
            id=execution_id,
            origin=Origin.SCHEDULE,
            fire_at=at,
            parameters=parameters,
            hold=admission.hold,
            displaces=admission.displaces,
            interval_start=facts.interval_start(job.spec, job.spec.schedules[number], at),
            deferred_by=Duration(facts.start_of(job.spec, number, at) - at),
        ),
    )
    count_begun(draft, job, number)
    _record(draft, _Due(job, number, [at]), FireOutcome.FIRED, execution_id, "")


def _execution_id(draft: Draft, job: Job, number: int, at: Instant) -> ExecutionId:
    plan = draft.plan(job.id)
    assert plan is not None, job.id
    return fire_execution_id(job.id, at, fire_mark(number, plan.round))


def _admit(draft: Draft, job: Job, number: int) -> Admission:
    """Apply the overlap policy, then the dependencies; an execution may have to wait for both."""
    waiting = dependencies.waiting_execution(draft, job)
    if waiting is not None:
        return Admission(blocked_by=waiting.id)
    admission = admit(draft, job, job.spec.parameters_of(number), number)
    plan = draft.plan(job.id)
    if admission.blocked_by is not None or plan is None or not plan.upstreams:
        return admission
    if not dependencies.is_met(plan):
        return Admission(hold=Hold.DEPENDENCIES)
    draft.put(Table.PLAN, job.id, dependencies.unmet(plan))
    return admission


def advance(draft: Draft, job: Job, number: int, decided: Instant) -> None:
    """Move the next fire of a schedule past *decided*; a schedule that has begun its most ends."""
    plan = draft.plan(job.id)
    assert plan is not None, job.id
    next_fires = list(plan.next_fires)
    is_over = _has_begun_all(draft, job, number)
    next_fires[number] = None if is_over else next_fire(job.spec.schedules[number], decided)
    draft.put(Table.PLAN, job.id, replace(plan, next_fires=tuple(next_fires)))


# -- the ledger -----------------------------------------------------------------------------------


def _record_paused(draft: Draft, due: _Due, pause: Pause) -> None:
    by = f" by {pause.by}" if pause.by else ""
    why = f": {pause.reason}" if pause.reason else ""
    whole = "" if due.job.pause is not None else f"namespace {due.job.spec.namespace} "
    reason = f"{whole}paused since {to_datetime(pause.at):%FT%TZ}{by}{why}"
    _record(draft, due, FireOutcome.PAUSED, ExecutionId(""), reason)


def _record_disk_full(draft: Draft, due: _Due) -> None:
    node_id = draft.situation.slots.node_id
    reason = f"disk_full: the disk of node {node_id} has too little space to begin executions"
    _record(draft, due, FireOutcome.MISSED, ExecutionId(""), reason)


def _late_s(draft: Draft, due: _Due) -> float:
    """Return how late the first fire is noticed after its start, in seconds."""
    start = draft.situation.facts.start_of(due.job.spec, due.number, due.times[0])
    return (draft.wall - start) / SECOND


def _record_missed(draft: Draft, due: _Due, why: str) -> None:
    late_s = _late_s(draft, due)
    reason = f"noticed {late_s:.1f} s late; {why}"
    note_missed(draft, due.job, _record(draft, due, FireOutcome.MISSED, ExecutionId(""), reason))


def _record_coalesced(draft: Draft, due: _Due, into: Instant) -> None:
    late_s = _late_s(draft, due)
    reason = f"noticed {late_s:.1f} s late; covered by the fire of {to_datetime(into):%FT%TZ}"
    into_id = _execution_id(draft, due.job, due.number, into)
    _record(draft, due, FireOutcome.COALESCED, into_id, reason)


def _record_skipped(draft: Draft, due: _Due, blocked_by: ExecutionId) -> None:
    blocker = draft.execution(blocked_by)
    if blocker is not None and blocker.hold is Hold.DEPENDENCIES:
        reason = f"{blocked_by} still waits for the jobs that it depends on"
    else:
        policy = due.job.spec.overlap_of(due.number).value
        reason = f"{blocked_by} had not finished; the overlap policy is {policy}"
    _record(draft, due, FireOutcome.SKIPPED, blocked_by, reason)


def _record(
    draft: Draft, due: _Due, outcome: FireOutcome, execution_id: ExecutionId, reason: str
) -> LedgerEntry:
    first = due.times[0]
    key = ledger_key(due.job.id, first, due.number)
    entry = LedgerEntry(
        job_id=due.job.id,
        schedule=due.number,
        fire_at=first,
        until=due.times[-1],
        count=len(due.times),
        outcome=outcome,
        recorded_at=draft.now,
        execution_id=execution_id,
        reason=reason,
    )
    draft.put(Table.LEDGER, key, entry)
    draft.publish_fires(due.job.spec.full_name, entry)
    if outcome is not FireOutcome.FIRED:
        # The entry of a fire is deleted with its execution.
        pointer = Pointer(Table.LEDGER, key)
        draft.put(Table.PAST, past_key(first, pointer), pointer)
    return entry


def _before(instant: Instant) -> Instant:
    return Instant(instant - MICROSECOND)
