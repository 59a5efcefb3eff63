"""Executions: starts of tasks, ends of attempts and of whole executions."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

import rota.core.state.draft as core_draft
import rota.core.state.shard_state as core_state
from rota.core.decide.dispatch import pending
from rota.core.errors import Refused
from rota.core.model.attempt import AttemptKey, Ending, Outcome, Token
from rota.core.model.execution import UPSTREAM_FAILED, UPSTREAM_SKIPPED, Task, TaskStatus, standing
from rota.core.model.ids import Epoch, ExecutionId, Index
from rota.core.model.retry import Fixed, RetryPolicy
from rota.core.model.trigger_rules import TriggerRule, UpstreamState
from rota.core.timing.instants import HOUR, MILLISECOND, SECOND, Duration, Instant, later
from rota.core.vocabulary.commands import FinishAttempt, StartTask, Trigger, Wake
from rota.core.vocabulary.decision import Triggered
from rota.core.vocabulary.effects import (
    ClearTimer,
    Launch,
    Publish,
    SetTimer,
    Stop,
    Timescale,
    WaitForSlot,
)
from unit.core.shard import ONE_RETRY, TEN_SECONDS, Shard, copy_from, task, tokens_of

ON_FAILURE = TriggerRule.ONE_FAILED
ALWAYS = TriggerRule.ALL_DONE

DIAMOND = (task("a"), task("b", "a"), task("c", "a"), task("d", "b", "c"))


# --- one task ------------------------------------------------------------------------------------


def test_a_triggered_execution_starts_in_the_entry_that_makes_it() -> None:
    shard = Shard()

    execution_id = shard.run()

    (launch,) = shard.all_effects(Launch)
    assert launch.order.key == AttemptKey(execution_id, "main", 1)
    assert launch.order.token == Token(Epoch(1), shard.copy.tip.index)
    assert launch.order.fire_at == shard.decided_at
    assert shard.status(execution_id) == "running"


@pytest.mark.parametrize("distance", [-5 * HOUR, 5 * HOUR])
def test_a_triggered_execution_for_another_time_starts_at_once(distance: int) -> None:
    shard = Shard()
    job_id = shard.save(task("main"))
    fire_at = Instant(shard.decided_at + distance)

    made = shard.do(Trigger(job_id=job_id, fire_at=fire_at))

    assert isinstance(made, Triggered)
    (launch,) = shard.all_effects(Launch)
    assert launch.order.fire_at == shard.execution(made.execution_id).fire_at == fire_at
    assert shard.execution(made.execution_id).started_at == shard.decided_at


def test_an_execution_succeeds_with_its_only_task() -> None:
    shard = Shard()
    execution_id = shard.run()

    shard.finish(execution_id)

    assert shard.status(execution_id) == "success"
    assert shard.statuses(execution_id) == {"main": "success"}


def test_a_task_starts_only_on_a_node_with_the_labels_that_it_wants() -> None:
    picky = replace(task("main"), selector=(("disk", "ssd"), ("gpu", "a100")))
    shard = Shard(labels={"disk": "ssd"})
    execution_id = shard.run(picky)
    waiting = shard.task(execution_id)
    [waits] = [effect for effect in pending(shard.reloaded()) if isinstance(effect, WaitForSlot)]

    shard.labels["gpu"] = "a100"
    shard.start(execution_id)

    assert waits == WaitForSlot(execution_id, "main", waiting.ready_at, 0, picky.selector)
    assert waiting.status is TaskStatus.READY
    assert waiting.reason == "waits for a node with disk=ssd, gpu=a100"
    assert shard.statuses(execution_id) == {"main": "running"}
    assert shard.task(execution_id).reason == ""


def test_a_task_gets_the_results_of_the_tasks_that_it_needs_and_of_no_others() -> None:
    shard = Shard()
    execution_id = shard.run(
        task("silent"), task("extract"), task("other"), task("load", "extract", "silent")
    )
    assert {launch.order.results for launch in shard.all_effects(Launch)} == {b""}

    shard.finish(execution_id, "extract", result=b'{"rows": [1, 2]}')
    shard.finish(execution_id, "other", result=b"3")
    shard.finish(execution_id, "silent")

    [launch] = shard.all_effects(Launch)
    assert launch.order.key.task == "load"
    assert launch.order.results == b'{"extract":{"rows": [1, 2]},"silent":null}'


def test_a_task_after_failures_gets_null_for_failed_and_skipped_tasks() -> None:
    shard = Shard()
    execution_id = shard.run(
        task("fails"), task("skipped", "fails"), task("report", "fails", "skipped", rule=ALWAYS)
    )

    shard.finish(execution_id, "fails", Outcome.FAILED, result=b"1")

    assert shard.all_effects(Launch)[-1].order.results == b'{"fails":null,"skipped":null}'


def test_a_later_attempt_gets_the_same_results() -> None:
    shard = Shard()
    execution_id = shard.run(task("extract"), task("load", "extract", retry=ONE_RETRY))
    shard.finish(execution_id, "extract", result=b"[1]")

    shard.fail(execution_id, "load")
    shard.pass_time(TEN_SECONDS)

    [launch] = shard.all_effects(Launch)
    assert launch.order.key.number == 2
    assert launch.order.results == b'{"extract":[1]}'


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.TIMED_OUT])
def test_a_failure_without_retries_fails_the_execution_and_says_why(outcome: Outcome) -> None:
    shard = Shard()
    execution_id = shard.run()

    shard.finish(execution_id, outcome=outcome)

    assert shard.status(execution_id) == "failed"
    assert shard.execution(execution_id).reason == f"task main failed: ended {outcome.value}"


def test_a_finished_execution_leaves_the_live_tables() -> None:
    shard = Shard()
    execution_id = shard.run()

    shard.finish(execution_id)

    assert execution_id not in shard.state.executions
    assert execution_id not in shard.state.tasks
    assert list(shard.state.live_of(shard.execution(execution_id).job_id)) == []


def test_an_execution_starts_at_the_time_that_its_executor_reports() -> None:
    shard = Shard()
    execution_id = shard.run()
    report = shard.report(execution_id)
    began_at = later(shard.clock, Duration(3 * SECOND))
    ending = Ending(outcome=Outcome.SUCCEEDED, started_at=began_at, finished_at=began_at)

    shard.do(FinishAttempt(attempt=report.attempt, token=report.token, ending=ending))

    assert shard.execution(execution_id).started_at == began_at


def test_an_execution_starts_with_the_earliest_of_its_first_tasks_whichever_ends_first() -> None:
    shard = Shard()
    execution_id = shard.run(task("slow"), task("quick"))
    placed_at = shard.clock

    for name, after_ms in (("quick", 90), ("slow", 40)):
        report = shard.report(execution_id, name)
        began_at = later(placed_at, Duration(after_ms * MILLISECOND))
        ending = replace(
            report.ending, started_at=began_at, finished_at=later(began_at, Duration(SECOND))
        )
        shard.do(FinishAttempt(attempt=report.attempt, token=report.token, ending=ending))

    began_at = shard.execution(execution_id).started_at
    assert began_at == later(placed_at, Duration(40 * MILLISECOND))


def test_parameters_of_the_trigger_reach_the_task_by_environment() -> None:
    shard = Shard()
    job_id = shard.save(parameters='{"day": 1}')

    shard.trigger(job_id, parameters='{"day": 2}')

    (launch,) = shard.all_effects(Launch)
    assert launch.order.work.parameters == '{"day": 2}'
    assert ("ROTA_PARAMETERS", '{"day": 2}') in launch.order.work.env


def test_every_state_is_published() -> None:
    shard = Shard()
    job_id = shard.save()

    execution_id = shard.trigger(job_id)
    begun = shard.all_effects(Publish)
    shard.finish(execution_id)
    ended = shard.all_effects(Publish)

    assert [(one.task, one.status.value) for one in begun] == [
        ("", "queued"),
        ("", "running"),
        ("main", "running"),
    ]
    assert [(one.task, one.status.value) for one in ended] == [("main", "success"), ("", "success")]


# --- several tasks -------------------------------------------------------------------------------


def test_tasks_start_in_the_entry_that_ends_their_last_need() -> None:
    shard = Shard()
    execution_id = shard.run(*DIAMOND)
    shard.finish(execution_id, "a")

    started = [launch.order.key.task for launch in shard.all_effects(Launch)]

    assert started == ["b", "c"]
    assert shard.statuses(execution_id) == {
        "a": "success",
        "b": "running",
        "c": "running",
        "d": "blocked",
    }


def test_a_join_waits_for_the_last_of_its_needs() -> None:
    shard = Shard()
    execution_id = shard.run(*DIAMOND)
    shard.finish(execution_id, "a")

    shard.finish(execution_id, "c")
    between = shard.statuses(execution_id)["d"]
    shard.finish(execution_id, "b")

    assert between == "blocked"
    assert shard.statuses(execution_id)["d"] == "running"


def test_an_end_costs_the_same_however_many_tasks_a_join_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[Task] = []

    def looked(one: Task) -> UpstreamState:
        looks.append(one)
        return standing(one)

    for module in (core_state, core_draft):
        monkeypatch.setattr(module, "standing", looked)
    seen: list[int] = []
    for width in (10, 200):
        shard = Shard()
        leaves = [f"t{number}" for number in range(width)]
        execution_id = shard.run(*map(task, leaves), task("join", *leaves))
        shard.finish(execution_id, "t0")
        looks.clear()
        shard.finish(execution_id, "t1")
        seen.append(len(looks))

    assert seen[0] == seen[1] > 0


def test_all_tasks_without_needs_start_at_once() -> None:
    shard = Shard()

    execution_id = shard.run(*(task(f"t{n}") for n in range(20)))

    assert set(shard.statuses(execution_id).values()) == {"running"}
    assert len(shard.all_effects(Launch)) == 20


def test_an_execution_ends_with_its_last_task() -> None:
    shard = Shard()
    execution_id = shard.run(task("a"), task("b"))

    shard.finish(execution_id, "a")
    between = shard.status(execution_id)
    shard.finish(execution_id, "b")

    assert (between, shard.status(execution_id)) == ("running", "success")


def test_a_failure_skips_all_tasks_that_depend_on_it() -> None:
    shard = Shard()
    execution_id = shard.run(task("a"), task("b", "a"), task("c", "b"), task("d", "c"))

    shard.fail(execution_id, "a")

    assert shard.status(execution_id) == "failed"
    assert shard.statuses(execution_id) == {
        "a": "failed",
        "b": "skipped",
        "c": "skipped",
        "d": "skipped",
    }
    assert shard.task(execution_id, "d").reason == UPSTREAM_FAILED


def test_tasks_that_do_not_depend_on_a_failure_run_to_their_end() -> None:
    shard = Shard()
    execution_id = shard.run(task("bad"), task("after-bad", "bad"), task("good"), task("z", "good"))

    shard.fail(execution_id, "bad")
    shard.finish(execution_id, "good")
    shard.finish(execution_id, "z")

    assert shard.status(execution_id) == "failed"
    assert shard.statuses(execution_id) == {
        "bad": "failed",
        "after-bad": "skipped",
        "good": "success",
        "z": "success",
    }


def test_a_task_is_skipped_as_soon_as_one_need_fails() -> None:
    """As in Airflow, all_success does not wait for the other tasks."""
    shard = Shard()
    execution_id = shard.run(task("a"), task("slow"), task("join", "a", "slow"))

    shard.fail(execution_id, "a")

    assert shard.statuses(execution_id) == {"a": "failed", "slow": "running", "join": "skipped"}


def test_a_failure_handler_two_steps_down_sees_the_failure() -> None:
    """As with Airflow's upstream_failed, which one_failed counts as a failure."""
    shard = Shard()
    execution_id = shard.run(
        task("a"),
        task("b", "a"),
        task("alarm", "b", rule=ON_FAILURE),
        task("tidy", "b", rule=ALWAYS),
    )

    shard.fail(execution_id, "a")

    assert shard.statuses(execution_id) == {
        "a": "failed",
        "b": "skipped",
        "alarm": "running",
        "tidy": "running",
    }


def test_a_failure_handler_is_skipped_without_a_failure_and_so_are_tasks_that_need_it() -> None:
    shard = Shard()
    execution_id = shard.run(
        task("a"),
        task("alarm", "a", rule=ON_FAILURE),
        task("after-alarm", "alarm"),
        task("tidy", "alarm", rule=ALWAYS),
    )

    shard.finish(execution_id, "a")
    shard.finish(execution_id, "tidy")

    assert shard.status(execution_id) == "success"
    assert shard.statuses(execution_id) == {
        "a": "success",
        "alarm": "skipped",
        "after-alarm": "skipped",
        "tidy": "success",
    }
    assert shard.task(execution_id, "after-alarm").reason == UPSTREAM_SKIPPED


def test_a_handled_failure_is_still_a_failure() -> None:
    shard = Shard()
    execution_id = shard.run(task("a"), task("alarm", "a", rule=ON_FAILURE))
    shard.fail(execution_id, "a")

    shard.finish(execution_id, "alarm")

    assert shard.status(execution_id) == "failed"
    assert shard.execution(execution_id).reason == "task a failed: ended failed"


def test_a_long_chain_is_skipped_in_one_entry() -> None:
    shard = Shard()
    chain = (task("t0"), *(task(f"t{n}", f"t{n - 1}") for n in range(1, 500)))
    execution_id = shard.run(*chain)

    shard.fail(execution_id, "t0")

    assert shard.status(execution_id) == "failed"
    assert list(shard.statuses(execution_id).values()).count("skipped") == 499


# --- tokens --------------------------------------------------------------------------------------


def test_a_stale_token_cannot_finish_an_attempt() -> None:
    shard = Shard()
    execution_id = shard.run()
    stale = shard.report(execution_id)
    shard.lose_node()

    with pytest.raises(Refused, match="stale_attempt"):
        shard.do(stale)

    assert shard.status(execution_id) == "running"


def test_a_report_with_the_number_of_another_attempt_is_refused() -> None:
    shard = Shard()
    execution_id = shard.run()
    report = shard.report(execution_id)
    forged = report.attempt._replace(number=report.attempt.number + 1)

    with pytest.raises(Refused, match="stale_attempt"):
        shard.do(replace(report, attempt=forged))

    assert shard.status(execution_id) == "running"


def test_the_report_of_an_end_counts_once() -> None:
    shard = Shard()
    execution_id = shard.run(task("main", retry=ONE_RETRY), task("other"))
    report = shard.report(execution_id, outcome=Outcome.FAILED)
    shard.do(report)

    with pytest.raises(Refused, match="stale_attempt"):
        shard.do(report)

    assert shard.task(execution_id).failures == 1


def test_a_report_about_a_finished_execution_is_refused() -> None:
    shard = Shard()
    execution_id = shard.run()
    report = shard.report(execution_id)
    shard.do(report)

    with pytest.raises(Refused, match="stale_attempt"):
        shard.do(report)


def test_a_report_about_an_attempt_that_never_started_is_refused() -> None:
    shard = Shard()
    execution_id = shard.run(task("a"), task("b", "a"))
    ending = Ending(outcome=Outcome.SUCCEEDED, started_at=Instant(0), finished_at=Instant(0))
    token = shard.attempt(execution_id, "a").token

    for key in (
        AttemptKey(execution_id, "b", 1),
        AttemptKey(execution_id, "nothing", 1),
        AttemptKey(ExecutionId("f" * 36), "a", 1),
    ):
        with pytest.raises(Refused, match="stale_attempt"):
            shard.do(FinishAttempt(attempt=key, token=token, ending=ending))


def test_a_token_of_another_epoch_is_stale() -> None:
    shard = Shard()
    execution_id = shard.run()
    report = shard.report(execution_id)
    token = Token(Epoch(report.token.epoch + 1), report.token.index)

    with pytest.raises(Refused, match="stale_attempt"):
        shard.do(FinishAttempt(attempt=report.attempt, token=token, ending=report.ending))


def test_tokens_of_a_task_grow_through_retries_losses_and_takeovers() -> None:
    shard = Shard()
    execution_id = shard.run(task("main", retry=ONE_RETRY))
    shard.lose_node()
    shard.copy = copy_from(shard.copy.tip, Epoch(2))
    shard.lose_node()
    shard.fail(execution_id)

    shard.pass_time(TEN_SECONDS)

    tokens = tokens_of(shard.task(execution_id))
    assert len(tokens) == 4
    assert tokens == sorted(set(tokens))
    assert tokens[-1] > Token(Epoch(2), Index(0))


# --- slots ---------------------------------------------------------------------------------------


def test_without_slots_tasks_wait_and_the_execution_is_queued() -> None:
    shard = Shard(slots=0)

    execution_id = shard.run(task("a"), task("b"))

    assert shard.status(execution_id) == "queued"
    waits = [(wait.execution_id, wait.task) for wait in shard.all_effects(WaitForSlot)]
    assert waits == [(execution_id, "a"), (execution_id, "b")]
    assert shard.all_effects(Launch) == []


def test_only_as_many_tasks_start_as_there_are_slots() -> None:
    shard = Shard(slots=2)

    execution_id = shard.run(*(task(f"t{n}") for n in range(4)))

    assert list(shard.statuses(execution_id).values()) == ["running", "running", "ready", "ready"]


def test_a_waiting_task_starts_when_there_is_a_slot() -> None:
    shard = Shard(slots=0)
    execution_id = shard.run()
    shard.slots = 1

    shard.start(execution_id)

    assert shard.status(execution_id) == "running"
    assert [launch.order.key.number for launch in shard.all_effects(Launch)] == [1]


def test_a_task_offered_a_slot_that_is_taken_keeps_its_waiting_time() -> None:
    shard = Shard(slots=0)
    execution_id = shard.run(priority=7)
    [first] = shard.all_effects(WaitForSlot)
    shard.pass_time(TEN_SECONDS)

    shard.start(execution_id)

    assert shard.statuses(execution_id) == {"main": "ready"}
    assert shard.all_effects(WaitForSlot) == [first]
    assert first == WaitForSlot(execution_id, "main", first.since, 7)


def test_the_wait_of_a_task_that_waits_again_starts_at_its_last_end() -> None:
    shard = Shard(slots=0)
    execution_id = shard.run(task("a", retry=ONE_RETRY))
    shard.slots = 1
    shard.start(execution_id, "a")
    shard.fail(execution_id, "a")
    shard.slots = 0

    shard.pass_time(TEN_SECONDS)

    [wait] = shard.all_effects(WaitForSlot)
    assert wait.since == shard.decided_at


def test_a_slot_offered_twice_starts_one_attempt() -> None:
    shard = Shard(slots=0)
    execution_id = shard.run()
    shard.slots = 2
    shard.start(execution_id)

    shard.start(execution_id)

    assert len(shard.task(execution_id).attempts) == 1
    assert shard.effects == []


def test_a_slot_offered_to_a_task_that_is_not_ready_is_not_taken() -> None:
    shard = Shard()
    execution_id = shard.run(task("a", retry=ONE_RETRY), task("b", "a"))
    shard.fail(execution_id, "a")

    shard.start(execution_id, "a")
    shard.start(execution_id, "b")
    shard.do(StartTask(execution_id=ExecutionId("gone"), task="a"))

    assert shard.statuses(execution_id) == {"a": "backing_off", "b": "blocked"}


def test_a_delay_that_ends_without_a_slot_leaves_the_task_ready() -> None:
    shard = Shard()
    execution_id = shard.run(task("main", retry=ONE_RETRY))
    shard.fail(execution_id)
    shard.slots = 0

    shard.pass_time(TEN_SECONDS)

    assert shard.statuses(execution_id) == {"main": "ready"}
    assert shard.task(execution_id).retry_at == 0


def test_a_lost_task_without_a_slot_waits() -> None:
    shard = Shard()
    execution_id = shard.run()
    shard.slots = 0

    shard.lose_node()

    assert shard.statuses(execution_id) == {"main": "ready"}
    assert shard.task(execution_id).losses == 1


def test_a_decision_says_how_many_attempts_it_starts() -> None:
    shard = Shard(slots=2)

    shard.run(*(task(f"t{n}") for n in range(4)))

    assert shard.started_count == 2


# --- cancelling ----------------------------------------------------------------------------------


def running(shard: Shard) -> ExecutionId:
    return shard.run(task("main"), task("next", "main"))


def waiting_for_a_slot(shard: Shard) -> ExecutionId:
    shard.slots = 0
    return running(shard)


def backing_off(shard: Shard) -> ExecutionId:
    execution_id = shard.run(task("main", retry=ONE_RETRY), task("next", "main"))
    shard.fail(execution_id)
    return execution_id


def test_cancelling_stops_a_running_attempt_and_waits_for_its_end() -> None:
    shard = Shard()
    execution_id = running(shard)

    shard.cancel(execution_id)
    between = shard.statuses(execution_id)
    stops = shard.all_effects(Stop)
    shard.finish(execution_id, outcome=Outcome.CANCELLED)

    assert stops == [Stop(AttemptKey(execution_id, "main", 1))]
    assert between == {"main": "running", "next": "cancelled"}
    assert shard.status(execution_id) == "cancelled"
    assert shard.statuses(execution_id) == {"main": "cancelled", "next": "cancelled"}


@pytest.mark.parametrize("make", [waiting_for_a_slot, backing_off])
def test_cancelling_a_task_that_does_not_run_ends_it_at_once(
    make: Callable[[Shard], ExecutionId],
) -> None:
    shard = Shard()
    execution_id = make(shard)

    shard.cancel(execution_id)

    assert shard.status(execution_id) == "cancelled"
    assert shard.statuses(execution_id) == {"main": "cancelled", "next": "cancelled"}
    assert shard.all_effects(Stop) == []


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Outcome.SUCCEEDED, "success"),
        (Outcome.FAILED, "cancelled"),
        (Outcome.TIMED_OUT, "cancelled"),
        (Outcome.CANCELLED, "cancelled"),
    ],
)
def test_however_a_cancelled_attempt_ends_nothing_follows_it(
    outcome: Outcome, expected: str
) -> None:
    shard = Shard()
    execution_id = shard.run(task("main", retry=ONE_RETRY), task("next", "main"))
    shard.cancel(execution_id)

    shard.finish(execution_id, outcome=outcome)

    assert shard.status(execution_id) == "cancelled"
    assert shard.statuses(execution_id) == {"main": expected, "next": "cancelled"}
    assert shard.all_effects(Launch) == []


def test_a_cancelled_attempt_that_is_lost_is_not_started_again() -> None:
    shard = Shard()
    execution_id = running(shard)
    shard.cancel(execution_id)

    shard.lose_node()

    assert shard.status(execution_id) == "cancelled"
    assert shard.all_effects(Launch) == []


def test_cancelling_twice_is_cancelling_once() -> None:
    shard = Shard()
    execution_id = running(shard)
    shard.cancel(execution_id)
    rows = dict(shard.rows)

    shard.cancel(execution_id)

    assert shard.rows == rows
    assert shard.effects == []


def test_an_ended_execution_cannot_be_cancelled() -> None:
    shard = Shard()
    execution_id = shard.run()
    shard.finish(execution_id)

    with pytest.raises(Refused, match="execution_not_found"):
        shard.cancel(execution_id)


def test_cancelled_tasks_stay_cancelled_whatever_timers_ring_later() -> None:
    shard = Shard()
    execution_id = shard.run(task("main", retry=ONE_RETRY), task("other"))
    shard.fail(execution_id, "main")
    shard.cancel(execution_id)

    shard.pass_time(TEN_SECONDS)
    shard.start(execution_id, "main")

    assert shard.statuses(execution_id) == {"main": "cancelled", "other": "running"}


def test_an_attempt_stopped_for_an_unknown_reason_is_started_again() -> None:
    """Its execution was not cancelled, so the task is not finished, and it did not fail."""
    shard = Shard()
    execution_id = shard.run()

    shard.finish(execution_id, outcome=Outcome.CANCELLED)

    assert shard.status(execution_id) == "running"
    assert [one.number for one in shard.task(execution_id).attempts] == [1, 2]
    assert (shard.task(execution_id).losses, shard.task(execution_id).failures) == (1, 0)


# --- effects after a takeover --------------------------------------------------------------------


def test_a_new_primary_finds_tasks_that_wait_for_a_slot_or_a_delay() -> None:
    shard = Shard(slots=1)
    execution_id = shard.run(task("a", retry=ONE_RETRY), task("b"), priority=3)
    shard.fail(execution_id, "a")

    found = list(pending(shard.reloaded()))

    wake = Wake(execution_id=execution_id, task="a", number=2)
    retry_at = shard.task(execution_id, "a").retry_at
    assert found == [
        SetTimer(retry_at, wake, Timescale.ELAPSED),
        WaitForSlot(execution_id, "b", shard.task(execution_id, "b").ready_at, 3),
    ]


def test_a_new_primary_stops_cancelled_attempts_that_may_still_run() -> None:
    shard = Shard()
    execution_id = shard.run(task("a"), task("b"), task("c", "b"))
    shard.cancel(execution_id)

    found = list(pending(shard.reloaded()))

    assert found == [
        Stop(AttemptKey(execution_id, "a", 1)),
        Stop(AttemptKey(execution_id, "b", 1)),
    ]


def test_cancelling_a_task_that_backs_off_clears_its_timer() -> None:
    shard = Shard()
    policy = RetryPolicy(limit=3, backoff=Fixed(delay=HOUR))
    execution_id = shard.run(task("main", retry=policy))
    shard.fail(execution_id)
    [waiting] = shard.timers

    shard.cancel(execution_id)

    cleared = [each for each in shard.all_effects(ClearTimer) if isinstance(each.command, Wake)]
    assert [(each.due, each.command) for each in cleared] == [(waiting.due, waiting.command)]
    assert shard.status(execution_id) == "cancelled"
