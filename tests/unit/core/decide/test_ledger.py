"""The ledger has exactly one outcome for every expected fire time, and the right one.

Random schedules, policies, outages, clocks set forward and back, full shards, takeovers and
deletions; `fire_times` is the oracle.
"""

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.core.decide.dispatch import pending
from rota.core.decide.fire import first_fire_of
from rota.core.model.execution import Execution, Origin
from rota.core.model.ids import JobId, fire_execution_id
from rota.core.model.job import JobSpec, Misfire, Overlap
from rota.core.model.ledger import FireOutcome, LedgerEntry
from rota.core.timing.instants import HOUR, MINUTE, SECOND, Duration, Instant, later
from rota.core.timing.schedule import Schedule, fire_times, next_fire, parse_schedule
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.decision import Limits
from rota.core.vocabulary.effects import SetTimer, Timescale
from unit.core.shard import Shard, at, clock_of, job

TEXTS = (
    "* * * * *",
    "*/7 * * * * *",
    "30 */5 * * * *",
    "0 * * * *",
    "@every 90s",
    "@at 2027-01-04T12:10:00Z",
    "@at 2027-01-04T11:00:00Z",
    "@manual",
)
GRACES = (Duration(0), SECOND, Duration(10 * SECOND), Duration(5 * MINUTE))
MANY = 10_000


class Wait(msgspec.Struct, frozen=True):
    """Time passes in small steps, and timers ring when they are due."""

    duration: Duration


class Outage(msgspec.Struct, frozen=True):
    """Time passes, and no timer rings."""

    duration: Duration


class SetClock(msgspec.Struct, frozen=True):
    """The wall clock is set."""

    step: Duration


class FinishSome(msgspec.Struct, frozen=True):
    """The oldest executions end."""

    count: int


class TakeOver(msgspec.Struct, frozen=True):
    """Another primary takes over with the stored state."""


class FireTwice(msgspec.Struct, frozen=True):
    """A timer rings that is not due."""


Event = Wait | Outage | SetClock | FinishSome | TakeOver | FireTwice


def durations(longest: int) -> st.SearchStrategy[Duration]:
    return st.integers(0, longest).map(Duration)


events = st.one_of(
    st.builds(Wait, durations(5 * MINUTE)),
    st.builds(Outage, durations(40 * MINUTE)),
    st.builds(SetClock, st.integers(-HOUR, HOUR).map(Duration)),
    st.builds(FinishSome, st.integers(1, 5)),
    st.builds(TakeOver),
    st.builds(FireTwice),
)


@st.composite
def specs(draw: st.DrawFn) -> JobSpec:
    """Draw a job with one to three schedules and any policies."""
    texts = draw(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3))
    return job(
        schedules=tuple(parse_schedule(text) for text in texts),
        misfire=draw(st.sampled_from(Misfire)),
        grace=draw(st.sampled_from(GRACES)),
        overlap=draw(st.sampled_from(Overlap)),
    )


@given(
    spec=specs(),
    history=st.lists(events, min_size=4, max_size=14),
    most=st.sampled_from((1, 3, MANY)),
    ahead=st.sampled_from((Duration(0), SECOND)),
    is_deleted=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_every_fire_time_has_exactly_one_outcome_and_the_right_one(
    *, spec: JobSpec, history: list[Event], most: int, ahead: Duration, is_deleted: bool
) -> None:
    shard = Shard(limits=Limits(executions=most), ahead=ahead)
    job_id = shard.save_spec(spec)
    saved_at = shard.decided_at

    for event in history:
        happen(shard, job_id, event)
    if is_deleted:
        pending_fires = shard.state.plans[job_id].next_fires
        shard.delete(job_id)
        shard.pass_time(MINUTE)
    else:
        catch_up(shard)
        pending_fires = shard.state.plans[job_id].next_fires
        assert all(due is None or due > shard.decided_at for due in pending_fires)

    for number, schedule in enumerate(spec.schedules):
        entries = [entry for entry in shard.ledger() if entry.schedule == number]
        expected = expected_fires(schedule, saved_at, pending_fires[number], shard)
        assert [fire for entry in entries for fire in fires_of(entry, schedule)] == expected
        for entry in entries:
            check_outcome(Context(shard, spec, schedule), entry)
    check_published(shard)
    check_executions(shard, spec)


def check_published(shard: Shard) -> None:
    """Check that each entry of the ledger was published once, as recorded."""
    published = [
        (each.fire_at, each.outcome, each.count, each.detail) for each in shard.published_fires
    ]
    recorded = [(each.fire_at, each.outcome, each.count, each.reason) for each in shard.ledger()]
    assert Counter(published) == Counter(recorded)


def happen(shard: Shard, job_id: JobId, event: Event) -> None:
    match event:
        case Wait(duration):
            for _ in range(5):
                shard.pass_time(Duration(duration // 5))
        case Outage(duration):
            shard.elapsed += duration
            shard.set_clock(Instant(shard.clock + duration))
        case SetClock(step):
            shard.set_clock(Instant(shard.clock + step))
        case FinishSome(count):
            finish(shard, count)
        case TakeOver():
            shard.state = shard.reloaded()
            shard.timers.clear()
            for effect in pending(shard.state, shard.ahead):
                if isinstance(effect, SetTimer):
                    assert effect.timescale is Timescale.WALL
                    shard.note(effect)
        case FireTwice():
            shard.fire(job_id)


def finish(shard: Shard, count: int) -> None:
    """Have the oldest running executions succeed."""
    running = [one for one in shard.live() if shard.status(one) == "running"]
    if running:
        shard.do_together(*[shard.report(one) for one in running[:count]])


def catch_up(shard: Shard) -> None:
    """Decide all due fire times, with room for all executions and a right clock."""
    shard.limits = Limits()
    shard.set_clock(max(shard.clock, shard.decided_at))
    shard.pass_time(MINUTE)


def expected_fires(
    schedule: Schedule, saved_at: Instant, next_due: Instant | None, shard: Shard
) -> list[Instant]:
    """Return the fire times that must have an outcome: all before the next one."""
    first = first_fire_of(schedule, saved_at)
    if first is None:
        return []
    until = later(shard.decided_at, shard.ahead) if next_due is None else Instant(next_due - 1)
    return fire_times(schedule, Instant(first - 1), until, MANY)


def fires_of(entry: LedgerEntry, schedule: Schedule) -> list[Instant]:
    """Return the fire times of *entry*."""
    fires = fire_times(schedule, Instant(entry.fire_at - 1), entry.until, MANY)
    assert len(fires) == entry.count
    return fires


@dataclass(frozen=True)
class Context:
    """Facts with which an entry of the ledger has to agree."""

    shard: Shard
    spec: JobSpec
    schedule: Schedule


def check_outcome(context: Context, entry: LedgerEntry) -> None:
    shard, spec, schedule = context.shard, context.spec, context.schedule
    noticed_at = shard.walls[entry.recorded_at]
    was_late = entry.until < noticed_at - spec.grace
    if entry.until > noticed_at:
        assert entry.until <= noticed_at + shard.ahead, "decided too early"
        assert (entry.outcome, entry.count) == (FireOutcome.FIRED, 1)
    match entry.outcome:
        case FireOutcome.FIRED:
            assert entry.execution_id == fire_execution_id(
                entry.job_id, entry.fire_at, entry.schedule
            )
            assert shard.execution(entry.execution_id).fire_at == entry.fire_at
            if spec.misfire is Misfire.SKIP:
                assert not was_late
            if spec.misfire is Misfire.LATEST and was_late:
                following = next_fire(schedule, entry.fire_at)
                assert following is None or following > noticed_at
        case FireOutcome.SKIPPED:
            assert spec.overlap is not Overlap.ALLOW
            blocker = shard.execution(entry.execution_id)
            assert blocker.queued_at <= entry.recorded_at
            assert not blocker.finished_at or blocker.finished_at >= entry.recorded_at
        case FireOutcome.MISSED:
            assert spec.misfire is Misfire.SKIP
            assert was_late
        case FireOutcome.COALESCED:
            assert spec.misfire is Misfire.LATEST
            assert was_late
            into = int(entry.execution_id[17:31], 16)
            assert entry.until < into <= noticed_at, clock_of(entry.until)
        case FireOutcome.PAUSED | FireOutcome.EXCLUDED:
            pytest.fail("no job is paused or has calendars here")


def check_executions(shard: Shard, spec: JobSpec) -> None:
    """Check that each execution has one entry, and that none overlaps where that is forbidden."""
    fired = {entry.execution_id for entry in shard.ledger() if entry.outcome is FireOutcome.FIRED}
    made = [one for one in shard.executions() if one.origin is Origin.SCHEDULE]
    assert {one.id for one in made} == fired
    assert len(made) == len(fired)
    if spec.overlap is Overlap.SKIP:
        for before, after in pairwise(made):
            assert 0 < before.finished_at <= after.queued_at
    for one in shard.read_all(Table.PAST_EXECUTION, Execution):
        assert one.finished_at >= one.queued_at >= at("12:00")
