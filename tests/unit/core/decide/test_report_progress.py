"""Progress and checkpoints that running attempts report."""

import pytest

from rota.core.errors import Refused
from rota.core.model.attempt import CHECKPOINT_BYTES_MAX, Outcome, Report, Token
from rota.core.model.execution import task_key
from rota.core.model.ids import Epoch, ExecutionId, Index
from rota.core.model.retry import Fixed, RetryPolicy
from rota.core.timing.instants import SECOND, Duration
from rota.core.vocabulary.changes import Change, Table
from rota.core.vocabulary.commands import ReportAttempt
from rota.core.vocabulary.effects import Launch, Publish
from unit.core.shard import Shard, task

TWO_RETRIES = task("main", retry=RetryPolicy(limit=2, backoff=Fixed(delay=Duration(SECOND))))


# --- progress -------------------------------------------------------------------------------


def test_progress_is_recorded_and_published() -> None:
    shard = Shard()
    execution_id = shard.run()

    shard.report_progress(execution_id, percent=50)

    (event,) = shard.all_effects(Publish)
    assert shard.attempt(execution_id).percent == 50
    assert (event.task, event.attempt, event.percent, event.detail) == ("main", 1, 50, "50%")


def test_repeated_progress_writes_nothing() -> None:
    shard = Shard()
    execution_id = shard.run()
    shard.report_progress(execution_id, percent=50, checkpoint=b"row 7")
    before = shard.change_count

    shard.report_progress(execution_id, percent=50, checkpoint=b"row 7")

    assert (before, shard.change_count) == (2, 0)
    assert shard.effects == []


def test_progress_may_decrease_and_is_empty_for_the_next_attempt() -> None:
    shard = Shard()
    execution_id = shard.run(TWO_RETRIES)

    shard.report_progress(execution_id, percent=80)
    shard.report_progress(execution_id, percent=20)
    shard.fail(execution_id)
    shard.pass_time(Duration(2 * SECOND))

    assert [one.percent for one in shard.task(execution_id).attempts] == [20, None]


@pytest.mark.parametrize("percent", [-1, 101])
def test_progress_out_of_range_is_refused(percent: int) -> None:
    shard = Shard()
    execution_id = shard.run()

    with pytest.raises(Refused, match=f"invalid_report.*{percent} percent is out of range"):
        shard.report_progress(execution_id, percent=percent)


# --- refused reports ------------------------------------------------------------------------


def test_a_report_under_another_token_is_refused() -> None:
    shard = Shard()
    execution_id = shard.run()
    key = shard.report(execution_id).attempt
    stale = Token(Epoch(0), Index(1))

    with pytest.raises(Refused, match="stale_attempt"):
        shard.do(ReportAttempt(attempt=key, token=stale, report=Report(percent=1)))


def test_a_report_of_an_attempt_that_has_ended_is_refused() -> None:
    shard = Shard()
    execution_id = shard.run(task("main"), task("next", "main"))
    report = shard.report(execution_id)
    shard.finish(execution_id)

    with pytest.raises(Refused, match="stale_attempt"):
        shard.do(
            ReportAttempt(attempt=report.attempt, token=report.token, report=Report(percent=1))
        )


# --- checkpoints ----------------------------------------------------------------------------


def test_a_checkpoint_is_given_to_the_next_attempt() -> None:
    shard = Shard()
    execution_id = shard.run(TWO_RETRIES)
    first = given(shard)

    shard.report_progress(execution_id, checkpoint=b"row 7")
    shard.report_progress(execution_id, checkpoint=b"row 9")
    shard.fail(execution_id)
    shard.pass_time(Duration(2 * SECOND))

    assert (first, given(shard)) == (b"", b"row 9")


def test_a_checkpoint_outlives_attempts_that_save_none() -> None:
    shard = Shard()
    execution_id = shard.run(TWO_RETRIES)
    shard.report_progress(execution_id, checkpoint=b"row 7")

    shard.lose_node()
    shard.fail(execution_id)
    shard.pass_time(Duration(2 * SECOND))

    assert given(shard) == b"row 7"


def test_a_checkpoint_is_given_after_a_takeover_too() -> None:
    shard = Shard()
    execution_id = shard.run()
    shard.report_progress(execution_id, checkpoint=b"row 7")

    shard.state = shard.reloaded()
    shard.slots = 0
    shard.lose_node()
    shard.slots = 1
    shard.start(execution_id)

    assert given(shard) == b"row 7"


def test_an_empty_checkpoint_leaves_what_was_saved() -> None:
    shard = Shard()
    execution_id = shard.run()
    shard.report_progress(execution_id, checkpoint=b"row 7")

    shard.report_progress(execution_id, checkpoint=b"")

    assert list(shard.state.checkpoints.values()) == [b"row 7"]


def test_a_checkpoint_that_is_too_long_is_refused_and_the_one_before_stays() -> None:
    shard = Shard()
    execution_id = shard.run()
    longest = bytes(CHECKPOINT_BYTES_MAX)
    shard.report_progress(execution_id, checkpoint=longest)

    with pytest.raises(Refused, match=r"invalid_report.*65537 bytes is too long; at most 65536"):
        shard.report_progress(execution_id, checkpoint=longest + b"x")

    assert list(shard.state.checkpoints.values()) == [longest]


@pytest.mark.parametrize("end", ["success", "failure", "cancel", "delete"])
def test_a_checkpoint_goes_with_its_task(end: str) -> None:
    shard = Shard()
    execution_id = shard.run(task("main"), task("other"))
    shard.report_progress(execution_id, checkpoint=b"row 7")

    end_main(shard, execution_id, end)

    assert shard.keys(Table.CHECKPOINT) == []
    assert shard.state.checkpoints == {}


def test_a_fork_of_the_state_has_checkpoints_of_its_own() -> None:
    shard = Shard()
    execution_id = shard.run()
    shard.report_progress(execution_id, checkpoint=b"row 7")

    fork = shard.state.fork()
    fork.apply(Change(Table.CHECKPOINT, task_key(execution_id, "main"), None))

    assert fork.checkpoints == {}
    assert list(shard.state.checkpoints.values()) == [b"row 7"]


def test_what_is_kept_of_the_past_is_without_checkpoints() -> None:
    shard = Shard()
    execution_id = shard.run()
    shard.report_progress(execution_id, percent=50, checkpoint=b"row 7")

    shard.finish(execution_id)

    assert all(b"row 7" not in value for value in shard.rows.values())
    assert shard.attempt(execution_id).percent == 50


def end_main(shard: Shard, execution_id: ExecutionId, end: str) -> None:
    match end:
        case "success":
            shard.finish(execution_id)
        case "failure":
            shard.fail(execution_id)
        case "delete":
            shard.delete(shard.execution(execution_id).job_id)
            shard.finish(execution_id, outcome=Outcome.CANCELLED)
        case _:
            shard.cancel(execution_id)
            shard.finish(execution_id, outcome=Outcome.CANCELLED)


def given(shard: Shard) -> bytes:
    """Return the checkpoint with which the last attempt was started."""
    return shard.all_effects(Launch)[-1].order.checkpoint
