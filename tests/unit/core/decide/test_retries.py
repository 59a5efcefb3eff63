"""Retries of failed tasks, and new attempts after a loss."""

import pytest
from msgspec.structs import replace

from rota.core.decide.steps.attempts import LOSSES_MAX
from rota.core.model.attempt import RESULT_BYTES_MAX, RESULTS_BYTES_MAX, Ending, Outcome, Raised
from rota.core.model.ids import Session
from rota.core.model.recorded_endings import DETAILS_KEPT
from rota.core.model.retry import Explicit, Exponential, Fixed, RetryPolicy
from rota.core.timing.instants import MINUTE, SECOND, Duration, later
from rota.core.vocabulary.commands import FinishAttempt
from rota.core.vocabulary.effects import (
    Launch,
    SetTimer,
    Timescale,
)
from unit.core.shard import ONE_RETRY, TEN_SECONDS, Shard, at, task

# --- retries -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("retry", "delays_s"),
    [
        (RetryPolicy(limit=2, backoff=Fixed(delay=TEN_SECONDS)), [10, 10]),
        (RetryPolicy(limit=3, backoff=Exponential(first=SECOND)), [1, 2, 4]),
        (RetryPolicy(limit=2, backoff=Explicit(delays=(SECOND, MINUTE))), [1, 60]),
    ],
    ids=["fixed", "exponential", "explicit"],
)
def test_a_task_is_tried_again_after_its_delays(retry: RetryPolicy, delays_s: list[int]) -> None:
    shard = Shard()
    execution_id = shard.run(task("main", retry=retry))

    for delay_s in delays_s:
        shard.fail(execution_id)
        (timer,) = shard.all_effects(SetTimer)
        assert timer.due == shard.decided_at + delay_s * SECOND
        assert timer.timescale is Timescale.ELAPSED
        assert shard.statuses(execution_id) == {"main": "backing_off"}
        shard.pass_time(Duration(delay_s * SECOND))
        assert shard.statuses(execution_id) == {"main": "running"}
    shard.fail(execution_id)

    assert shard.status(execution_id) == "failed"
    assert shard.task(execution_id).failures == len(delays_s) + 1


@pytest.mark.parametrize(
    ("outcome", "expected"), [(Outcome.TIMED_OUT, "failed"), (Outcome.FAILED, "backing_off")]
)
def test_the_cause_of_a_failure_may_forbid_a_retry(outcome: Outcome, expected: str) -> None:
    shard = Shard()
    retry = RetryPolicy(limit=1, never_on_causes=("timeout",))
    execution_id = shard.run(task("main", retry=retry))

    shard.finish(execution_id, outcome=outcome)

    assert shard.task(execution_id).status.value == expected


def test_no_retry_begins_after_the_longest_time_since_the_first_attempt() -> None:
    shard = Shard()
    retry = RetryPolicy(limit=9, backoff=Fixed(delay=TEN_SECONDS), elapsed_max=MINUTE)
    execution_id = shard.run(task("main", retry=retry))

    for _ in range(2):
        shard.clock = later(shard.clock, Duration(20 * SECOND))
        shard.fail(execution_id)
        shard.pass_time(TEN_SECONDS)
    shard.fail(execution_id)

    assert shard.status(execution_id) == "failed"
    assert shard.task(execution_id).failures == 3


def test_jitter_is_drawn_from_the_decisions_entropy_and_stored() -> None:
    retry = RetryPolicy(limit=1, backoff=Fixed(delay=TEN_SECONDS), jitter=0.5)
    shard = Shard(entropy=1 << 19)
    execution_id = shard.run(task("main", retry=retry))

    shard.fail(execution_id)

    assert shard.task(execution_id).retry_at == shard.decided_at + 12_500_000


@pytest.mark.parametrize(
    ("retry", "exit_code", "expected"),
    [
        (RetryPolicy(limit=1, on_exit_codes=(75,)), 75, "backing_off"),
        (RetryPolicy(limit=1, on_exit_codes=(75,)), 1, "failed"),
        (RetryPolicy(limit=1, never_on_exit_codes=(2,)), 2, "failed"),
        (RetryPolicy(limit=1, never_on_exit_codes=(2,)), 1, "backing_off"),
    ],
)
def test_the_exit_code_decides_whether_there_is_a_retry(
    retry: RetryPolicy, exit_code: int, expected: str
) -> None:
    shard = Shard()
    execution_id = shard.run(task("main", retry=retry))

    shard.fail(execution_id, exit_code=exit_code)

    assert shard.statuses(execution_id) == {"main": expected}


def test_a_success_after_a_failure_is_a_success() -> None:
    shard = Shard()
    execution_id = shard.run(task("main", retry=ONE_RETRY))
    shard.fail(execution_id)
    shard.pass_time(TEN_SECONDS)

    shard.finish(execution_id)

    assert shard.status(execution_id) == "success"
    assert [one.number for one in shard.task(execution_id).attempts] == [1, 2]


def test_a_delay_passes_while_the_clock_stands_an_hour_back() -> None:
    shard = Shard()
    execution_id = shard.run(task("main", retry=ONE_RETRY))
    shard.fail(execution_id)

    shard.set_clock(at("11:00"))
    shard.pass_time(TEN_SECONDS)

    assert shard.statuses(execution_id) == {"main": "running"}


def test_the_end_of_a_delay_that_was_used_up_starts_nothing() -> None:
    """Effects may be carried out twice: the same timer may go off during the next delay."""
    shard = Shard()
    retry = RetryPolicy(limit=2, backoff=Fixed(delay=TEN_SECONDS))
    execution_id = shard.run(task("main", retry=retry))
    shard.fail(execution_id)
    (timer,) = shard.all_effects(SetTimer)
    shard.do(timer.command)
    shard.fail(execution_id)

    shard.do(timer.command)

    assert shard.statuses(execution_id) == {"main": "backing_off"}


def test_a_timer_that_rings_twice_does_not_overtake_tasks_that_wait_for_a_slot() -> None:
    shard = Shard()
    execution_id = shard.run(task("main", retry=ONE_RETRY))
    shard.fail(execution_id)
    (timer,) = shard.all_effects(SetTimer)
    shard.slots = 0
    shard.do(timer.command)
    shard.slots = 1

    shard.do(timer.command)

    assert shard.statuses(execution_id) == {"main": "ready"}


def test_only_the_newest_outputs_stay_in_the_record() -> None:
    retry = RetryPolicy(limit=20, backoff=Fixed(delay=SECOND))
    shard = Shard()
    execution_id = shard.run(task("main", retry=retry))

    for number in range(1, 10):
        report = shard.report(execution_id, outcome=Outcome.FAILED)
        ending = Ending(
            outcome=Outcome.FAILED,
            started_at=shard.clock,
            finished_at=shard.clock,
            output=b"%d" % number,
        )
        shard.do(FinishAttempt(attempt=report.attempt, token=report.token, ending=ending))
        shard.pass_time(SECOND)

    ended = [one.ending for one in shard.task(execution_id).attempts if one.ending]
    assert [one.output for one in ended if one.output] == [b"5", b"6", b"7", b"8", b"9"]
    assert len([one for one in ended if one.output]) == DETAILS_KEPT


def test_the_raised_exception_decides_on_the_retry() -> None:
    policy = RetryPolicy(limit=9, backoff=Fixed(delay=SECOND), never_on_exceptions=("OutOfStock",))
    shard = Shard()
    execution_id = shard.run(task("main", retry=policy))

    statuses: list[str] = []
    for raised in (Raised(type="OSError"), Raised(type="shop.OutOfStock")):
        report = shard.report(execution_id, outcome=Outcome.FAILED)
        ending = replace(report.ending, raised=raised, result=b"1")
        shard.do(FinishAttempt(attempt=report.attempt, token=report.token, ending=ending))
        statuses.append(shard.statuses(execution_id)["main"])
        shard.pass_time(SECOND)

    assert statuses == ["backing_off", "failed"]
    ended = [one.ending for one in shard.task(execution_id).attempts]
    assert [one.result for one in ended if one] == [b"", b""]


def test_the_results_of_an_execution_are_bounded_together() -> None:
    names = [f"task-{number}" for number in range(10)]
    shard = Shard()
    execution_id = shard.run(*map(task, names), task("more"))
    large = b'"%b"' % (b"x" * (RESULT_BYTES_MAX - 2))

    for name in names:
        report = shard.report(execution_id, name)
        shard.do(replace(report, ending=replace(report.ending, result=large)))

    endings = [shard.task(execution_id, name).attempts[-1].ending for name in names]
    kept = [ending for ending in endings if ending and ending.result]
    assert len(kept) * RESULT_BYTES_MAX == RESULTS_BYTES_MAX
    assert {ending.outcome for ending in endings if ending} == {Outcome.SUCCEEDED}


# --- nodes that are lost -------------------------------------------------------------------------


def test_a_lost_attempt_is_started_again_at_once() -> None:
    shard = Shard()
    execution_id = shard.run()

    shard.lose_node()

    first, second = shard.task(execution_id).attempts
    assert first.ending is not None
    assert first.ending.outcome is Outcome.LOST
    assert (second.number, second.session) == (2, "session-2")
    assert [launch.order.key.number for launch in shard.all_effects(Launch)] == [2]


def test_a_lost_attempt_starts_at_its_placement_whenever_the_loss_is_reported() -> None:
    shard = Shard()
    execution_id = shard.run(task("main"))
    placed_at = shard.task(execution_id).attempts[0].placed_at
    shard.pass_time(TEN_SECONDS)

    report = shard.report(execution_id, outcome=Outcome.LOST)
    shard.do(replace(report, ending=replace(report.ending, started_at=report.ending.finished_at)))

    first, _ = shard.task(execution_id).attempts
    assert first.ending is not None
    assert first.ending.started_at == placed_at
    assert shard.execution(execution_id).started_at == placed_at


def test_from_the_third_loss_in_a_row_on_the_next_attempt_waits_longer_each_time() -> None:
    shard = Shard()
    execution_id = shard.run()
    delays: list[int] = []

    for _ in range(10):
        shard.lose_node()
        lost = shard.task(execution_id)
        delays.append(lost.retry_at - shard.clock if lost.retry_at else 0)
        shard.pass_time(Duration(MINUTE))

    assert [delay // SECOND for delay in delays] == [0, 0, 1, 2, 4, 8, 16, 32, 60, 60]
    assert shard.statuses(execution_id) == {"main": "running"}


def test_losses_with_another_end_between_them_are_not_in_a_row() -> None:
    shard = Shard()
    execution_id = shard.run(task("main", retry=ONE_RETRY))
    for _ in range(2):
        shard.lose_node()
    shard.fail(execution_id)
    shard.pass_time(TEN_SECONDS)

    shard.lose_node()

    assert shard.statuses(execution_id) == {"main": "running"}


def test_lost_attempts_use_none_of_the_users_retries() -> None:
    shard = Shard()
    execution_id = shard.run(task("main", retry=ONE_RETRY))
    for _ in range(5):
        shard.lose_node()
        shard.pass_time(Duration(MINUTE))

    shard.fail(execution_id)
    after_failure = shard.statuses(execution_id)["main"]
    shard.pass_time(TEN_SECONDS)
    shard.fail(execution_id)

    assert after_failure == "backing_off"
    assert shard.status(execution_id) == "failed"
    assert (shard.task(execution_id).losses, shard.task(execution_id).failures) == (5, 2)


def test_a_task_that_loses_every_node_fails_in_the_end() -> None:
    shard = Shard()
    execution_id = shard.run(task("main", retry=ONE_RETRY))
    for _ in range(LOSSES_MAX - 1):
        shard.lose_node()
        shard.pass_time(Duration(MINUTE))
    before = shard.status(execution_id)

    shard.lose_node()

    assert (before, shard.status(execution_id)) == ("running", "failed")
    assert len(shard.task(execution_id).attempts) == LOSSES_MAX
    assert "100 of its attempts were lost" in shard.execution(execution_id).reason


def test_only_the_attempts_of_that_session_of_the_node_are_lost() -> None:
    shard = Shard()
    job_id = shard.save()
    before = shard.trigger(job_id)
    shard.session = Session("session-2")
    since = shard.trigger(job_id)
    shard.session = Session("session-1")

    shard.lose_node()

    assert len(shard.task(before).attempts) == 2
    assert len(shard.task(since).attempts) == 1


def test_a_lost_node_leaves_delays_alone() -> None:
    shard = Shard()
    execution_id = shard.run(task("main", retry=ONE_RETRY))
    shard.fail(execution_id)

    shard.lose_node()

    assert shard.statuses(execution_id) == {"main": "backing_off"}


def test_losing_a_node_twice_changes_nothing_more() -> None:
    shard = Shard()
    execution_id = shard.run()
    shard.lose_node()
    rows = dict(shard.rows)

    shard.session = Session("session-1")
    shard.lose_node()

    assert shard.rows == rows
    assert len(shard.task(execution_id).attempts) == 2


def test_a_permanent_failure_is_not_retried() -> None:
    shard = Shard()
    execution_id = shard.run(task("main", retry=ONE_RETRY))
    report = shard.report(execution_id, outcome=Outcome.FAILED)

    shard.do(replace(report, ending=replace(report.ending, is_permanent=True)))

    assert shard.status(execution_id) == "failed"
    assert len(shard.task(execution_id).attempts) == 1
