"""What is said about the output of an attempt."""

import pytest

from rota.client.cli.jobs.output_notes import ENDING_BYTES, about_steps, note_about
from rota.wire.documents import AttemptView, ExecutionView, StepsView, TaskView

TRACEBACK = b"Traceback (most recent call last):\n  ...\nValueError: no figures\n"
STARTED = "2027-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("outcome", "reason", "content", "note"),
    [
        pytest.param(None, "", b"so far", "", id="running"),
        pytest.param(None, "", b"", "no output yet; follow it with --follow", id="nothing yet"),
        pytest.param("success", "", b"", "no output", id="silent"),
        pytest.param("success", "resumed", b"done", "", id="success"),
        pytest.param("failed", "ValueError: no figures", TRACEBACK, "", id="traceback"),
        pytest.param(
            "failed", "exited with code 3", b"x", "failed: exited with code 3", id="untold"
        ),
        pytest.param(
            "failed", "exited with code 3", b"", "no output (failed: exited with code 3)", id="none"
        ),
        pytest.param(
            "failed",
            "E: early",
            b"E: early" + b"." * ENDING_BYTES,
            "failed: E: early",
            id="long before the end",
        ),
    ],
)
def test_the_reason_of_a_failure_is_said_unless_the_output_ends_with_it(
    outcome: str | None, reason: str, content: bytes, note: str
) -> None:
    attempt = AttemptView(
        number=1, node_id="n1", token="0" * 32, started_at=STARTED, outcome=outcome, reason=reason
    )

    assert note_about(attempt, content) == note


def looped(status: str, *steps: str, reason: str = "") -> ExecutionView:
    """Return an execution with the loop ``b`` and its steps."""
    loop = TaskView(status=status, attempts=[], reason=reason, steps=StepsView(3, 0, 0, 0, 0))
    tasks = {"b": loop, "bb[0]": TaskView(status="success", attempts=[])}
    tasks |= {name: TaskView(status="success", attempts=[]) for name in steps}
    return ExecutionView(
        execution_id="E", job_id="J", job="default/a", job_version=1, status=status,
        trigger="manual", fire_time="", queued_at="", tasks=tasks,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("execution", "name", "said"),
    [
        (
            looped("success", "b[0]", "b[1]"),
            "b",
            "steps have the output: b[0], b[1]; show one with: rota output E 'b[0]'",
        ),
        (looped("running", *(f"b#{n}" for n in range(12))), "b", "b#8, b#9 and 2 more; show one"),
        (looped("skipped", reason="there are no items"), "b", "without steps: there are no items"),
        (looped("success", "b[0]"), "b[0]", ""),
        (looped("success", "b[0]"), "c", ""),
    ],
)
def test_the_steps_of_a_loop_are_named(execution: ExecutionView, name: str, said: str) -> None:
    found = about_steps(execution, name)

    assert said in found
    assert bool(said) == bool(found)
