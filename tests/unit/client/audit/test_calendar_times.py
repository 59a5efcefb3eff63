"""The second implementation of calendars agrees with that of the nodes."""

from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.client.cli.audit.calendar_times import CalendarTimes
from rota.core.timing.calendars import Exclusion
from rota.core.timing.instants import DAY, SECOND, Instant, parse_instant
from rota.wire.bodies.calendar_bodies import calendar_of
from rota.wire.documents import CalendarBody, DocumentView

START = parse_instant("2028-02-26T00:00:00Z")
WEEKDAYS = st.lists(
    st.sampled_from(["MON", "Tuesday", "SAT-SUN", "FRI-MON", "wed-thu"]), max_size=2
)
CLOCK = st.builds("{:02}:{:02}".format, st.integers(0, 23), st.sampled_from([0, 1, 30, 59]))
DATES = ["2028-02-29", "02-29", "03-26", "2028-03-01..2028-03-05", "2028-12-31"]
Members = dict[str, st.SearchStrategy[Any]]
WINDOW: Members = {
    "start": CLOCK,
    "end": st.one_of(CLOCK, st.just("24:00")),
    "weekdays": WEEKDAYS,
}
NOTHING: Members = {}
FIELDS: Members = {
    "dates": st.lists(st.sampled_from(DATES), max_size=2),
    "weekdays": WEEKDAYS,
    "monthDays": st.lists(st.sampled_from([1, 2, 15, 29, 31, -1, -2, -29]), max_size=2),
    "windows": st.lists(st.fixed_dictionaries(WINDOW), max_size=2),
    "nth": st.lists(st.sampled_from([1, 2, 3, -1, -2, 20]), max_size=3),
    "timezone": st.sampled_from(["", "Europe/Berlin", "Pacific/Apia"]),
}
BODIES = st.fixed_dictionaries(NOTHING, optional=FIELDS)


def document(name: str, definition: dict[str, Any]) -> DocumentView:
    """Return the document of a calendar."""
    return DocumentView(
        kind="calendars",
        name=name,
        version=1,
        definition=definition,
        changed_at="2027-01-01T00:00:00Z",
        changed_by="alice",
    )


@settings(max_examples=150, deadline=None)
@given(
    bodies=st.tuples(BODIES, BODIES, BODIES),
    offset=st.integers(0, 60 * DAY // SECOND),
    zone=st.sampled_from(["UTC", "America/New_York"]),
)
def test_a_time_is_in_the_same_calendars(
    bodies: tuple[dict[str, Any], ...], offset: int, zone: str
) -> None:
    one, other, third = bodies
    documents = [
        document("one", {**one, "includes": ["other"], "excludes": ["third"]}),
        document("other", other),
        document("third", third),
    ]
    calendars = {
        each.name: calendar_of(each.name, 1, msgspec.convert(each.definition, CalendarBody))
        for each in documents
    }
    instant = Instant(START + offset * SECOND)

    core = Exclusion(calendars=calendars, zone=ZoneInfo(zone), unless=("one",)).why(instant)

    assert CalendarTimes(documents).has("one", instant, ZoneInfo(zone)) == bool(core)


def test_a_calendar_that_does_not_exist_has_no_times() -> None:
    assert not CalendarTimes([]).has("gone", START, ZoneInfo("UTC"))


@pytest.mark.parametrize(("namespace", "names"), [("shop", ["a", "b"]), ("bank", ["b"])])
def test_blackouts_are_those_of_the_namespace_and_of_all(namespace: str, names: list[str]) -> None:
    times = CalendarTimes(
        [
            document("a", {"blackoutOf": ["shop"]}),
            document("b", {"blackoutOf": ["*"]}),
            document("c", {}),
        ]
    )

    assert times.blackouts_of(namespace) == names
    assert times.used_by(["a", "gone"]) == {"a", "gone"}
