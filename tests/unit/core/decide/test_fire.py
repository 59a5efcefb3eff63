"""Fire times come due: what is fired, what is not, and what the ledger says of each."""

import pytest
from msgspec.structs import replace

from rota.core.decide.dispatch import pending
from rota.core.decide.fire import FULL_PAUSE, SLICE
from rota.core.model.attempt import Outcome
from rota.core.model.execution import ExecutionStatus, Origin
from rota.core.model.ids import Epoch, JobId, fire_execution_id
from rota.core.model.job import Misfire, Overlap
from rota.core.model.ledger import FireOutcome
from rota.core.timing.instants import (
    DAY,
    HOUR,
    MICROSECOND,
    MILLISECOND,
    MINUTE,
    SECOND,
    Duration,
    Instant,
    later,
)
from rota.core.vocabulary.changes import Change, Table
from rota.core.vocabulary.commands import (
    Fire,
    FireAtStartup,
    PauseJob,
    ResumeJob,
    SaveJob,
    StartTask,
)
from rota.core.vocabulary.decision import Limits
from rota.core.vocabulary.effects import (
    ClearTimer,
    Launch,
    PostponedEffects,
    Publish,
    SetTimer,
    Timescale,
    WaitForSlot,
)
from unit.core.shard import Shard, at, clock_of, every, job

EVERY_MINUTE = every("* * * * *")
EVERY_SECOND = every("* * * * * *")
GRACE = Duration(10 * SECOND)


def first_due(shard: Shard, job_id: JobId) -> str | None:
    (due,) = shard.state.plans[job_id].next_fires
    return None if due is None else clock_of(due)


# --- on time -------------------------------------------------------------------------------------


def test_a_fire_makes_its_execution_its_ledger_entry_and_the_next_timer() -> None:
    shard = Shard()
    job_id = shard.save(schedules=EVERY_MINUTE)

    shard.pass_time(MINUTE)

    noon_one = at("12:01")
    (entry,) = shard.ledger()
    assert entry.execution_id == fire_execution_id(job_id, noon_one, 0)
    assert (entry.fire_at, entry.until, entry.count) == (noon_one, noon_one, 1)
    assert (entry.outcome, entry.reason) == (FireOutcome.FIRED, "")
    assert shard.execution(entry.execution_id).origin is Origin.SCHEDULE
    assert shard.all_effects(SetTimer) == [
        SetTimer(at("12:02"), Fire(job_id=job_id), Timescale.WALL)
    ]


def test_a_fire_before_its_time_makes_nothing_and_is_waited_for_again() -> None:
    shard = Shard()
    job_id = shard.save(schedules=EVERY_MINUTE)
    shard.set_clock(Instant(at("12:01") - 10))

    shard.fire(job_id)

    assert shard.executions() == []
    assert [timer.due for timer in shard.all_effects(SetTimer)] == [at("12:01")]


def test_a_fire_decided_twice_makes_one_execution() -> None:
    shard = Shard()
    job_id = shard.save(schedules=EVERY_MINUTE)
    shard.set_clock(at("12:01"))
    shard.fire(job_id)

    shard.fire(job_id)

    assert shard.fired() == ["12:01:00"]
    assert len(shard.executions()) == 1


def test_fire_times_before_a_job_was_saved_have_no_outcome() -> None:
    shard = Shard(clock=at("12:00:00"))
    job_id = shard.save(schedules=EVERY_MINUTE)

    assert first_due(shard, job_id) == "12:01:00"


def test_the_fire_of_a_deleted_job_makes_nothing() -> None:
    shard = Shard()
    job_id = shard.save(schedules=EVERY_MINUTE)
    shard.delete(job_id)
    shard.set_clock(at("12:01"))

    shard.fire(job_id)

    assert shard.executions() == []
    assert shard.effects == []


def test_several_schedules_fire_each_for_itself() -> None:
    shard = Shard()
    job_id = shard.save(schedules=every("*/2 * * * *") + every("*/3 * * * *"))

    for _ in range(6):
        shard.pass_time(MINUTE)

    fired = [(clock_of(entry.fire_at), entry.schedule) for entry in shard.ledger()]
    assert fired == [
        ("12:02:00", 0),
        ("12:03:00", 1),
        ("12:04:00", 0),
        ("12:06:00", 0),
        ("12:06:00", 1),
    ]
    assert len({one.id for one in shard.executions() if one.job_id == job_id}) == 5


def test_a_schedule_without_fires_does_not_disturb_the_others() -> None:
    shard = Shard()
    shard.save(schedules=every("@manual") + EVERY_MINUTE + every("@startup"))

    shard.pass_time(MINUTE)

    assert shard.outcomes() == [("12:01:00", 1, "fired")]


def test_a_schedule_that_cannot_be_read_is_tried_again_and_loses_no_fire() -> None:
    shard = Shard()
    schedules = (*EVERY_MINUTE, *every("@every 1m phase 30s"))
    job_id = shard.save(schedules=schedules, misfire=Misfire.ALL)
    stored = shard.state.jobs[job_id]
    lost = (replace(schedules[0], timezone="Europe/Atlantis"), schedules[1])
    unreadable = replace(stored, spec=replace(stored.spec, schedules=lost))
    shard.state.apply(Change(Table.JOB, job_id, unreadable))

    shard.set_clock(at("12:01"))
    shard.ring_timers()

    assert shard.fired() == ["12:00:30"]
    assert due_timers(shard) == [at("12:01:30")]

    shard.state.apply(Change(Table.JOB, job_id, stored))
    shard.set_clock(at("12:02"))
    shard.ring_timers()

    assert sorted(shard.fired()) == ["12:00:30", "12:01:00", "12:01:30", "12:02:00"]


def test_a_new_primary_finds_every_jobs_first_fire() -> None:
    shard = Shard()
    job_id = shard.save(schedules=every("0 18 * * *") + EVERY_MINUTE)
    shard.save(name="manual", schedules=every("@manual"))

    found = list(pending(shard.reloaded()))

    assert found == [SetTimer(at("12:01"), Fire(job_id=job_id), Timescale.WALL)]


# --- a little ahead ------------------------------------------------------------------------------

AHEAD = Duration(25 * MILLISECOND)
ALMOST = Instant(at("12:01") - AHEAD)
SOONER = Instant(ALMOST - MICROSECOND)


def early(slots: int = 1_000) -> Shard:
    return Shard(ahead=AHEAD, slots=slots)


def due_timers(shard: Shard) -> list[Instant]:
    return [timer.due for timer in shard.all_effects(SetTimer)]


def test_a_fire_is_noticed_ahead_and_not_before_that() -> None:
    shard = early()
    job_id = shard.save(schedules=EVERY_MINUTE)
    noticed = due_timers(shard)

    shard.set_clock(SOONER)
    shard.fire(job_id)

    assert noticed == due_timers(shard) == [ALMOST]
    assert shard.executions() == []


def test_a_fire_decided_ahead_starts_when_it_is_due() -> None:
    shard = early()
    job_id = shard.save(schedules=EVERY_MINUTE)

    shard.set_clock(ALMOST)
    shard.fire(job_id)

    [entry] = shard.ledger()
    [waiting] = shard.all_effects(PostponedEffects)
    assert (entry.outcome, entry.fire_at) == (FireOutcome.FIRED, at("12:01"))
    assert entry.recorded_at == shard.decided_at < at("12:01")
    assert (waiting.at, waiting.execution_id) == (at("12:01"), entry.execution_id)
    assert any(isinstance(effect, Launch) for effect in waiting.effects)
    assert shard.all_effects(Launch) == []
    assert [event.status for event in shard.all_effects(Publish)] == [ExecutionStatus.QUEUED]
    assert shard.execution(entry.execution_id).started_at == at("12:01")
    assert shard.task(entry.execution_id).attempts[0].placed_at == at("12:01")
    assert due_timers(shard) == [Instant(at("12:02") - AHEAD)]


def test_a_fire_decided_ahead_is_not_decided_again_when_it_is_due() -> None:
    shard = early()
    job_id = shard.save(schedules=EVERY_MINUTE)
    shard.set_clock(ALMOST)
    shard.fire(job_id)

    shard.set_clock(at("12:01"))
    shard.fire(job_id)

    assert shard.fired() == ["12:01:00"]


def test_without_a_place_a_task_waits_from_when_it_is_due() -> None:
    shard = early(slots=0)
    job_id = shard.save(schedules=EVERY_MINUTE)

    shard.set_clock(ALMOST)
    shard.fire(job_id)

    [waiting] = shard.all_effects(PostponedEffects)
    [wait] = [effect for effect in waiting.effects if isinstance(effect, WaitForSlot)]
    assert wait.since == at("12:01")
    assert shard.all_effects(WaitForSlot) == []


def test_a_place_that_comes_before_a_task_is_due_is_kept_for_it() -> None:
    shard = early(slots=0)
    job_id = shard.save(schedules=EVERY_MINUTE)
    shard.set_clock(ALMOST)
    shard.fire(job_id)
    shard.slots = 1

    [one] = shard.live()
    shard.do(StartTask(execution_id=one, task="main"))

    [waiting] = shard.all_effects(PostponedEffects)
    assert waiting.at == at("12:01")
    assert shard.all_effects(Launch) == []


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE_ONE])
def test_what_may_not_overlap_is_looked_at_again_when_it_is_due(overlap: Overlap) -> None:
    shard = early()
    job_id = shard.save(schedules=EVERY_MINUTE, overlap=overlap)
    before = shard.trigger(job_id)
    shard.set_clock(ALMOST)
    shard.fire(job_id)
    timers, decided = due_timers(shard), shard.ledger()

    shard.finish(before)
    shard.set_clock(at("12:01"))
    shard.fire(job_id)

    assert (timers, decided) == ([at("12:01")], [])
    assert shard.outcomes() == [("12:01:00", 1, "fired")]


def test_what_may_overlap_is_decided_ahead_beside_what_runs() -> None:
    shard = early()
    job_id = shard.save(schedules=EVERY_MINUTE, overlap=Overlap.ALLOW)
    shard.trigger(job_id)

    shard.set_clock(ALMOST)
    shard.fire(job_id)

    assert shard.outcomes() == [("12:01:00", 1, "fired")]


def test_a_paused_job_is_looked_at_again_when_it_is_due() -> None:
    shard = early()
    job_id = shard.save(schedules=EVERY_MINUTE)
    shard.do(PauseJob(job_id=job_id))
    shard.set_clock(ALMOST)
    shard.fire(job_id)
    timers, decided = due_timers(shard), shard.ledger()

    shard.do(ResumeJob(job_id=job_id))
    shard.set_clock(at("12:01"))
    shard.fire(job_id)

    assert (timers, decided) == ([at("12:01")], [])
    assert shard.outcomes() == [("12:01:00", 1, "fired")]


def test_a_job_that_waits_for_others_is_decided_when_it_is_due() -> None:
    shard = early()
    job_id = shard.save(schedules=EVERY_MINUTE, dependencies=("default/other",))

    shard.set_clock(ALMOST)
    shard.fire(job_id)

    assert due_timers(shard) == [at("12:01")]
    assert shard.executions() == []


def test_a_full_shard_decides_nothing_ahead() -> None:
    shard = early()
    shard.limits = Limits(executions=1)
    shard.run(name="other")
    job_id = shard.save(schedules=EVERY_MINUTE)

    shard.set_clock(ALMOST)
    shard.fire(job_id)

    assert due_timers(shard) == [at("12:01")]
    assert shard.ledger() == []


def test_one_cancelled_before_it_is_due_never_began() -> None:
    shard = early()
    job_id = shard.save(schedules=EVERY_MINUTE)
    shard.set_clock(ALMOST)
    shard.fire(job_id)
    [one] = shard.live()

    shard.cancel(one)
    shard.finish(one, outcome=Outcome.CANCELLED)

    past = shard.execution(one)
    assert past.status is ExecutionStatus.CANCELLED
    assert past.started_at == past.finished_at == at("12:01")


def test_a_replaced_job_is_not_noticed_under_its_old_schedule() -> None:
    shard = early()
    job_id = shard.save(schedules=EVERY_MINUTE)

    shard.do(SaveJob(spec=job(schedules=every("*/2 * * * *")), may_replace=True))

    [cleared] = shard.all_effects(ClearTimer)
    assert cleared == ClearTimer(ALMOST, Fire(job_id=job_id), Timescale.WALL)


def test_a_new_primary_notices_ahead_too() -> None:
    shard = early()
    shard.save(schedules=EVERY_MINUTE)

    [found] = pending(shard.reloaded(), AHEAD)

    assert isinstance(found, SetTimer)
    assert found.due == ALMOST


# --- late ----------------------------------------------------------------------------------------


def test_a_fire_noticed_at_the_end_of_its_grace_is_on_time() -> None:
    shard = Shard()
    shard.save(schedules=EVERY_MINUTE, misfire=Misfire.SKIP, grace=GRACE)

    shard.pass_time(Duration(MINUTE + GRACE))

    assert shard.outcomes() == [("12:01:00", 1, "fired")]


def test_a_fire_noticed_a_microsecond_after_its_grace_is_late() -> None:
    shard = Shard()
    shard.save(schedules=EVERY_MINUTE, misfire=Misfire.SKIP, grace=GRACE)

    shard.pass_time(Duration(MINUTE + GRACE + MICROSECOND))

    assert shard.outcomes() == [("12:01:00", 1, "missed")]


@pytest.mark.parametrize(
    ("misfire", "first"), [(Misfire.SKIP, "missed"), (Misfire.LATEST, "coalesced")]
)
def test_the_end_of_the_grace_parts_late_fires_from_those_on_time(
    misfire: Misfire, first: str
) -> None:
    shard = Shard()
    shard.save(schedules=EVERY_MINUTE, misfire=misfire, grace=MINUTE)

    shard.pass_time(Duration(3 * MINUTE))

    assert shard.outcomes() == [
        ("12:01:00", 1, first),
        ("12:02:00", 1, "fired"),
        ("12:03:00", 1, "fired"),
    ]


def test_all_runs_every_late_fire() -> None:
    shard = Shard()
    shard.save(schedules=EVERY_MINUTE, misfire=Misfire.ALL)

    shard.pass_time(Duration(5 * MINUTE + 30 * SECOND))

    assert shard.fired() == ["12:01:00", "12:02:00", "12:03:00", "12:04:00", "12:05:00"]


def test_skip_runs_no_late_fire_and_says_how_late_it_was() -> None:
    shard = Shard()
    shard.save(schedules=EVERY_MINUTE, misfire=Misfire.SKIP)

    shard.pass_time(Duration(5 * MINUTE + 30 * SECOND))

    (entry,) = shard.ledger()
    assert shard.outcomes() == [("12:01:00", 5, "missed")]
    assert clock_of(entry.until) == "12:05:00"
    assert entry.reason == "noticed 270.0 s late; the misfire policy is skip"


def test_skip_runs_what_is_still_on_time() -> None:
    shard = Shard()
    shard.save(schedules=EVERY_MINUTE, misfire=Misfire.SKIP)

    shard.pass_time(Duration(5 * MINUTE + 5 * SECOND))

    assert shard.outcomes() == [("12:01:00", 4, "missed"), ("12:05:00", 1, "fired")]


def test_latest_runs_the_last_late_fire_for_all_of_them() -> None:
    shard = Shard()
    job_id = shard.save(schedules=EVERY_MINUTE, misfire=Misfire.LATEST)

    shard.pass_time(Duration(5 * MINUTE + 30 * SECOND))

    coalesced = shard.ledger()[0]
    assert shard.outcomes() == [("12:01:00", 4, "coalesced"), ("12:05:00", 1, "fired")]
    assert coalesced.execution_id == fire_execution_id(job_id, at("12:05"), 0)
    assert coalesced.reason.endswith("covered by the fire of 2027-01-04T12:05:00Z")


def test_latest_coalesces_into_a_fire_that_is_on_time() -> None:
    shard = Shard()
    shard.save(schedules=EVERY_SECOND, misfire=Misfire.LATEST, grace=Duration(2 * SECOND))

    shard.pass_time(Duration(10 * SECOND))

    assert shard.outcomes() == [
        ("12:00:01", 7, "coalesced"),
        ("12:00:08", 1, "fired"),
        ("12:00:09", 1, "fired"),
        ("12:00:10", 1, "fired"),
    ]


def test_latest_runs_a_single_late_fire() -> None:
    shard = Shard()
    shard.save(schedules=EVERY_MINUTE, misfire=Misfire.LATEST)

    shard.pass_time(Duration(MINUTE + 30 * SECOND))

    assert shard.outcomes() == [("12:01:00", 1, "fired")]


@pytest.mark.parametrize(
    ("misfire", "expected"),
    [
        (Misfire.ALL, [("11:00:00", 1, "fired")]),
        (Misfire.LATEST, [("11:00:00", 1, "fired")]),
        (Misfire.SKIP, [("11:00:00", 1, "missed")]),
    ],
)
def test_an_instant_in_the_past_follows_the_misfire_policy(
    misfire: Misfire, expected: list[tuple[str, int, str]]
) -> None:
    shard = Shard()
    job_id = shard.save(schedules=every("@at 2027-01-04T11:00:00Z"), misfire=misfire)

    shard.ring_timers()

    assert shard.outcomes() == expected
    assert first_due(shard, job_id) is None
    assert shard.timers == {}


def test_an_instant_fires_once() -> None:
    shard = Shard()
    shard.save(schedules=every("@at 2027-01-04T12:30:00Z"))

    shard.pass_time(Duration(30 * MINUTE))
    shard.pass_time(DAY)

    assert shard.outcomes() == [("12:30:00", 1, "fired")]


# --- long outages --------------------------------------------------------------------------------


@pytest.mark.parametrize("misfire", Misfire)
def test_a_long_outage_is_decided_in_slices(misfire: Misfire) -> None:
    shard = Shard()
    job_id = shard.save(schedules=EVERY_SECOND, misfire=misfire, overlap=Overlap.SKIP)
    shard.set_clock(later(at("12:00"), Duration((2 * SLICE + 50) * SECOND + 500_000)))

    shard.fire(job_id)
    first = sum(entry.count for entry in shard.ledger())
    again = shard.all_effects(SetTimer)
    shard.ring_timers()

    assert first == SLICE
    assert [timer.due for timer in again] == [later(at("12:00"), Duration((SLICE + 1) * SECOND))]
    assert sum(entry.count for entry in shard.ledger()) == 2 * SLICE + 50


def test_one_command_decides_a_slice_of_all_schedules_of_a_job_together() -> None:
    shard = Shard()
    schedules = tuple(schedule for _ in range(64) for schedule in EVERY_SECOND)
    job_id = shard.save(schedules=schedules, misfire=Misfire.ALL)
    shard.set_clock(at("13:00"))

    shard.fire(job_id)

    assert SLICE <= len(shard.ledger()) <= SLICE + 1
    assert [timer.due <= at("13:00") for timer in shard.all_effects(SetTimer)] == [True]


def test_a_year_of_seconds_costs_few_entries() -> None:
    shard = Shard()
    shard.save(schedules=EVERY_SECOND, misfire=Misfire.SKIP)

    shard.pass_time(HOUR)

    assert len(shard.ledger()) <= 3_600 // SLICE + 12


def test_latest_coalesces_slices_into_a_fire_beyond_them() -> None:
    shard = Shard()
    job_id = shard.save(schedules=EVERY_MINUTE, misfire=Misfire.LATEST)

    shard.pass_time(Duration(DAY + 30 * SECOND))

    *coalesced, fired = shard.ledger()
    last = later(at("12:00"), DAY)
    assert {entry.execution_id for entry in coalesced} == {fire_execution_id(job_id, last, 0)}
    assert (fired.fire_at, fired.outcome) == (last, FireOutcome.FIRED)
    assert sum(entry.count for entry in coalesced) == 24 * 60 - 1


# --- a full shard --------------------------------------------------------------------------------


@pytest.mark.parametrize("misfire", Misfire)
def test_a_full_shard_makes_fires_wait_and_loses_none(misfire: Misfire) -> None:
    shard = Shard(limits=Limits(executions=1))
    in_the_way = shard.run(name="other")
    job_id = shard.save(schedules=EVERY_MINUTE, misfire=misfire, grace=GRACE)

    shard.set_clock(later(at("12:03"), Duration(5 * SECOND)))
    shard.fire(job_id)
    while_full = shard.outcomes()
    timers, retry_at = shard.all_effects(SetTimer), later(shard.decided_at, FULL_PAUSE)
    shard.finish(in_the_way)
    shard.fire(job_id)
    decided = shard.outcomes()

    late = {
        Misfire.ALL: [],
        Misfire.LATEST: [("12:01:00", 2, "coalesced")],
        Misfire.SKIP: [("12:01:00", 2, "missed")],
    }[misfire]
    due = "12:01:00" if misfire is Misfire.ALL else "12:03:00"
    assert while_full == late
    assert [timer.due for timer in timers] == [retry_at]
    assert decided == [*late, (due, 1, "fired")]


def test_a_shard_that_was_full_continues_where_it_stopped() -> None:
    shard = Shard(limits=Limits(executions=3))
    shard.save(schedules=EVERY_MINUTE, misfire=Misfire.ALL)
    shard.set_clock(at("12:05"))

    shard.ring_timers()
    at_first = shard.fired()
    for execution_id in shard.live():
        shard.finish(execution_id)
    shard.pass_time(FULL_PAUSE)

    assert at_first == ["12:01:00", "12:02:00", "12:03:00"]
    assert shard.fired() == [*at_first, "12:04:00", "12:05:00"]


def test_a_full_shard_does_not_hold_up_the_timers_of_what_is_not_due() -> None:
    shard = Shard(limits=Limits(executions=1))
    shard.run(name="other")

    shard.save(schedules=EVERY_MINUTE)

    assert [timer.due for timer in shard.all_effects(SetTimer)] == [at("12:01")]


# --- when the cluster starts ---------------------------------------------------------------------


def test_startup_fires_when_the_cluster_starts() -> None:
    shard = Shard()
    job_id = shard.save(schedules=every("@startup"))
    before = shard.executions()

    shard.do(FireAtStartup(epoch=Epoch(1)))
    shard.pass_time(MINUTE)

    assert before == []
    assert len(shard.fired()) == 1
    assert first_due(shard, job_id) is None


def test_two_starts_at_the_same_instant_of_a_clock_that_was_set_back_are_two_fires() -> None:
    shard = Shard()
    shard.save(schedules=every("@startup"))
    instant = shard.clock

    for _ in range(2):
        shard.set_clock(instant)
        shard.do(FireAtStartup(epoch=Epoch(1)))
        shard.ring_timers()

    assert len(shard.executions()) == 2


def test_startup_does_not_fire_when_the_job_is_saved() -> None:
    shard = Shard()
    shard.save(schedules=every("@startup"))

    shard.pass_time(MINUTE)

    assert shard.executions() == []


def test_startup_fires_again_at_the_next_start() -> None:
    shard = Shard()
    shard.save(schedules=every("@startup"))
    for _ in range(2):
        shard.do(FireAtStartup(epoch=Epoch(1)))
        shard.pass_time(MINUTE)

    assert len(shard.fired()) == 2


def test_a_start_leaves_other_schedules_alone() -> None:
    shard = Shard()
    job_id = shard.save(schedules=every("@startup") + EVERY_MINUTE)

    shard.do(FireAtStartup(epoch=Epoch(1)))

    assert shard.state.plans[job_id].next_fires == (shard.clock, at("12:01"))


# --- clocks --------------------------------------------------------------------------------------


def test_a_clock_set_back_an_hour_repeats_nothing() -> None:
    shard = Shard()
    shard.save(schedules=EVERY_MINUTE)
    shard.pass_time(MINUTE)
    shard.set_clock(at("11:01"))

    for _ in range(59):
        shard.pass_time(MINUTE)
    within_the_hour = shard.fired()
    for _ in range(3):
        shard.pass_time(MINUTE)

    assert within_the_hour == ["12:01:00"]
    assert shard.fired() == ["12:01:00", "12:02:00", "12:03:00"]


def test_a_clock_set_forward_an_hour_makes_its_fires_late() -> None:
    shard = Shard()
    shard.save(schedules=EVERY_MINUTE, misfire=Misfire.LATEST)

    shard.set_clock(at("13:00:30"))
    shard.ring_timers()

    assert shard.outcomes() == [("12:01:00", 59, "coalesced"), ("13:00:00", 1, "fired")]


def test_a_clock_set_forward_and_back_repeats_nothing() -> None:
    shard = Shard()
    shard.save(schedules=EVERY_MINUTE, misfire=Misfire.ALL)
    shard.set_clock(at("12:02"))
    shard.ring_timers()
    shard.set_clock(at("12:00"))

    for _ in range(4):
        shard.pass_time(MINUTE)

    assert shard.fired() == ["12:01:00", "12:02:00", "12:03:00", "12:04:00"]
