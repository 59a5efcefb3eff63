"""Error messages and hints of the command line."""

import pytest

from rota.client.cli.failures import report
from rota.client.errors import Invalid, Unreachable
from rota.client.transport.endpoints import DEFAULT_URL
from rota.core.errors import RotaError
from rota.wire.documents import ProblemView


def hint(error: RotaError, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the hint that is printed after the error."""
    report(error)
    _, text = capsys.readouterr().err.splitlines()
    return text


def test_a_node_of_ones_own_is_advised_where_none_was_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    refused = f"no answer from {DEFAULT_URL}: Connection refused"

    assert "rota dev" in hint(Unreachable(refused, may_have_arrived=False), capsys)


@pytest.mark.parametrize(
    ("detail", "may_have_arrived"),
    [
        ("no answer from http://10.0.0.11:7400: Connection refused", False),
        (f"no answer from {DEFAULT_URL}: it took too long", True),
        (f"no answer from http://10.0.0.11:7400: refused; no answer from {DEFAULT_URL}: x", False),
    ],
)
def test_no_node_of_ones_own_is_advised_where_a_cluster_does_not_answer(
    detail: str,
    may_have_arrived: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    advice = hint(Unreachable(detail, may_have_arrived=may_have_arrived), capsys)

    assert "rota dev" not in advice
    assert "--url" in advice


def test_the_refusal_of_an_instant_that_has_passed_names_the_option(
    capsys: pytest.CaptureFixture[str],
) -> None:
    problem = ProblemView(
        type="", title="Past schedule", status=422, code="past_schedule", detail="it has passed"
    )

    assert "`--misfire latest` runs it at once" in hint(Invalid(problem), capsys)
