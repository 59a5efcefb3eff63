"""What is said about the output of an attempt."""

import pytest

from rota.client.cli.jobs.output_notes import ENDING_BYTES, note_about
from rota.wire.documents import AttemptView

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
