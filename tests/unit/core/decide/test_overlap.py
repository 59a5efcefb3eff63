"""Overlap policies: effects of unfinished executions on the next one."""

import pytest
from msgspec.structs import replace

from rota.core.decide.overlap import QUEUED_MAX
from rota.core.errors import Refused
from rota.core.model.attempt import Outcome
from rota.core.model.execution import Hold
from rota.core.model.flow import Foreach
from rota.core.model.ids import ExecutionId, JobId
from rota.core.model.job import NO_POLICY, Misfire, Overlap, SchedulePolicy
from rota.core.model.ledger import FireOutcome
from rota.core.timing.instants import HOUR, MINUTE, Duration
from rota.core.vocabulary.commands import Rerun, RerunScope
from rota.core.vocabulary.decision import Triggered
from rota.core.vocabulary.effects import Launch, Stop
from unit.core.shard import Shard, at, clock_of, every, task

EVERY_MINUTE = every("* * * * *")


def test_allow_lets_executions_run_side_by_side() -> None:
    shard = Shard()
    shard.save(schedules=EVERY_MINUTE, overlap=Overlap.ALLOW)

    for _ in range(3):
        shard.pass_time(MINUTE)

    assert [shard.status(one) for one in shard.live()] == ["running"] * 3


def test_skip_records_what_was_in_the_way() -> None:
    shard = Shard()
    shard.save(schedules=EVERY_MINUTE, overlap=Overlap.SKIP)
    shard.pass_time(MINUTE)
    (running,) = shard.live()

    shard.pass_time(MINUTE)

    assert shard.outcomes() == [("12:01:00", 1, "fired"), ("12:02:00", 1, "skipped")]
    assert shard.ledger()[1].execution_id == running
    assert "the overlap policy is skip" in shard.ledger()[1].reason
    assert shard.live() == [running]


def test_skip_lets_the_next_one_run_when_the_last_has_finished() -> None:
    shard = Shard()
    shard.save(schedules=EVERY_MINUTE, overlap=Overlap.SKIP)
    shard.pass_time(MINUTE)
    shard.finish(shard.live()[0])

    shard.pass_time(MINUTE)

    assert shard.fired() == ["12:01:00", "12:02:00"]


def test_skip_counts_an_execution_that_has_not_started_or_backs_off() -> None:
    shard = Shard(slots=0)
    shard.save(schedules=EVERY_MINUTE, overlap=Overlap.SKIP)

    shard.pass_time(MINUTE)
    shard.pass_time(MINUTE)

    assert shard.fired() == ["12:01:00"]


def test_queue_one_holds_one_and_skips_the_rest() -> None:
    shard = Shard()
    shard.save(schedules=EVERY_MINUTE, overlap=Overlap.QUEUE_ONE)

    for _ in range(4):
        shard.pass_time(MINUTE)

    first, second = shard.live()
    assert [shard.status(first), shard.status(second)] == ["running", "queued"]
    assert shard.execution(second).hold is Hold.OVERLAP
    assert [outcome for _, _, outcome in shard.outcomes()] == [
        "fired",
        "fired",
        "skipped",
        "skipped",
    ]
    assert shard.ledger()[3].execution_id == second


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED])
def test_queue_one_releases_in_the_entry_that_ends_the_one_before(outcome: Outcome) -> None:
    shard = Shard()
    job_id = shard.save(overlap=Overlap.QUEUE_ONE)
    first, second = shard.trigger(job_id), shard.trigger(job_id)

    shard.finish(first, outcome=outcome)

    assert [launch.order.key.execution_id for launch in shard.all_effects(Launch)] == [second]
    assert shard.execution(second).hold is Hold.NONE


def test_queue_one_does_not_release_while_a_task_still_runs() -> None:
    shard = Shard()
    job_id = shard.save(task("a"), task("b"), overlap=Overlap.QUEUE_ONE)
    first, second = shard.trigger(job_id), shard.trigger(job_id)

    shard.finish(first, "a")

    assert shard.status(second) == "queued"


def test_queue_one_releases_only_after_a_cancelled_one_has_ended() -> None:
    shard = Shard()
    job_id = shard.save(overlap=Overlap.QUEUE_ONE)
    first, second = shard.trigger(job_id), shard.trigger(job_id)

    shard.cancel(first)
    between = shard.status(second)
    shard.finish(first, outcome=Outcome.CANCELLED)

    assert (between, shard.status(second)) == ("queued", "running")


def test_cancelling_the_one_that_waits_makes_room_for_another_to_wait() -> None:
    shard = Shard()
    job_id = shard.save(overlap=Overlap.QUEUE_ONE)
    first, second = shard.trigger(job_id), shard.trigger(job_id)

    shard.cancel(second)
    third = shard.trigger(job_id)

    assert [shard.status(one) for one in (first, second, third)] == [
        "running",
        "cancelled",
        "queued",
    ]


@pytest.mark.parametrize(
    ("overlap", "allowed"), [(Overlap.ALLOW, 9), (Overlap.SKIP, 1), (Overlap.QUEUE_ONE, 2)]
)
def test_triggers_obey_the_policy_too(overlap: Overlap, allowed: int) -> None:
    shard = Shard()
    job_id = shard.save(overlap=overlap)
    for _ in range(allowed):
        shard.trigger(job_id)

    if overlap is not Overlap.ALLOW:
        with pytest.raises(Refused, match=f"overlap policy is {overlap.value}"):
            shard.trigger(job_id)

    assert len(shard.live()) == allowed


def test_fires_of_several_schedules_at_once_overlap_each_other() -> None:
    shard = Shard()
    shard.save(schedules=EVERY_MINUTE * 2, overlap=Overlap.SKIP)

    shard.pass_time(MINUTE)

    assert [outcome for _, _, outcome in shard.outcomes()] == ["fired", "skipped"]


def test_late_fires_decided_together_overlap_each_other() -> None:
    shard = Shard()
    shard.save(schedules=EVERY_MINUTE, overlap=Overlap.QUEUE_ONE, misfire=Misfire.ALL)

    shard.pass_time(HOUR)

    assert shard.fired() == ["12:01:00", "12:02:00"]
    assert len(shard.outcomes()) == 60


def hourly_and_each_minute(own: Overlap, of_job: Overlap, minutes: int) -> tuple[Shard, JobId]:
    """Return a job whose fires of each minute have a policy of their own, and some of these."""
    shard = Shard()
    schedules = (*every("0 * * * *"), *EVERY_MINUTE)
    policies = (NO_POLICY, SchedulePolicy(overlap=own))
    job_id = shard.save(schedules=schedules, policies=policies, overlap=of_job)
    for _ in range(minutes):
        shard.pass_time(MINUTE)
    return shard, job_id


def test_a_schedule_has_an_overlap_policy_of_its_own() -> None:
    shard, job_id = hourly_and_each_minute(Overlap.SKIP, Overlap.ALLOW, minutes=2)

    triggered = shard.trigger(job_id)

    [skipped] = [entry for entry in shard.ledger() if entry.outcome is FireOutcome.SKIPPED]
    running = shard.live()[0]
    assert (skipped.schedule, skipped.execution_id) == (1, running)
    assert "the overlap policy is skip" in skipped.reason
    assert shard.live() == [running, triggered]


def test_fires_that_wait_by_the_policy_of_their_schedule_begin_one_after_the_other() -> None:
    shard, _ = hourly_and_each_minute(Overlap.QUEUE_ALL, Overlap.ALLOW, minutes=3)
    first, *waiting = shard.live()

    shard.finish(first)

    assert [shard.execution(one).hold for one in waiting] == [Hold.NONE, Hold.OVERLAP]


def test_a_fire_takes_the_place_of_those_of_its_schedule_alone() -> None:
    shard, job_id = hourly_and_each_minute(Overlap.QUEUE_LATEST, Overlap.QUEUE_ALL, minutes=0)
    first, second = shard.trigger(job_id), shard.trigger(job_id)

    for _ in range(2):
        shard.pass_time(MINUTE)

    assert shard.live()[:2] == [first, second]
    assert [clock_of(shard.execution(one).fire_at) for one in shard.live()[2:]] == ["12:02:00"]


def test_a_schedule_may_allow_what_the_job_does_not() -> None:
    shard, job_id = hourly_and_each_minute(Overlap.ALLOW, Overlap.SKIP, minutes=2)

    with pytest.raises(Refused, match="overlap policy is skip"):
        shard.trigger(job_id)

    assert shard.fired() == ["12:01:00", "12:02:00"]


def test_a_fire_with_dependencies_waits_by_the_policy_of_its_schedule() -> None:
    shard = Shard()
    up = shard.save(name="up")
    down = shard.save(
        name="down",
        schedules=EVERY_MINUTE,
        policies=(SchedulePolicy(overlap=Overlap.QUEUE_ALL),),
        dependencies=("default/up",),
    )
    shard.deliver()
    shard.trigger(down)
    shard.pass_time(MINUTE)
    [held] = [one for one in shard.executions() if one.hold is Hold.DEPENDENCIES]

    shard.finish(shard.trigger(up))
    shard.deliver()

    assert shard.execution(held.id).hold is Hold.OVERLAP

    shard = Shard()
    shard.trigger(shard.save(name="one", overlap=Overlap.SKIP))

    other = shard.trigger(shard.save(name="other", overlap=Overlap.SKIP))

    assert shard.status(other) == "running"


def test_the_one_that_waits_is_released_by_a_new_primary_too() -> None:
    """A late fire that waits for a trigger has the lower id, and comes first when loaded."""
    shard = Shard()
    job_id = shard.save(schedules=EVERY_MINUTE, overlap=Overlap.QUEUE_ONE, grace=HOUR)
    shard.set_clock(at("12:01:05"))
    asked = shard.trigger(job_id)
    shard.ring_timers()
    (late,) = set(shard.live()) - {asked}
    shard.state = shard.reloaded()

    shard.finish(asked)

    assert late < asked
    assert shard.status(late) == "running"


def test_a_new_primary_deletes_without_releasing() -> None:
    shard = Shard(slots=0)
    job_id = shard.save(schedules=EVERY_MINUTE, overlap=Overlap.QUEUE_ONE, grace=HOUR)
    shard.set_clock(at("12:01:05"))
    shard.trigger(job_id)
    shard.ring_timers()
    shard.state = shard.reloaded()
    shard.slots = 1

    shard.delete(job_id)

    assert shard.started_count == 0
    assert shard.state.executions == {}


def test_a_released_execution_without_room_waits_for_it() -> None:
    shard = Shard(slots=1)
    job_id = shard.save(overlap=Overlap.QUEUE_ONE)
    first, second = shard.trigger(job_id), shard.trigger(job_id)
    shard.slots = 0

    shard.pass_time(Duration(0))
    shard.finish(first)

    assert shard.statuses(second) == {"main": "ready"}
    assert shard.status(second) == "queued"


# --- queue_latest, queue_all, cancel_running ------------------------------------------------------


def waiting(shard: Shard) -> list[ExecutionId]:
    """Return the executions that wait for others, oldest first."""
    return [each for each in shard.live() if shard.execution(each).hold is Hold.OVERLAP]


def test_a_later_fire_takes_the_place_of_the_one_that_waits() -> None:
    shard = Shard()
    job_id = shard.save(overlap=Overlap.QUEUE_LATEST)
    running = shard.trigger(job_id)
    early = shard.trigger(job_id)

    late = shard.trigger(job_id)
    (only,) = waiting(shard)
    shard.finish(running)

    assert only == late
    assert shard.status(early) == "cancelled"
    assert shard.execution(early).reason == f"replaced by execution {late} (overlap)"
    assert shard.status(late) == "running"


def test_all_fires_wait_in_order() -> None:
    shard = Shard()
    job_id = shard.save(overlap=Overlap.QUEUE_ALL)
    triggered = [shard.trigger(job_id) for _ in range(4)]

    ran: list[ExecutionId] = []
    for _ in triggered:
        (running,) = (each for each in shard.live() if each not in waiting(shard))
        ran.append(running)
        shard.finish(running)

    assert ran == triggered
    assert not shard.live()


def test_fires_beyond_the_most_that_wait_are_skipped() -> None:
    shard = Shard()
    job_id = shard.save(overlap=Overlap.QUEUE_ALL)
    first = shard.trigger(job_id)
    for _ in range(QUEUED_MAX):
        shard.trigger(job_id)

    with pytest.raises(Refused, match="queue_all") as refused:
        shard.trigger(job_id)

    assert refused.value.code == "overlap"
    assert first in refused.value.detail


def test_a_fire_cancels_what_runs_and_starts_when_that_has_ended() -> None:
    shard = Shard()
    job_id = shard.save(schedules=EVERY_MINUTE, overlap=Overlap.CANCEL_RUNNING)
    running = shard.trigger(job_id)
    shard.pass_time(MINUTE)

    (replacing,) = waiting(shard)
    stopped = [effect.attempt.execution_id for effect in shard.all_effects(Stop)]
    shard.finish(running, outcome=Outcome.CANCELLED)

    assert stopped == [running]
    assert shard.status(running) == "cancelled"
    assert shard.status(replacing) == "running"
    assert shard.outcomes() == [("12:01:00", 1, "fired")]


def test_further_fires_replace_the_one_that_waits_for_a_cancelled_one() -> None:
    shard = Shard()
    job_id = shard.save(overlap=Overlap.CANCEL_RUNNING)
    running, second, third = (shard.trigger(job_id) for _ in range(3))

    shard.finish(running, outcome=Outcome.CANCELLED)

    assert (shard.status(second), shard.status(third)) == ("cancelled", "running")


def test_an_execution_of_a_rerun_displaces_others_too() -> None:
    shard = Shard()
    job_id = shard.save(overlap=Overlap.CANCEL_RUNNING)
    past_id = shard.trigger(job_id)
    shard.finish(past_id)
    running = shard.trigger(job_id)
    past, done = shard.execution(past_id), shard.task(past_id)

    reply = shard.do(Rerun(past=past, tasks=(done,), scope=RerunScope.ALL))

    assert isinstance(reply, Triggered)
    assert shard.execution(running).cancelled_at
    assert shard.execution(reply.execution_id).hold is Hold.OVERLAP


@pytest.mark.parametrize(
    "overlap", [Overlap.QUEUE_LATEST, Overlap.QUEUE_ALL, Overlap.CANCEL_RUNNING]
)
def test_a_trigger_does_not_wait_for_an_execution_that_waits_for_other_jobs(
    overlap: Overlap,
) -> None:
    shard = Shard()
    shard.save(name="first")
    fields = {"dependencies": ("default/first",), "overlap": overlap}
    job_id = shard.save(name="second", schedules=EVERY_MINUTE, **fields)  # type: ignore[arg-type]  # of both kinds
    shard.deliver()
    shard.pass_time(MINUTE)
    (held,) = shard.live()

    triggered = shard.trigger(job_id)
    another = shard.trigger(job_id)
    shard.finish(triggered)

    assert shard.execution(held).hold is Hold.DEPENDENCIES
    assert shard.execution(triggered).finished_at
    assert shard.status(another) == "running"


@pytest.mark.parametrize(
    ("overlap", "running", "waits"),
    [
        (Overlap.SKIP, 3, 0),
        (Overlap.QUEUE_ONE, 3, 1),
        (Overlap.QUEUE_LATEST, 3, 1),
        (Overlap.QUEUE_ALL, 3, 2),
    ],
)
def test_a_policy_applies_from_the_most_executions_in_parallel_on(
    overlap: Overlap, running: int, waits: int
) -> None:
    shard = Shard(slots=10)
    shard.save(schedules=EVERY_MINUTE, overlap=overlap, max_parallel=3)

    for _ in range(5):
        shard.pass_time(MINUTE)

    held = waiting(shard)
    assert len(shard.live()) - len(held) == running
    assert len(held) == waits


def test_each_end_lets_the_oldest_that_waits_begin() -> None:
    shard = Shard(slots=10)
    job_id = shard.save(overlap=Overlap.QUEUE_ALL, max_parallel=2)
    first, second, third, fourth = (shard.trigger(job_id) for _ in range(4))

    shard.finish(second)

    assert waiting(shard) == [fourth]
    assert [shard.status(each) for each in (first, third)] == ["running"] * 2


def test_the_oldest_makes_room_under_cancel_running() -> None:
    shard = Shard(slots=10)
    job_id = shard.save(overlap=Overlap.CANCEL_RUNNING, max_parallel=2)
    first, _, third = (shard.trigger(job_id) for _ in range(3))

    stopped = [effect.attempt.execution_id for effect in shard.all_effects(Stop)]

    assert stopped == [first]
    assert waiting(shard) == [third]


def test_the_end_of_one_that_waits_releases_no_other_while_one_runs() -> None:
    shard = Shard()
    shard.save(name="first")
    upstream = shard.trigger(shard.save(name="first"))
    job_id = shard.save(
        name="second",
        schedules=EVERY_MINUTE,
        dependencies=("default/first",),
        overlap=Overlap.QUEUE_ALL,
    )
    shard.deliver()
    shard.pass_time(MINUTE)
    (held,) = (one for one in shard.live() if one != upstream)
    running, third = shard.trigger(job_id), shard.trigger(job_id)
    shard.finish(upstream)
    shard.deliver()
    assert set(waiting(shard)) == {held, third}

    shard.cancel(third)

    assert waiting(shard) == [held]
    assert shard.status(running) == "running"


@pytest.mark.parametrize("overlap", [Overlap.CANCEL_RUNNING, Overlap.QUEUE_LATEST])
def test_late_fires_decided_together_displace_executions_whose_loops_have_not_begun(
    overlap: Overlap,
) -> None:
    each = replace(task("each"), loop=Foreach(items="[1, 2]"))
    shard = Shard()
    shard.save(each, schedules=EVERY_MINUTE, overlap=overlap, misfire=Misfire.ALL)

    shard.pass_time(Duration(3 * MINUTE))

    running = [one for one in shard.live() if one not in waiting(shard)]
    assert len(running) <= 1
    assert len(waiting(shard)) <= 1
    assert [outcome for *_, outcome in shard.outcomes()] == ["fired"] * 3
