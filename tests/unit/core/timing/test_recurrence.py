"""Recurrence rules of iCalendar on whole days."""

from datetime import date, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.core.timing.recurrence import Work, occurrences, parse_rule, recurring_times

dateutil: Any = pytest.importorskip("dateutil.rrule")  # Any: it has no types.
LAST = date(2029, 12, 31)
WALL = datetime.fromisoformat


def texts(rule: str, start: str, last: str = "2028-12-31") -> list[str]:
    """Return the days of a rule as text."""
    found = occurrences(
        parse_rule(rule), date.fromisoformat(start), date.fromisoformat(last), Work()
    )
    return [each.isoformat() for each in found]


@pytest.mark.parametrize(
    ("rule", "start", "days"),
    [
        ("FREQ=YEARLY", "2026-12-24", ["2026-12-24", "2027-12-24", "2028-12-24"]),
        ("FREQ=YEARLY", "2024-02-29", ["2024-02-29", "2028-02-29"]),
        ("FREQ=YEARLY;BYMONTH=11;BYDAY=4TH", "2026-11-26",
         ["2026-11-26", "2027-11-25", "2028-11-23"]),
        ("FREQ=MONTHLY;BYDAY=-1FR;COUNT=3", "2027-01-29",
         ["2027-01-29", "2027-02-26", "2027-03-26"]),
        ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;UNTIL=20270301", "2027-01-29",
         ["2027-01-29", "2027-02-26"]),
        ("FREQ=WEEKLY;INTERVAL=2;COUNT=3;BYDAY=MO,SU", "2027-01-04",
         ["2027-01-04", "2027-01-10", "2027-01-18"]),
        ("FREQ=DAILY;UNTIL=20270103T000000Z", "2027-01-01",
         ["2027-01-01", "2027-01-02", "2027-01-03"]),
        ("FREQ=DAILY;COUNT=1", "2027-01-01", ["2027-01-01"]),
        ("FREQ=DAILY;INTERVAL=999999", "2027-01-01", ["2027-01-01"]),
        ("FREQ=WEEKLY;INTERVAL=999999", "2027-01-01", ["2027-01-01"]),
        ("FREQ=MONTHLY;INTERVAL=999999", "2027-01-01", ["2027-01-01"]),
        ("FREQ=YEARLY;INTERVAL=999999", "2027-01-01", ["2027-01-01"]),
        ("FREQ=WEEKLY;WKST=SU;COUNT=2;UNTIL=00010110", "0001-01-01", ["0001-01-01", "0001-01-08"]),
        ("FREQ=YEARLY;BYMONTH=1,12;BYDAY=1MO,+1MO,01MO,-1SU;COUNT=3", "2027-01-01",
         ["2027-01-01", "2027-01-04", "2027-01-31"]),
    ],
)  # fmt: skip
def test_a_rule_has_its_days(rule: str, start: str, days: list[str]) -> None:
    assert texts(rule, start) == days


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("FREQ=HOURLY", "FREQ=HOURLY, which is none of days"),
        ("FREQ=YEARLY;BYWEEKNO=1", "the part BYWEEKNO, which is not supported"),
        ("FREQ=DAILY;COUNT=0", "COUNT=0, which is no positive number"),
        ("FREQ=DAILY;INTERVAL=x", "INTERVAL=X, which is no positive number"),
        ("FREQ=WEEKLY;BYDAY=1MO", "a number in BYDAY"),
        ("FREQ=WEEKLY;BYMONTHDAY=1", "BYMONTHDAY, which weeks may not have"),
        ("FREQ=MONTHLY;BYDAY=XX", "BYDAY with 'XX', which is no weekday"),
        ("FREQ=MONTHLY;BYMONTHDAY=32", "BYMONTHDAY with '32', which is no such number"),
        ("FREQ=DAILY;UNTIL=2027", "UNTIL=2027, which is no date"),
        (
            "FREQ=YEARLY;BYDAY="
            + ",".join(
                f"{number}{day}"
                for number in range(1, 99)
                for day in ("MO", "TU", "WE", "TH", "FR")
            ),
            "BYDAY with 490 items, and may have 400",
        ),
        ("yearly", "the part 'YEARLY', which is no NAME=VALUE"),
    ],
)
def test_an_invalid_rule_is_refused(rule: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_rule(rule)


# Others may match no day, and dateutil looks for one up to the year 9999.
numbers = st.sampled_from([1, 15, 28, -1, -28])


@settings(max_examples=30)  # dateutil takes 100 ms for each.
@given(
    frequency=st.sampled_from(["DAILY", "WEEKLY", "MONTHLY", "YEARLY"]),
    interval=st.integers(1, 5),
    months=st.sets(st.integers(1, 12), max_size=3),
    month_days=st.sets(numbers, max_size=3),
    weekdays=st.sets(st.sampled_from(["MO", "WE", "SA", "SU"]), max_size=3),
    ordinal=st.sampled_from(["", "1", "-1", "4"]),
    positions=st.sets(st.sampled_from([1, -1]), max_size=2),
    count=st.none() | st.integers(1, 20),
    start=st.dates(date(2024, 1, 1), date(2028, 12, 31)),
)
def test_the_days_are_those_of_dateutil(
    *,
    frequency: str,
    interval: int,
    months: set[int],
    month_days: set[int],
    weekdays: set[str],
    ordinal: str,
    positions: set[int],
    count: int | None,
    start: date,
) -> None:
    lists = {
        "BYMONTH": [str(each) for each in sorted(months)],
        "BYMONTHDAY": [str(each) for each in sorted(month_days) if frequency != "WEEKLY"],
        "BYDAY": [
            (ordinal if frequency in ("MONTHLY", "YEARLY") else "") + each
            for each in sorted(weekdays)
        ],
    }
    # Of the week with the first day, dateutil counts positions from that day on, not from Monday.
    if any(lists.values()) and frequency != "WEEKLY":
        lists["BYSETPOS"] = [str(each) for each in sorted(positions)]
    parts = [f"FREQ={frequency}", f"INTERVAL={interval}"]
    parts += [f"{name}={','.join(values)}" for name, values in lists.items() if values]
    rule = ";".join(parts)
    first, last = (datetime.combine(each, datetime.min.time()) for each in (start, LAST))
    expected = [
        each.date()
        for each in dateutil.rrulestr(rule, dtstart=first).between(first, last, inc=True)
    ]
    limit = None if count is None else count - 1

    whole = parse_rule(rule + (f";COUNT={count}" if count else ""))
    found = occurrences(whole, start, LAST, Work())

    # The first day counts even if the rule does not match it.
    assert found == [start, *[each for each in expected if each > start][:limit]]


@pytest.mark.parametrize("frequency", ["DAILY", "WEEKLY", "MONTHLY", "YEARLY"])
def test_the_last_days_of_time_have_rules(frequency: str) -> None:
    last = "9999-12-31"

    assert texts(f"FREQ={frequency}", last, last) == [last]
    assert texts(f"FREQ={frequency}", "9999-12-24", last)[0] == "9999-12-24"


def test_an_item_that_is_repeated_counts_once() -> None:
    rule = parse_rule("FREQ=MONTHLY;BYDAY=" + ",".join(["1MO"] * 20_000))

    assert rule == parse_rule("FREQ=MONTHLY;BYDAY=1MO")


# -- at times of days ------------------------------------------------------------------------------


@settings(max_examples=15)  # dateutil takes 100 ms for each.
@given(
    frequency=st.sampled_from(["DAILY", "WEEKLY", "MONTHLY", "YEARLY"]),
    interval=st.integers(1, 5),
    months=st.sets(st.integers(1, 12), max_size=3),
    weekdays=st.sets(st.sampled_from(["MO", "WE", "SU"]), max_size=2),
    hours=st.sets(st.integers(0, 23), max_size=3),
    minutes=st.sets(st.integers(0, 59), max_size=2),
    start=st.datetimes(WALL("1990-01-01"), WALL("2028-12-31")),
    after=st.datetimes(WALL("2024-01-01"), WALL("2028-12-31")),
)
def test_the_next_times_are_those_of_dateutil_however_long_ago_the_start(
    *,
    frequency: str,
    interval: int,
    months: set[int],
    weekdays: set[str],
    hours: set[int],
    minutes: set[int],
    start: datetime,
    after: datetime,
) -> None:
    lists = {
        "BYMONTH": [str(each) for each in months],
        "BYDAY": [*weekdays],
        "BYHOUR": [str(each) for each in hours],
        "BYMINUTE": [str(each) for each in minutes],
    }
    parts = [f"FREQ={frequency}", f"INTERVAL={interval}"]
    parts += [f"{name}={','.join(given)}" for name, given in lists.items() if given]
    first = start.replace(microsecond=0)
    rule = ";".join(parts)
    end = after.replace(year=after.year + 6)
    expected = [*dateutil.rrulestr(rule, dtstart=first).xafter(after, count=5)]

    found, at = list[datetime](), recurring_times(rule, first).next_after(after)
    while at is not None and len(found) < 5:
        found.append(at)
        at = recurring_times(rule, first).next_after(at)

    assert [each for each in found if each < end] == [each for each in expected if each < end]


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("FREQ=DAILY;COUNT=3", "has COUNT; write maxExecutions"),
        ("FREQ=DAILY;UNTIL=20270101", "has UNTIL; write endAt"),
        ("FREQ=DAILY;BYHOUR=24", "has BYHOUR with '24'; it goes from 0 to 23"),
        ("FREQ=DAILY;BYMINUTE=x", "has BYMINUTE with 'X'"),
        ("FREQ=MONTHLY;BYDAY=MO;BYSETPOS=1;BYHOUR=1,2", "several times a day"),
        ("", "no NAME=VALUE"),
    ],
)
def test_a_rule_that_suits_no_schedule_is_refused(rule: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        recurring_times(rule, WALL("2027-01-01"))


def test_a_search_for_days_that_do_not_exist_ends() -> None:
    never = recurring_times("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", WALL("2027-01-01"))
    leap = recurring_times("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO", WALL("2027-01-01"))

    assert never.next_after(WALL("2027-01-01")) is None
    assert leap.next_after(WALL("2028-03-01")) == WALL("2044-02-29")
    assert (
        recurring_times("FREQ=DAILY", WALL("2027-01-01")).next_after(WALL("9999-12-31T23:59:59"))
        is None
    )
