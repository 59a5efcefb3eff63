"""Backfills: executions for fire times of the past."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rota.core.decide.backfills import AGAIN, SLICE, SLICE_BYTES
from rota.core.decide.dispatch import pending
from rota.core.errors import Refused
from rota.core.model.attempt import Outcome
from rota.core.model.backfill import (
    KEPT_MAX,
    PRIORITY,
    Backfill,
    BackfillStatus,
    FireOrder,
    Reprocess,
)
from rota.core.model.execution import Hold, Origin
from rota.core.model.ids import ExecutionId, JobId
from rota.core.model.job import Overlap, Pause, SchedulePolicy
from rota.core.timing.instants import DAY, MINUTE, Instant
from rota.core.vocabulary.change_chain import Action
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.commands import (
    BackfillAction,
    ContinueBackfill,
    ControlBackfill,
    DeleteJob,
    StartBackfill,
)
from rota.core.vocabulary.decision import Limits
from rota.core.vocabulary.effects import SetTimer, WaitForSlot
from rota.core.vocabulary.facts import Facts
from rota.core.vocabulary.quotas import Quota
from unit.core.shard import Shard, at, every, task

PAUSED = Pause(at=Instant(1))
FIRST = at("2026-06-01T00:00:00Z")


def times(count: int) -> tuple[Instant, ...]:
    """Return the first instants of *count* days."""
    return tuple(Instant(FIRST + number * DAY) for number in range(count))


class Filled:
    """A job with a backfill."""

    def __init__(
        self, count: int = 3, parallel: int = 1, shard: Shard | None = None, **fields: Any
    ) -> None:
        self.shard = shard or Shard()
        self.job: JobId = self.shard.save(**fields)
        self.start(count, parallel)

    def start(self, count: int, parallel: int = 1, name: str = "b1", **fields: Any) -> None:
        """Start a backfill for *count* days."""
        backfill = Backfill(
            id=name,
            job_id=self.job,
            since=FIRST,
            until=Instant(FIRST + count * DAY),
            reprocess=Reprocess.MISSING,
            order=FireOrder.OLDEST_FIRST,
            parallel=parallel,
            total=0,
            created_at=Instant(0),
            **fields,
        )
        known = tuple(self.shard.state.backfills.get(self.job, ()))
        self.shard.do(StartBackfill(backfill=backfill, times=times(count), known=known))

    def do(self, action: BackfillAction, name: str = "b1") -> None:
        """Pause, resume or cancel the backfill."""
        self.shard.do(ControlBackfill(job_id=self.job, backfill_id=name, action=action))

    def backfill(self, name: str = "b1") -> Backfill:
        """Return the backfill."""
        return self.shard.state.backfills[self.job][name]

    def live(self) -> list[ExecutionId]:
        """Return the unfinished executions."""
        return self.shard.live()

    def finish_all(self, outcome: Outcome = Outcome.SUCCEEDED) -> list[Instant]:
        """End executions until none is left, and return their fire times in the order of ends."""
        found: list[Instant] = []
        while live := self.live():
            found.append(self.shard.execution(live[0]).fire_at)
            self.shard.finish(live[0], outcome=outcome)
        return found


def test_a_backfill_runs_one_execution_for_each_time_in_its_order() -> None:
    filled = Filled(3, schedules=every("0 0 * * *"))
    (first,) = filled.live()
    execution = filled.shard.execution(first)

    ran = filled.finish_all()

    assert (execution.origin, execution.backfill) == (Origin.BACKFILL, "b1")
    assert ran == list(times(3))
    done = filled.backfill()
    assert (done.status, done.total, done.begun, done.open, done.failed) == (
        BackfillStatus.DONE,
        3,
        3,
        0,
        0,
    )
    assert done.finished_at
    assert not filled.shard.state.backfill_times


def test_it_runs_with_the_parameters_of_the_schedule() -> None:
    policies = (SchedulePolicy(), SchedulePolicy(parameters='{"r":"eu"}'))
    filled = Filled(
        1,
        schedules=every("0 12 * * *") + every("0 0 * * *"),
        policies=policies,
        parameters='{"r":"us"}',
    )

    assert filled.shard.execution(filled.live()[0]).parameters == '{"r":"eu"}'


def test_its_own_parameters_come_before_those_of_the_schedule() -> None:
    policies = (SchedulePolicy(parameters='{"r":"eu"}'),)
    filled = Filled(0, schedules=every("0 0 * * *"), policies=policies)

    filled.start(1, name="b2", parameters='{"r":"fr"}')

    assert filled.shard.execution(filled.live()[0]).parameters == '{"r":"fr"}'


def test_at_most_as_many_executions_as_it_permits_are_unfinished() -> None:
    filled = Filled(5, parallel=2)

    before = len(filled.live())
    filled.shard.finish(filled.live()[0])

    assert (before, len(filled.live())) == (2, 2)
    assert len(filled.finish_all()) == 4


def test_failures_are_counted_and_do_not_stop_it() -> None:
    filled = Filled(3)

    filled.finish_all(Outcome.FAILED)

    done = filled.backfill()
    assert (done.status, done.failed) == (BackfillStatus.DONE, 3)


@pytest.mark.parametrize("overlap", Overlap)
def test_it_never_moves_the_next_fire_time(overlap: Overlap) -> None:
    filled = Filled(3, schedules=every("* * * * *"), overlap=overlap)
    plan = filled.shard.state.plans[filled.job]

    filled.shard.pass_time(MINUTE)

    assert plan.next_fires == (at("12:01"),)
    assert filled.shard.fired() == ["12:01:00"]


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE_ONE])
def test_a_fire_waits_for_an_execution_of_a_backfill_and_then_goes_first(overlap: Overlap) -> None:
    filled = Filled(3, schedules=every("* * * * *"), overlap=overlap)
    first = filled.live()[0]

    filled.shard.pass_time(MINUTE)
    live = filled.live()
    held = filled.shard.execution(live[1]).hold
    filled.shard.finish(first)
    following = filled.live()
    filled.shard.finish(live[1])

    assert live[0] == first
    assert held is Hold.OVERLAP
    assert following == [live[1]]
    assert filled.shard.execution(filled.live()[0]).backfill == "b1"


def test_without_overlap_it_begins_nothing_while_the_job_runs_and_tries_again() -> None:
    shard = Shard()
    job = shard.save(overlap=Overlap.SKIP)
    running = shard.trigger(job)
    filled = Filled.__new__(Filled)
    filled.shard, filled.job = shard, job
    filled.start(2)

    waiting = shard.live()
    shard.finish(running)
    shard.pass_time(AGAIN)

    assert waiting == [running]
    assert len(shard.live()) == 1
    assert len(filled.finish_all()) == 2


@pytest.mark.parametrize("obstacle", ["limit", "quota", "pause"])
def test_it_waits_for_room_in_the_shard_and_the_namespace(obstacle: str) -> None:
    shard = Shard()
    if obstacle == "limit":
        shard.limits = Limits(executions=0)
    elif obstacle == "quota":
        shard.facts = Facts(quotas={"default": Quota(executions=0)})
    else:
        shard.facts = Facts(pauses={"default": PAUSED})
    filled = Filled(2, shard=shard)

    waiting = filled.live()
    shard.limits, shard.facts = Limits(), Facts()
    shard.pass_time(AGAIN)

    assert not waiting
    assert len(filled.finish_all()) == 2


def test_a_paused_backfill_begins_nothing_and_continues_when_it_is_resumed() -> None:
    filled = Filled(3)

    filled.do(BackfillAction.PAUSE)
    filled.shard.finish(filled.live()[0])
    paused = filled.live()
    filled.do(BackfillAction.RESUME)

    assert not paused
    assert len(filled.finish_all()) == 2
    assert filled.backfill().status is BackfillStatus.DONE


def test_a_cancelled_backfill_ends_and_its_running_executions_continue() -> None:
    filled = Filled(5, parallel=2)

    filled.do(BackfillAction.CANCEL)
    filled.do(BackfillAction.CANCEL)
    ran = filled.finish_all()

    assert len(ran) == 2
    ended = filled.backfill()
    assert (ended.status, ended.begun, ended.open) == (BackfillStatus.CANCELLED, 2, 0)
    with pytest.raises(Refused, match="backfill_ended"):
        filled.do(BackfillAction.RESUME)


def test_a_job_has_one_backfill_at_a_time() -> None:
    filled = Filled(2)

    with pytest.raises(Refused, match="backfill_active"):
        filled.start(2, name="b2")
    filled.finish_all()
    filled.start(2, name="b2")

    assert filled.backfill("b2").status is BackfillStatus.RUNNING


def test_times_that_were_read_before_another_backfill_are_refused() -> None:
    filled = Filled(1)
    filled.finish_all()
    late = replace(filled.backfill(), id="b2", status=BackfillStatus.RUNNING)

    with pytest.raises(Refused, match="contention"):
        filled.shard.do(StartBackfill(backfill=late, times=times(1), known=()))


def test_a_repeated_request_starts_nothing() -> None:
    filled = Filled(2)
    before = dict(filled.shard.rows)

    filled.start(2)

    assert filled.shard.rows == before


def test_a_backfill_without_times_is_done_at_once() -> None:
    assert Filled(0).backfill().status is BackfillStatus.DONE


def test_many_executions_that_end_at_once_are_decided_in_slices() -> None:
    empty = replace(task("main"), when="false")
    shard = Shard()
    job = shard.save(empty)
    filled = Filled.__new__(Filled)
    filled.shard, filled.job = shard, job

    filled.start(3 * SLICE, parallel=10)
    begun = filled.backfill().begun
    shard.ring_timers()

    assert begun == SLICE
    assert filled.backfill().status is BackfillStatus.DONE
    assert len(set(shard.keys(Table.PAST_EXECUTION))) == 3 * SLICE


def test_another_primary_continues_with_it() -> None:
    filled = Filled(2, shard=Shard(limits=Limits(executions=0)))
    shard = filled.shard
    shard.state = shard.reloaded()
    shard.timers.clear()
    shard.limits = Limits()

    timers = [each for each in pending(shard.state) if isinstance(each, SetTimer)]
    shard.do(ContinueBackfill(job_id=filled.job))

    assert [each.command for each in timers] == [ContinueBackfill(job_id=filled.job)]
    assert len(filled.live()) == 1
    assert not [each for each in pending(shard.state) if isinstance(each, SetTimer)]
    assert len(filled.finish_all()) == 2


def test_its_tasks_wait_behind_live_ones() -> None:
    filled = Filled(1, shard=Shard(slots=0))
    (execution_id,) = filled.live()

    (waiting,) = filled.shard.all_effects(WaitForSlot)
    (after,) = (each for each in pending(filled.shard.state) if isinstance(each, WaitForSlot))

    assert (waiting.execution_id, waiting.priority, after.priority) == (
        execution_id,
        PRIORITY,
        PRIORITY,
    )


def test_its_successes_run_no_dependent_job() -> None:
    shard = Shard()
    filled = Filled(1, shard=shard)
    shard.save(name="after", dependencies=("default/job",))
    shard.deliver()

    filled.finish_all()
    shard.deliver()

    assert not shard.live()


def test_the_backfills_of_a_deleted_job_are_deleted() -> None:
    filled = Filled(2)

    filled.shard.do(DeleteJob(job_id=filled.job))

    assert not filled.shard.state.backfills
    assert not filled.shard.state.backfill_times


def test_the_newest_backfills_are_kept() -> None:
    filled = Filled(0)
    for number in range(KEPT_MAX + 3):
        filled.start(0, name=f"c{number}")

    kept = filled.shard.state.backfills[filled.job]

    assert len(kept) == KEPT_MAX
    assert "b1" not in kept
    assert f"c{KEPT_MAX + 2}" in kept


def test_who_started_and_who_changed_it_is_recorded() -> None:
    filled = Filled(2)
    filled.do(BackfillAction.PAUSE)
    filled.do(BackfillAction.PAUSE)
    filled.do(BackfillAction.CANCEL)

    changes = [(each.action, each.detail) for each in filled.shard.user_changes()[1:]]

    assert changes == [
        (Action.BACKFILL_STARTED, "b1"),
        (Action.BACKFILL_PAUSED, "b1"),
        (Action.BACKFILL_CANCELLED, "b1"),
    ]


@settings(max_examples=60)
@given(data=st.data())
def test_every_time_runs_once_whatever_happens(data: st.DataObject) -> None:
    count, parallel = data.draw(st.integers(0, 8)), data.draw(st.integers(1, 4))
    shard = Shard(slots=data.draw(st.integers(0, 3)), limits=Limits(executions=4))
    overlap = data.draw(st.sampled_from(Overlap))
    filled = Filled(count, parallel, shard, overlap=overlap, schedules=every("*/5 * * * * *"))
    happenings = ("finish", "fail", "time", "take over", "trigger", "pause", "resume", "lose")
    for what in data.draw(st.lists(st.sampled_from(happenings), max_size=30)):
        happen(filled, what)
        backfill = filled.backfill()
        own = [each for each in map(shard.execution, shard.live()) if each.backfill]
        assert backfill.open == len(own) <= parallel
    shard.slots, shard.limits = 100, Limits()
    for _ in range(count + 2):
        happen(filled, "resume")
        for execution_id in shard.live():
            end(shard, execution_id)
        shard.pass_time(AGAIN)

    assert filled.backfill().status is BackfillStatus.DONE
    past = [each for each in shard.executions() if each.backfill]
    assert sorted(each.fire_at for each in past) == list(times(count))


def happen(filled: Filled, what: str) -> None:
    """Let one thing happen to a shard."""
    shard, live = filled.shard, filled.shard.live()
    match what:
        case "finish" | "fail":
            if live:
                end(shard, live[0], Outcome.FAILED if what == "fail" else Outcome.SUCCEEDED)
        case "time":
            shard.pass_time(AGAIN)
        case "take over":
            shard.state = shard.reloaded()
            shard.timers.clear()
            for effect in pending(shard.state):
                shard.note(effect)
        case "lose":
            shard.lose_node()
        case "trigger":
            with suppress(Refused):
                shard.trigger(filled.job)
        case _:
            action = BackfillAction.PAUSE if what == "pause" else BackfillAction.RESUME
            with suppress(Refused):
                filled.do(action)


def end(shard: Shard, execution_id: ExecutionId, outcome: Outcome = Outcome.SUCCEEDED) -> None:
    """End the attempt of an execution; it may have to start first."""
    if not shard.task(execution_id).attempts or shard.task(execution_id).status.value == "ready":
        shard.start(execution_id)
    if shard.task(execution_id).status.value == "running":
        shard.finish(execution_id, outcome=outcome)


def test_one_decision_begins_few_executions_with_large_parameters() -> None:
    filled = Filled(0)
    parameters = f'"{"x" * (SLICE_BYTES // 4)}"'

    filled.start(10, 10, "b2", parameters=parameters)
    first = len(filled.live())
    filled.shard.do(ContinueBackfill(job_id=filled.job))

    assert (first, len(filled.live())) == (3, 6)


def test_large_parameters_of_the_job_count_too() -> None:
    filled = Filled(0, parameters=f'"{"x" * (SLICE_BYTES // 4)}"')

    filled.start(10, 10, "b2")

    assert len(filled.live()) == 3


def test_one_execution_begins_with_parameters_of_any_size() -> None:
    filled = Filled(0)

    filled.start(3, 3, "b2", parameters=f'"{"x" * (2 * SLICE_BYTES)}"')

    assert len(filled.live()) == 1
