"""What a change of calendars does to fire times."""

from collections.abc import Iterable
from datetime import date
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from rota.core.timing.calendar_changes import (
    Allowance,
    ChangedFires,
    Searched,
    Stretch,
    changed_fires,
    changed_stretches,
)
from rota.core.timing.calendars import Calendar, Deferral, Exclusion, Window
from rota.core.timing.instants import HOUR, Instant, format_instant, parse_instant
from rota.core.timing.schedule import fire_times, parse_schedule

SINCE, UNTIL = parse_instant("2027-03-01T00:30:00Z"), parse_instant("2027-03-15T00:30:00Z")
ENOUGH = 10_000
WEEKEND = Calendar(name="free", weekdays=0b110_0000)
HOLIDAY = Calendar(name="free", dates=frozenset({date(2027, 3, 5).toordinal()}))
NIGHT = Calendar(name="free", windows=(Window(start=22 * 60, end=6 * 60),))
ZONED = Calendar(name="free", weekdays=0b110_0000, timezone="Pacific/Honolulu")
NONE = Calendar(name="free")


def without(calendar: Calendar, *others: Calendar) -> Exclusion:
    """Return what excludes the times of a calendar."""
    by_name = {each.name: each for each in (calendar, *others)}
    return Exclusion(calendars=by_name, zone=ZoneInfo("Europe/Berlin"), unless=(calendar.name,))


def stretches(
    before: Exclusion | None, after: Exclusion | None, steps: int = ENOUGH
) -> list[Stretch]:
    """Return the stretches of two weeks in which the exclusions differ."""
    steps_made = changed_stretches(before, after, SINCE, UNTIL, Allowance(steps))
    while True:
        try:
            next(steps_made)
        except StopIteration as end:
            found: list[Stretch] = end.value
            return found


def changes(
    text: str, before: Exclusion | None, after: Exclusion | None, *, most: int = ENOUGH
) -> ChangedFires:
    """Return the changed fire times of a schedule."""
    schedule = parse_schedule(text, "Europe/Berlin")
    searched = Searched(schedule, stretches(before, after))
    return changed_fires([searched], SINCE, most, Allowance(ENOUGH))


def texts(times: Iterable[Instant]) -> list[str]:
    """Return instants as text without seconds."""
    return [format_instant(each)[:16] for each in times]


def test_a_new_holiday_drops_the_fires_of_its_local_day() -> None:
    found = changes("0 */12 * * *", without(NONE), without(HOLIDAY))

    assert texts(found.dropped) == ["2027-03-04T23:00", "2027-03-05T11:00"]
    assert (found.added, found.is_whole) == ([], True)


def test_fires_go_and_come_when_a_calendar_is_replaced() -> None:
    found = changes("0 12 * * *", without(WEEKEND), without(HOLIDAY))

    assert texts(found.dropped) == ["2027-03-05T11:00"]
    assert texts(found.added) == [f"2027-03-{day:02}T11:00" for day in (6, 7, 13, 14)]


def test_a_calendar_changes_those_that_include_it() -> None:
    business = Calendar(name="shop", includes=("free",))

    found = changes("0 12 * * *", without(business, NONE), without(business, HOLIDAY))

    assert texts(found.dropped) == ["2027-03-05T11:00"]


def test_days_that_follow_each_other_are_one_stretch() -> None:
    [one, other] = stretches(None, without(WEEKEND))

    assert one.end - one.start == other.end - other.start == 48 * HOUR
    assert not one.is_permitted


@pytest.mark.parametrize("most", [1, 20])
def test_of_a_dense_schedule_the_first_fires_are_given(most: int) -> None:
    found = changes("* * * * * *", None, without(WEEKEND), most=most)

    assert (len(found.dropped), found.is_whole) == (most, False)


def test_a_search_ends_with_its_steps() -> None:
    schedule = parse_schedule("0 12 * * *")
    all_stretches = stretches(None, without(WEEKEND))

    found = changed_fires([Searched(schedule, all_stretches)], SINCE, 20, Allowance(2))

    assert (len(found.dropped), found.is_whole) == (2, False)
    assert stretches(None, without(WEEKEND), steps=3) == []


@given(
    st.sampled_from([WEEKEND, HOLIDAY, NIGHT, ZONED, NONE]),
    st.sampled_from([WEEKEND, HOLIDAY, NIGHT, ZONED, NONE]),
    st.sampled_from(["0 * * * *", "30 5,22 * * *", "0 0 * * SAT", "@every 7h"]),
)
def test_the_changes_are_those_of_a_comparison_of_each_fire(
    one: Calendar, other: Calendar, text: str
) -> None:
    before, after = without(one), without(other)
    schedule = parse_schedule(text, "Europe/Berlin")
    all_times = fire_times(schedule, SINCE, UNTIL, ENOUGH)

    found = changes(text, before, after)

    def of(is_permitted: bool) -> list[Instant]:
        return [
            at
            for at in all_times
            if bool(before.why(at)) is is_permitted and bool(after.why(at)) is not is_permitted
        ]

    assert (found.dropped, found.added) == (of(False), of(True))


@given(
    st.sampled_from([WEEKEND, HOLIDAY, NIGHT, ZONED, NONE]),
    st.sampled_from([WEEKEND, HOLIDAY, NIGHT, ZONED, NONE]),
    st.sampled_from(["0 * * * *", "30 5,22 * * *", "0 0 * * SAT", "@every 7h", "30 3 * * *"]),
    st.booleans(),
)
def test_of_fires_that_can_be_made_up_for_those_are_given_that_start_only_before_or_after(
    one: Calendar, other: Calendar, text: str, is_next_day: bool
) -> None:
    before, after = without(one), without(other)
    schedule = parse_schedule(text, "Europe/Berlin")
    deferrals = tuple(
        Deferral(**asdict(each), schedule=schedule, is_next_day=is_next_day)
        for each in (before, after)
    )
    searched = Searched(schedule, stretches(before, after), (deferrals[0], deferrals[1]))

    found = changed_fires([searched], SINCE, ENOUGH, Allowance(100 * ENOUGH))

    all_times = fire_times(schedule, SINCE, UNTIL, ENOUGH)
    starts = [[not each.why(at) for each in deferrals] for at in all_times]
    assert found.dropped == [
        at for at, pair in zip(all_times, starts, strict=True) if pair == [True, False]
    ]
    assert found.added == [
        at for at, pair in zip(all_times, starts, strict=True) if pair == [False, True]
    ]
