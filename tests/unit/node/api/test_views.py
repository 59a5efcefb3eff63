"""Documents about executions: progress, and ends of attempts."""

import msgspec
import pytest
from msgspec.structs import replace

from rota.core.model.attempt import Ending, Outcome, Raised, Usage
from rota.core.model.ids import ExecutionId
from rota.core.model.ledger import FireOutcome, LedgerEntry
from rota.core.model.retry import RetryPolicy
from rota.core.timing.instants import LATEST_INSTANT, SECOND, Duration, Instant, format_instant
from rota.core.vocabulary.commands import FinishAttempt
from rota.core.vocabulary.facts import NO_FACTS
from rota.node.api.documents.record_views import execution_view, ledger_entry_view, view_of
from rota.wire.documents import AttemptView
from unit.core.shard import Shard, task

FOUR = (task("a"), task("b"), task("c"), task("d", "a"))


@pytest.mark.parametrize(
    ("percents", "ended", "expected"),
    [
        ({}, (), 0),
        ({"a": 50}, (), 12),
        ({"a": 50, "b": 30}, ("c",), 45),
        ({"a": 100, "b": 100, "c": 100}, (), 75),
        ({"a": 7}, ("a", "b", "c"), 75),
    ],
)
def test_each_task_has_an_equal_share_of_the_progress(
    percents: dict[str, int], ended: tuple[str, ...], expected: int
) -> None:
    shard = Shard()
    execution_id = shard.run(*FOUR)

    for name, percent in percents.items():
        shard.report_progress(execution_id, name, percent=percent)
    for name in ended:
        shard.finish(execution_id, name)

    assert execution_progress(shard, execution_id) == expected
    assert job_progress(shard, execution_id) == expected


def test_a_task_that_backs_off_has_no_progress_whatever_its_attempt_reported() -> None:
    shard = Shard()
    execution_id = shard.run(task("a", retry=RetryPolicy(limit=1)), task("b"))
    shard.report_progress(execution_id, "a", percent=90)

    shard.fail(execution_id, "a")

    assert shard.statuses(execution_id)["a"] == "backing_off"
    assert execution_progress(shard, execution_id) == 0


def test_a_task_shows_the_progress_of_its_running_attempt() -> None:
    shard = Shard()
    execution_id = shard.run(*FOUR)
    shard.report_progress(execution_id, "a", percent=90)
    shard.report_progress(execution_id, "b", percent=10)
    shard.finish(execution_id, "a")

    tasks = execution_view(shard.execution(execution_id), shard.state.tasks[execution_id]).tasks

    assert tasks is not None
    assert {name: each.progress for name, each in tasks.items()} == {
        "a": None,
        "b": 10,
        "c": None,
        "d": None,
    }
    assert tasks["a"].attempts[0].progress == 90


def test_a_result_is_shown_as_the_json_that_it_is() -> None:
    shown = attempt_of(Outcome.SUCCEEDED, result=b' {"rows": [1, 2.50]} ')

    assert msgspec.json.decode(msgspec.json.encode(shown))["result"] == {"rows": [1, 2.5]}


def test_an_exception_is_shown_with_its_traceback() -> None:
    raised = Raised(type="a.B", bases=("Exception",), message="no", traceback="Traceback …")

    shown = attempt_of(Outcome.FAILED, raised=raised).error

    assert shown is not None
    assert (shown.type, shown.message, shown.traceback) == ("a.B", "no", "Traceback …")


def test_used_resources_are_shown_in_seconds_and_bytes() -> None:
    counted = attempt_of(
        Outcome.FAILED,
        usage=Usage(cpu=Duration(1_500_000), memory_peak=1 << 20),
        is_out_of_memory=True,
        unenforced=("no cgroup for pids",),
        left_running="a process that it left running was killed: sleep",
    )
    uncounted = attempt_of(Outcome.SUCCEEDED)

    assert (counted.cpu_seconds, counted.memory_peak_bytes) == (1.5, 1 << 20)
    assert (counted.out_of_memory, counted.unenforced) == (True, ["no cgroup for pids"])
    assert counted.left_running == "a process that it left running was killed: sleep"
    assert uncounted.left_running == ""
    assert (uncounted.cpu_seconds, uncounted.memory_peak_bytes) == (None, None)
    assert (uncounted.result, uncounted.error, uncounted.out_of_memory) == (None, None, False)


def test_an_execution_and_a_ledger_entry_that_cannot_be_shown_are_shown_as_broken() -> None:
    shard = Shard()
    execution = shard.execution(shard.run())
    beyond = Instant(LATEST_INSTANT + SECOND)
    entry = LedgerEntry(
        job_id=execution.job_id,
        schedule=0,
        fire_at=Instant(SECOND),
        until=beyond,
        count=2,
        outcome=FireOutcome.MISSED,
        recorded_at=Instant(SECOND),
    )

    shown = execution_view(replace(execution, finished_at=beyond))
    shown_entry = ledger_entry_view(entry, entry.job_id, "default/tick")

    assert "cannot be shown" in shown.broken
    assert (shown.execution_id, shown.finished_at) == (execution.id, format_instant(LATEST_INSTANT))
    assert "cannot be shown" in shown_entry.broken
    assert (shown_entry.job_id, shown_entry.job) == (entry.job_id, "default/tick")
    assert (shown_entry.count, shown_entry.until) == (2, format_instant(LATEST_INSTANT))
    assert execution_view(execution).broken == ""


def execution_progress(shard: Shard, execution_id: ExecutionId) -> int:
    return execution_view(shard.execution(execution_id), shard.state.tasks[execution_id]).progress


def job_progress(shard: Shard, execution_id: ExecutionId) -> int | None:
    job = shard.state.jobs[shard.execution(execution_id).job_id]
    return view_of(shard.state, job, NO_FACTS).progress


def attempt_of(
    outcome: Outcome,
    *,
    result: bytes = b"",
    raised: Raised | None = None,
    usage: Usage | None = None,
    is_out_of_memory: bool = False,
    unenforced: tuple[str, ...] = (),
    left_running: str = "",
) -> AttemptView:
    """Return how the only attempt of an execution is shown after such an end."""
    shard = Shard()
    execution_id = shard.run()
    report = shard.report(execution_id)
    ending = Ending(
        outcome=outcome,
        started_at=shard.clock,
        finished_at=shard.clock,
        result=result,
        raised=raised,
        usage=usage,
        is_out_of_memory=is_out_of_memory,
        unenforced=unenforced,
        left_running=left_running,
    )
    shard.do(FinishAttempt(attempt=report.attempt, token=report.token, ending=ending))
    shown = execution_view(shard.execution(execution_id), {"main": shard.task(execution_id)})
    assert shown.tasks is not None
    return shown.tasks["main"].attempts[0]
