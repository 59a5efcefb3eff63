"""Coming fire times as an iCalendar file."""

from datetime import date

import pytest
from msgspec.structs import replace

from rota.client.cli.files.ical_feed import feed, folded
from rota.client.imports.drafts import Source
from rota.client.imports.ical_lines import read_events
from rota.core.timing.instants import parse_instant
from rota.wire.documents import NextFireView

NOW = parse_instant("2026-11-29T12:00:00Z")


def fire(at: str, note: str = "", excluded: str = "") -> NextFireView:
    """Return a fire time."""
    return NextFireView(at=at, local="", schedule=0, note=note, excluded=excluded)


def test_each_fire_time_is_an_event_in_utc() -> None:
    text = feed([("default/report", [fire("2027-01-01T03:30:00.000000Z", "a, b; c\\d")])], NOW)

    assert text.split("\r\n") == [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//rota//next//EN",
        "BEGIN:VEVENT",
        "UID:20270101T033000Z-0-default/report@rota",
        "DTSTAMP:20261129T120000Z",
        "DTSTART:20270101T033000Z",
        "SUMMARY:default/report",
        "DESCRIPTION:a\\, b\\; c\\\\d",
        "END:VEVENT",
        "END:VCALENDAR",
        "",
    ]


def test_excluded_times_are_left_out_and_others_have_ids_of_their_own() -> None:
    at = "2027-01-01T03:30:00.000000Z"
    excluded = fire("2027-01-02T03:30:00.000000Z", excluded="in calendar x")
    text = feed([("a/b", [fire(at), excluded]), ("a/c", [fire(at)])], NOW)

    _, events = read_events(Source("feed", text))

    assert len({each.text("UID") for each in events}) == len(events) == 2
    assert date.fromisoformat(events[0].text("DTSTART")[:8]) == date(2027, 1, 1)


@pytest.mark.parametrize("line", ["", "x" * 75, "x" * 76, "x" * 400, "ü" * 200, "x" + "🙂" * 90])
def test_lines_are_folded_between_characters(line: str) -> None:
    parts = list(folded(line))

    assert max(len(part.encode()) for part in parts) <= 75
    assert parts[0] + "".join(part[1:] for part in parts[1:]) == line
    assert all(part[0] == " " for part in parts[1:])


def test_a_fire_that_is_deferred_is_at_its_start() -> None:
    start = "2027-01-04T07:00:00.000000Z"
    late = replace(fire("2027-01-02T03:30:00.000000Z"), starts_at=start)

    text = feed([("a/b", [late])], NOW)

    assert "DTSTART:20270104T070000Z\r\n" in text
    assert "UID:20270102T033000Z-0-a/b@rota\r\n" in text
