"""What ``rota executions show`` prints besides the table's usual columns."""

import pytest

from rota.client.cli.execution_views import print_execution
from rota.client.wire import AttemptView, ErrorView, ExecutionView, TaskView

AT = "2027-01-04T12:00:00.000000Z"
TRACEBACK = 'Traceback (most recent call last):\n  File "x.py", line 1\nValueError: \x1b[31mno\n'


def test_a_running_attempt_shows_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    running = AttemptView(number=1, node_id="n", token="t", started_at=AT, progress=40)

    print_execution(execution_of(running))

    assert "40% done" in capsys.readouterr().out


def test_what_could_not_be_enforced_is_told_below(capsys: pytest.CaptureFixture[str]) -> None:
    ended = ended_attempt(unenforced=["the limit of pids: no cgroup"], out_of_memory=True)

    print_execution(execution_of(ended))

    assert capsys.readouterr().out.splitlines()[-2:] == [
        "main, attempt 1: its limit of memory ended it",
        "main, attempt 1: not enforced: the limit of pids: no cgroup",
    ]


def test_a_traceback_is_printed_and_cannot_steer_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ended = ended_attempt(error=ErrorView(type="ValueError", message="no", traceback=TRACEBACK))

    print_execution(execution_of(ended))

    assert capsys.readouterr().out.splitlines()[-5:] == [
        "",
        "main, attempt 1:",
        "Traceback (most recent call last):",
        '  File "x.py", line 1',
        "ValueError:  [31mno",
    ]


def test_an_ordinary_end_has_nothing_below_its_row(capsys: pytest.CaptureFixture[str]) -> None:
    print_execution(execution_of(ended_attempt()))

    assert capsys.readouterr().out.splitlines()[-1].startswith("main  failed")


def ended_attempt(
    *,
    unenforced: list[str] | None = None,
    out_of_memory: bool = False,
    error: ErrorView | None = None,
) -> AttemptView:
    return AttemptView(
        number=1,
        node_id="n",
        token="t",
        started_at=AT,
        finished_at=AT,
        outcome="failed",
        reason="exited with code 1",
        unenforced=unenforced or [],
        out_of_memory=out_of_memory,
        error=error,
    )


def execution_of(attempt: AttemptView) -> ExecutionView:
    return ExecutionView(
        execution_id="x",
        job_id="j",
        job="default/job",
        job_version=1,
        status="running",
        trigger="manual",
        fire_time=AT,
        queued_at=AT,
        started_at=AT,
        tasks={"main": TaskView(status=attempt.outcome or "running", attempts=[attempt])},
    )
