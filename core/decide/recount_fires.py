"""Fire times that are computed again: the clock was set back, or time zones have new rules.

**The clock was ahead.** While a wall clock is ahead, fire times up to its time get their outcomes,
so a job would be silent until the right clock has reached them. The outcomes stay, but the
schedules count from the wall clock again when a user resumes the job, or changes them. The plan's
round is then increased: it is a part of the ids of executions (`fire_mark`), so a fire time may
run again at its right time. The shard's time never goes back (PROTOCOL R7), so it shows for how
long fire times may have been decided early: `Situation.lead`.

**New rules.** The tz database of a node changes only when the node starts. A new primary computes
the next fire times of all schedules with a time zone again, after the last decided one.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from rota.core.decide.fire import clear_fire_timer, set_fire_timer
from rota.core.model.job import Job, JobPlan
from rota.core.state.draft import Draft
from rota.core.timing.instants import SECOND, Duration, Instant, later
from rota.core.timing.schedule import Schedule, fault_of, has_rules, next_fire, one_shot_at
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.commands import RecountFires

LEAD_MAX = Duration(2 * SECOND)
"""A shard's time may be ahead of the wall clock by this: the clocks of nodes differ a little."""


def is_ahead(draft: Draft) -> bool:
    """Return True if fire times after the wall clock may have been decided."""
    return draft.situation.lead > LEAD_MAX


def counted_from(draft: Draft) -> Instant:
    """Return the instant after which fire times count of a job that is saved or resumed now."""
    # Fire times within `decide_ahead` may have been decided at the right time.
    return later(draft.wall, draft.situation.decide_ahead) if is_ahead(draft) else draft.now


def silent_until(job: Job, plan: JobPlan, wall: Instant) -> Instant | None:
    """Return the next fire of a schedule that skips fire times after *wall*; None if none does.

    The result is the earliest of such next fires.
    """
    skipping = (
        at
        for schedule, at in zip(job.spec.schedules, plan.next_fires, strict=True)
        if at is not None and _recounted(schedule, at, wall) < at
    )
    return min(skipping, default=None)


COUNTED_AGAIN = "the schedules count from now again"
"""The detail of a resumption of a job that is not paused; see `restart_fires`."""


def restart_fires(draft: Draft, job: Job) -> bool:
    """Count the schedules of *job* from the wall clock, if they skip fire times after it.

    Returns:
        Whether a next fire time has changed.
    """
    plan = draft.plan(job.id)
    if plan is None or not is_ahead(draft):
        return False
    since = counted_from(draft)
    if silent_until(job, plan, since) is None:
        return False
    next_fires = tuple(
        None if at is None else min(at, _recounted(schedule, at, since))
        for schedule, at in zip(job.spec.schedules, plan.next_fires, strict=True)
    )
    _put(draft, job, plan, replace(plan, next_fires=next_fires, starts=(), round=plan.round + 1))
    return True


def has_new_rules(job: Job, plan: JobPlan, after: Instant) -> bool:
    """Return True if a next fire of *job* after *after* differs by the present rules."""
    return any(_renewed(job, plan, after))


def recount_fires(draft: Draft, command: RecountFires) -> None:
    """Compute the next fire times of a job by the present rules of its time zones.

    Nothing is changed while fire times after the wall clock may have been decided.
    """
    job, plan = draft.job(command.job_id), draft.plan(command.job_id)
    if job is None or plan is None or is_ahead(draft):
        return
    next_fires = list(plan.next_fires)
    for number, at in _renewed(job, plan, later(draft.now, draft.situation.decide_ahead)):
        next_fires[number] = at
    if tuple(next_fires) != plan.next_fires:
        _put(draft, job, plan, replace(plan, next_fires=tuple(next_fires), starts=()))


def _renewed(job: Job, plan: JobPlan, after: Instant) -> Iterator[tuple[int, Instant | None]]:
    """Yield the number and the next fire of each schedule that has another one by present rules."""
    for number, (schedule, at) in enumerate(zip(job.spec.schedules, plan.next_fires, strict=True)):
        if at is None or at <= after or fault_of(schedule) or not has_rules(schedule):
            continue
        once = one_shot_at(schedule)
        renewed = next_fire(schedule, after) if once is None else once
        if renewed != at:
            yield number, renewed


def _recounted(schedule: Schedule, at: Instant, since: Instant) -> Instant:
    """Return the first fire after *since*; *at* for a schedule without another one."""
    if fault_of(schedule) or one_shot_at(schedule) is not None:
        return at
    return next_fire(schedule, since) or at


def _put(draft: Draft, job: Job, before: JobPlan, after: JobPlan) -> None:
    clear_fire_timer(draft, job.id, before)
    draft.put(Table.PLAN, job.id, after)
    set_fire_timer(draft, job.id, after)
