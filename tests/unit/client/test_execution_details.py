"""Output of ``rota executions show`` beside the table's usual columns."""

import re
from typing import Any

import msgspec
import pytest

from rota.client.cli.display.progress import ending
from rota.client.cli.jobs.execution_views import print_execution
from rota.wire.documents import AttemptView, ErrorView, ExecutionView, TaskView

AT = "2027-01-04T12:00:00.000000Z"
TRACEBACK = 'Traceback (most recent call last):\n  File "x.py", line 1\nValueError: \x1b[31mno\n'


def test_a_running_attempt_shows_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    running = AttemptView(number=1, node_id="n", token="t", started_at=AT, progress=40)

    print_execution(execution_of(running))

    assert "40% done" in capsys.readouterr().out


def test_limits_that_could_not_be_enforced_are_listed_below(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ended = ended_attempt(unenforced=["the limit of pids: no cgroup"], out_of_memory=True)

    print_execution(execution_of(ended))

    assert capsys.readouterr().out.splitlines()[-2:] == [
        "main, attempt 1: ended by its memory limit",
        "main, attempt 1: not enforced: the limit of pids: no cgroup",
    ]


def test_processes_that_it_left_running_are_listed_below(
    capsys: pytest.CaptureFixture[str],
) -> None:
    left = "a process that it left running was killed: sleep"

    print_execution(execution_of(ended_attempt(left_running=left)))

    assert capsys.readouterr().out.splitlines()[-1] == f"main, attempt 1: {left}"


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
        "ValueError: \\x1b[31mno",
    ]


def test_the_lack_of_memory_is_not_reported_twice(capsys: pytest.CaptureFixture[str]) -> None:
    ended = ended_attempt(out_of_memory=True, reason="out of memory: it reached its limit")

    print_execution(execution_of(ended))

    assert capsys.readouterr().out.count("memory") == 1


def test_used_resources_are_in_the_row(capsys: pytest.CaptureFixture[str]) -> None:
    print_execution(execution_of(ended_attempt(cpu_seconds=1.25, memory_peak_bytes=3 << 20)))

    titles, row = capsys.readouterr().out.splitlines()[-2:]
    assert titles.split()[-3:] == ["CPU", "MEMORY", "REASON"]
    assert row[titles.index("CPU") :].split()[:2] == ["1.2s", "3.0MiB"]


def test_columns_without_values_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    print_execution(execution_of(ended_attempt()))

    assert not {"CPU", "MEMORY"} & set(capsys.readouterr().out.split())


def test_a_result_is_shown_and_a_long_one_cut(capsys: pytest.CaptureFixture[str]) -> None:
    print_execution(execution_of(ended_attempt(result={"rows": 3})))
    short = capsys.readouterr().out.splitlines()[-1]
    print_execution(execution_of(ended_attempt(result="x" * 100_000)))
    long = capsys.readouterr().out.splitlines()[-1]

    assert short == 'main, attempt 1: result {"rows":3}'
    assert len(long) < 500
    assert long.endswith("xxx ... (98KiB; all of it with -o json)")


def test_parameters_are_shown_and_long_ones_cut(capsys: pytest.CaptureFixture[str]) -> None:
    plain = execution_of(ended_attempt())

    print_execution(msgspec.structs.replace(plain, parameters={"day": "2027-01-04"}))
    short = capsys.readouterr().out
    print_execution(msgspec.structs.replace(plain, parameters="x" * 100_000))
    long = capsys.readouterr().out
    print_execution(plain)

    assert re.search(r'^parameters +{"day":"2027-01-04"}$', short, re.MULTILINE)
    assert re.search(r"^parameters .*xxx \.\.\. \(98KiB; all of it with", long, re.MULTILINE)
    assert "parameters" not in capsys.readouterr().out


def test_the_lateness_is_not_shown_before_the_first_attempt_has_ended(
    capsys: pytest.CaptureFixture[str],
) -> None:
    running = AttemptView(number=1, node_id="n", token="t", started_at=AT)

    print_execution(execution_of(running))
    before = capsys.readouterr().out
    print_execution(execution_of(ended_attempt()))
    after = capsys.readouterr().out

    assert re.search(r"^late +-$", before, re.MULTILINE)
    assert re.search(r"^late +0.0ms$", after, re.MULTILINE)


@pytest.mark.parametrize("outcome", ["cancelled", "lost"])
def test_the_reason_of_an_attempts_end_is_shown(outcome: str) -> None:
    ended = ended_attempt(outcome=outcome, reason="its node had no right to it any more")

    assert ending(ended) == f"{outcome} (its node had no right to it any more)"


def test_an_ordinary_end_has_nothing_below_its_row(capsys: pytest.CaptureFixture[str]) -> None:
    print_execution(execution_of(ended_attempt()))

    assert capsys.readouterr().out.splitlines()[-1].startswith("main  failed")


def ended_attempt(**fields: Any) -> AttemptView:  # Any: fields of all types.
    """Return an attempt that failed, but for *fields*."""
    failed = AttemptView(
        number=1,
        node_id="n",
        token="t",
        started_at=AT,
        finished_at=AT,
        outcome="failed",
        reason="exited with code 1",
    )
    return msgspec.structs.replace(failed, **fields)


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
        lateness_ms=0.0,
        tasks={"main": TaskView(status=attempt.outcome or "running", attempts=[attempt])},
    )
