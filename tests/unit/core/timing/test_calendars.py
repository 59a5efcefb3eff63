"""Calendars: sets of local times, and the stretches of time that they exclude."""

from datetime import date
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.timing.calendars import Calendar, Exclusion, Window, circle_of, next_permitted
from rota.core.timing.instants import MINUTE, Instant, format_instant, parse_instant
from rota.core.timing.schedule import parse_schedule

WEEKEND = Calendar(name="weekend", weekdays=0b110_0000)
NIGHT = Calendar(name="night", windows=(Window(start=22 * 60, end=6 * 60),))
LUNCH = Calendar(name="lunch", windows=(Window(start=720, end=780, weekdays=0b001_1111),))
FRIDAY = 0b001_0000


def day(text: str) -> int:
    """Return the ordinal of a date."""
    return date.fromisoformat(text).toordinal()


def exclusion(*calendars: Calendar, zone: str = "UTC", **fields: Any) -> Exclusion:
    """Return what excludes the times of all *calendars*, unless *fields* say otherwise."""
    by_name = {each.name: each for each in calendars}
    if not fields:
        fields["unless"] = tuple(by_name)
    return Exclusion(calendars=by_name, zone=ZoneInfo(zone), **fields)


def at(text: str) -> Instant:
    """Return an instant of RFC 3339, in UTC unless it has an offset."""
    return parse_instant(text if text[-6] in "+-" else f"{text}Z")


@pytest.mark.parametrize(
    ("calendar", "covered", "free"),
    [
        (WEEKEND, "2027-01-02T00:00:00", "2027-01-04T00:00:00"),
        (WEEKEND, "2027-01-03T23:59:59", "2027-01-01T23:59:59"),
        (NIGHT, "2027-01-01T22:00:00", "2027-01-01T21:59:59"),
        (NIGHT, "2027-01-01T05:59:59", "2027-01-01T06:00:00"),
        (LUNCH, "2027-01-01T12:30:00", "2027-01-02T12:30:00"),
        (Calendar(name="x", dates=frozenset({day("2027-12-24")})),
         "2027-12-24T12:00:00", "2028-12-24T12:00:00"),
        (Calendar(name="x", yearly=frozenset({(12, 24)})),
         "2028-12-24T12:00:00", "2028-12-25T00:00:00"),
        (Calendar(name="x", month_days=(1,)), "2027-02-01T12:00:00", "2027-02-28T12:00:00"),
        (Calendar(name="x", month_days=(-1,)), "2028-02-29T12:00:00", "2028-02-28T12:00:00"),
        (Calendar(name="x", month_days=(-3,)), "2027-12-29T12:00:00", "2027-12-31T12:00:00"),
        (Calendar(name="x", windows=(Window(start=1320, end=360, weekdays=FRIDAY),)),
         "2027-01-02T05:00:00", "2027-01-01T05:00:00"),
        (Calendar(name="x", windows=(Window(start=360, end=360),)),
         "2027-01-02T05:00:00", "never"),
    ],
)  # fmt: skip
def test_a_calendar_has_whole_local_days_and_windows(
    calendar: Calendar, covered: str, free: str
) -> None:
    rule = exclusion(calendar)

    assert rule.why(at(covered)) == f"in calendar {calendar.name} (version 1)"
    assert free == "never" or not rule.why(at(free))


def test_local_times_are_those_of_the_calendar_or_else_of_the_schedule() -> None:
    here, there = (
        exclusion(WEEKEND, zone="Asia/Tokyo"),
        exclusion(
            Calendar(name="weekend", weekdays=0b110_0000, timezone="America/New_York"),
            zone="Asia/Tokyo",
        ),
    )
    friday_evening = at("2027-01-01T16:00:00")  # Saturday 01:00 in Tokyo, 11:00 in New York

    assert here.why(friday_evening)
    assert not there.why(friday_evening)


def test_a_calendar_includes_others_and_leaves_out_others() -> None:
    shop = Calendar(name="shop", includes=("weekend", "night"), excludes=("lunch",))
    late_lunch = Calendar(name="lunch", windows=(Window(start=720, end=780),))
    rule = exclusion(shop, WEEKEND, NIGHT, late_lunch, unless=("shop",))

    assert rule.why(at("2027-01-02T11:00:00"))
    assert rule.why(at("2027-01-04T23:00:00"))
    assert not rule.why(at("2027-01-02T12:30:00"))


def test_only_calendars_permit_their_times_alone() -> None:
    rule = exclusion(WEEKEND, NIGHT, only=("weekend", "night"))

    assert not rule.why(at("2027-01-02T12:00:00"))
    assert not rule.why(at("2027-01-04T23:00:00"))
    reason = "not in calendar weekend (version 1) or night (version 1)"
    assert rule.why(at("2027-01-04T12:00:00")) == reason


def test_a_missing_calendar_is_empty_and_named() -> None:
    assert not exclusion(unless=("gone",)).why(at("2027-01-04T12:00:00"))
    reason = "not in calendar gone, which is missing"
    assert exclusion(only=("gone",)).why(at("2027-01-04T12:00:00")) == reason
    assert exclusion(only=("gone",)).ends_at(at("2027-01-04T12:00:00")) is None


def test_a_blackout_has_a_reason_of_its_own() -> None:
    rule = exclusion(WEEKEND, blackouts=("weekend",))

    assert rule.why(at("2027-01-02T12:00:00")) == "blackout: calendar weekend (version 1)"


@pytest.mark.parametrize(
    ("zone", "inside", "begin", "end"),
    [
        ("UTC", "2027-01-02T12:00:00", "2027-01-01T22:00:00", "2027-01-04T06:00:00"),
        ("Europe/Berlin", "2027-03-28T12:00:00", "2027-03-26T21:00:00", "2027-03-29T04:00:00"),
    ],
)
def test_a_stretch_reaches_from_edge_to_edge(zone: str, inside: str, begin: str, end: str) -> None:
    rule = exclusion(WEEKEND, NIGHT, zone=zone)

    ends, begins = rule.ends_at(at(inside)), rule.begins_at(at(inside))

    assert ends is not None
    assert begins is not None
    assert (format_instant(begins)[:19], format_instant(ends)[:19]) == (begin, end)


def test_a_stretch_of_years_has_no_end() -> None:
    always = Calendar(name="always", weekdays=0b111_1111)

    assert exclusion(always).ends_at(at("2027-01-02T12:00:00")) is None
    assert exclusion(always).begins_at(at("2027-01-02T12:00:00")) is None


def test_a_circle_of_calendars_is_found_and_does_not_hang() -> None:
    a = Calendar(name="a", includes=("b",), weekdays=1)
    b = Calendar(name="b", excludes=("a",), weekdays=2)

    assert circle_of({"a": a, "b": b}, "a") == ("a", "b", "a")
    assert circle_of({"a": a}, "a") == ()
    exclusion(a, b).why(at("2027-01-02T12:00:00"))


def test_a_chain_that_is_too_long_is_found() -> None:
    chain = {f"c{n}": Calendar(name=f"c{n}", includes=(f"c{n + 1}",)) for n in range(20)}

    assert len(circle_of(chain, "c0")) > 8


ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia")


@st.composite
def calendars(draw: st.DrawFn) -> Calendar:
    """Draw a calendar of weekdays, days and windows around a change of clocks."""
    minutes = st.integers(0, 95).map(lambda quarter: quarter * 15)
    windows = st.builds(Window, start=minutes, end=minutes, weekdays=st.integers(0, 0b111_1111))
    return Calendar(
        name="drawn",
        weekdays=draw(st.sampled_from((0, 0b110_0000, 0b101_0101))),
        month_days=draw(st.sampled_from(((), (1, -1), (28,)))),
        windows=tuple(draw(st.lists(windows, max_size=2))),
        timezone=draw(st.sampled_from(("", *ZONES))),
    )


@given(
    calendar=calendars(),
    zone=st.sampled_from(ZONES),
    start=st.integers(0, 20 * 24 * 60),
    is_only=st.booleans(),
)
def test_a_stretch_has_the_edges_that_a_search_minute_by_minute_finds(
    calendar: Calendar, zone: str, start: int, is_only: bool
) -> None:
    fields = {"only": ("drawn",)} if is_only else {"unless": ("drawn",)}
    rule = exclusion(calendar, zone=zone, **fields)
    instant = Instant(at("2027-03-20T00:00:00") + start * MINUTE)
    if not rule.why(instant):
        return

    ends, begins = rule.ends_at(instant), rule.begins_at(instant)

    limit = 12 * 24 * 60
    later = (n for n in range(1, limit) if not rule.why(Instant(instant + n * MINUTE)))
    earlier = (n for n in range(1, limit) if not rule.why(Instant(instant - n * MINUTE)))
    first_free, last_free = next(later, None), next(earlier, None)
    if first_free is not None:
        assert ends == instant + first_free * MINUTE
    else:
        assert ends is None or ends >= instant + limit * MINUTE
    if last_free is not None:
        assert begins == instant - (last_free - 1) * MINUTE


def test_a_job_that_its_calendar_never_permits_is_found_out_soon() -> None:
    workdays = exclusion(Calendar(name="workdays", weekdays=0b001_1111), only=("workdays",))
    morning = Window(start=600, end=601)
    minute = exclusion(Calendar(name="minute", windows=(morning,)), only=("minute",))

    now = at("2027-01-01T10:30:00")
    assert next_permitted(parse_schedule("0 3 * * SUN"), workdays, now) is None
    assert next_permitted(parse_schedule("30 10 * * *"), minute, now) is None
    assert next_permitted(parse_schedule("0 10 * * *"), minute, now) is not None


def test_calendars_that_include_each_other_many_times_are_evaluated_once_each() -> None:
    names = [[f"c{level}-{number}" for number in range(12)] for level in range(8)]
    nested = {
        name: Calendar(name=name, includes=tuple(names[level + 1]) if level < 7 else ())
        for level in range(8)
        for name in names[level]
    }
    rule = Exclusion(calendars=nested, zone=ZoneInfo("UTC"), unless=("c0-0",))

    assert not rule.why(at("2027-01-02T11:00:00"))
    assert circle_of(nested, "c0-0") == ()


def test_a_stretch_ends_at_the_first_free_instant_of_calendars_of_several_zones() -> None:
    evening = Window(start=23 * 60, end=24 * 60 - 30)
    far = Calendar(name="far", windows=(evening,), timezone="Pacific/Honolulu")
    friday = Calendar(name="friday", weekdays=FRIDAY)

    both = exclusion(far, friday)

    assert both.ends_at(at("2027-01-01T23:10:00")) == at("2027-01-02T00:00:00")
