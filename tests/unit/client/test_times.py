"""Times in options: RFC 3339, local, or a duration before now."""

import time
from collections.abc import Iterator

import click
import pytest

from rota.client.cli.inputs import options
from rota.client.cli.inputs.options import as_time
from rota.core.timing.instants import parse_instant

CONTEXT = click.Context(click.Command("test"))
OPTION = click.Option(["--since"])


@pytest.fixture(autouse=True)
def _in_berlin_at_noon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let it be noon of a winter day in Berlin, one hour ahead of UTC."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    monkeypatch.setattr(options, "now", lambda: parse_instant("2026-11-23T11:00:00Z"))
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-11-23T10:00:00Z", "2026-11-23T10:00:00Z"),
        ("2026-11-23T10:00:00+02:00", "2026-11-23T08:00:00Z"),
        ("09:30", "2026-11-23T08:30:00Z"),
        ("2026-07-01 09:30", "2026-07-01T07:30:00Z"),
        ("2026-07-01T09:30:15", "2026-07-01T07:30:15Z"),
        ("2026-11-20", "2026-11-19T23:00:00Z"),
        ("90m", "2026-11-23T09:30:00Z"),
        ("2d", "2026-11-21T11:00:00Z"),
    ],
)
def test_a_time_has_several_forms(text: str, instant: str) -> None:
    found = as_time(CONTEXT, OPTION, text)

    assert found is not None
    assert parse_instant(found) == parse_instant(instant)


@pytest.mark.parametrize(
    "text", ["12", "25:00", "2026-13-01", "yesterday", "-2d", "", "1969-01-01"]
)
def test_other_texts_are_refused_with_all_forms(text: str) -> None:
    with pytest.raises(click.BadParameter, match="nor a local time such as 14:30") as refused:
        as_time(CONTEXT, OPTION, text)

    assert "2027-01-01T00:00:00Z" in str(refused.value)
    assert "90m" in str(refused.value)
