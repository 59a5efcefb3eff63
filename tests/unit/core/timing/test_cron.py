"""Matches of each field of a cron expression, and refused expressions."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise

import pytest

from rota.core.errors import Kind, Refused
from rota.core.timing.cron import parse_cron


def times(
    expression: str, after: str, count: int, *, day_or: bool = True, seed: str = ""
) -> list[str]:
    """Return the next local times that match, ``2026-01-31 00:00:00``."""
    cron = parse_cron(expression, day_or, seed)
    wall = datetime.fromisoformat(after)
    found: list[str] = []
    while len(found) < count and (match := cron.next_after(wall)) is not None:
        found.append(str(match))
        wall = match
    return found


def clocks(expression: str, after: str, count: int, *, seed: str = "") -> list[str]:
    return [time[11:] for time in times(expression, after, count, seed=seed)]


def days(
    expression: str, after: str, count: int, *, day_or: bool = True, seed: str = ""
) -> list[str]:
    """Return the next days that match, ``01-31``, of an expression that fires at midnight."""
    found = times(f"0 0 {expression}", after, count, day_or=day_or, seed=seed)
    assert all(time.endswith(" 00:00:00") for time in found)
    return [time[5:10] for time in found]


# --- times of day ------------------------------------------------------------------------------


def test_five_fields_fire_at_second_zero() -> None:
    assert times("30 9 * * *", "2026-01-31T09:30:00", 1) == ["2026-02-01 09:30:00"]


def test_six_fields_begin_with_seconds() -> None:
    assert clocks("15,45 30 9 * * *", "2026-01-01T00:00", 3) == ["09:30:15", "09:30:45", "09:30:15"]


def test_seven_fields_end_with_the_year() -> None:
    assert times("0 0 0 1 1 * 2027-2031/2", "2026-05-01T00:00", 9) == [
        "2027-01-01 00:00:00",
        "2029-01-01 00:00:00",
        "2031-01-01 00:00:00",
    ]


def test_next_is_strictly_after() -> None:
    assert clocks("0 12 * * *", "2026-01-01T11:59:59.999999", 1) == ["12:00:00"]
    assert times("0 12 * * *", "2026-01-01T12:00:00", 1) == ["2026-01-02 12:00:00"]


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        ("5", [5]),
        ("5,3,5", [3, 5]),
        ("10-12", [10, 11, 12]),
        ("10-20/5", [10, 15, 20]),
        ("*/20", [0, 20, 40]),
        ("*/60", [0]),
        ("50/4", [50, 54, 58]),
        ("58-1", [0, 1, 58, 59]),
        ("55-10/5", [0, 5, 10, 55]),
        ("7-7", [7]),
        ("59/15", [59]),
        ("1,30-31,*/40", [0, 1, 30, 31, 40]),
    ],
)
def test_minutes(minutes: str, expected: list[int]) -> None:
    found = clocks(f"{minutes} 6 * * *", "2026-01-01T00:00", len(expected) + 1)

    assert [int(time[3:5]) for time in found] == [*expected, expected[0]]


def test_search_carries_from_seconds_to_years() -> None:
    assert times("59 59 23 31 12 *", "2026-12-31T23:59:58", 2) == [
        "2026-12-31 23:59:59",
        "2027-12-31 23:59:59",
    ]


# --- days --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("L * *", ["01-31", "02-28", "03-31"]),
        ("L-2 * *", ["01-29", "02-26", "03-29"]),
        ("L-30 * *", ["01-01", "03-01", "05-01"]),
        ("L-3W * *", ["01-28", "02-25", "03-27"]),  # 28 March 2026 is a Saturday
        ("L-0W * *", ["01-30", "02-27", "03-31"]),
        ("L-29W 1,2 *", ["01-02"]),  # February has no such day
        ("LW * *", ["01-30", "02-27", "03-31"]),
        ("15W * *", ["01-15", "02-16", "03-16"]),  # 15 February and March 2026 are Sundays
        ("1W 2,8 *", ["02-02", "08-03"]),  # Sunday; Saturday, without leaving August
        ("31W 1,5 *", ["01-30", "05-29"]),  # Saturday; Sunday, without leaving May
        ("31W 2-3 *", ["03-31"]),  # February has no 31st
        ("1,L 2 *", ["02-01", "02-28"]),
        ("1,15W,L-1 2 *", ["02-01", "02-16", "02-27"]),
    ],
)
def test_days_of_the_month(fields: str, expected: list[str]) -> None:
    assert days(fields, "2025-12-31T12:00", len(expected)) == expected


@pytest.mark.parametrize(
    ("weekdays", "expected"),
    [
        ("0", ["01-04", "01-11"]),
        ("7", ["01-04", "01-11"]),
        ("sun", ["01-04", "01-11"]),
        ("MON-WED", ["01-05", "01-06", "01-07", "01-12"]),
        ("5-7", ["01-02", "01-03", "01-04", "01-09"]),
        ("FRI-SUN", ["01-02", "01-03", "01-04", "01-09"]),
        ("SUN-TUE", ["01-04", "01-05", "01-06", "01-11"]),
        ("7-2", ["01-04", "01-05", "01-06", "01-11"]),
        ("0-7", ["01-01", "01-02", "01-03", "01-04", "01-05"]),
        ("6-1", ["01-03", "01-04", "01-05", "01-10"]),
        ("*/2", ["01-01", "01-03", "01-04", "01-06", "01-08"]),
        ("3/2", ["01-02", "01-07", "01-09"]),
        ("7/3", ["01-03", "01-04", "01-07", "01-10"]),
        ("5L", ["01-30", "02-27"]),
        ("L5", ["01-30", "02-27"]),
        ("FRIL", ["01-30", "02-27"]),
        ("FRI#L", ["01-30", "02-27"]),
        ("5#l", ["01-30", "02-27"]),
        ("FridayL", ["01-30", "02-27"]),
        ("Monday-WEDNESDAY", ["01-05", "01-06", "01-07", "01-12"]),
        ("tuesday#2", ["01-13", "02-10"]),
        ("7L", ["01-25", "02-22"]),
        ("MON#1", ["01-05", "02-02"]),
        ("0#5", ["03-29", "05-31"]),
        ("MON#1,WED#3", ["01-05", "01-21", "02-02", "02-18"]),
        ("MON#1,FRI", ["01-02", "01-05", "01-09"]),
    ],
)
def test_weekdays(weekdays: str, expected: list[str]) -> None:
    assert days(f"* * {weekdays}", "2025-12-31T12:00", len(expected)) == expected


def test_months_have_names_and_ranges_around_the_year() -> None:
    assert days("1 feb,NOV *", "2026-01-01T12:00", 2) == ["02-01", "11-01"]
    assert days("1 November-february *", "2026-01-01T12:00", 2) == ["02-01", "11-01"]
    assert days("1 NOV-FEB *", "2026-01-01T12:00", 4) == ["02-01", "11-01", "12-01", "01-01"]


def test_both_day_fields_restricted_match_on_either() -> None:
    assert days("1,15 * WED", "2026-04-01T12:00", 4) == ["04-08", "04-15", "04-22", "04-29"]
    assert days("2 * WED", "2026-04-01T12:00", 3) == ["04-02", "04-08", "04-15"]


def test_both_day_fields_must_match_on_demand() -> None:
    assert days("1,15 * WED", "2026-04-01T12:00", 2, day_or=False) == ["04-15", "07-01"]


def test_day_field_that_begins_with_a_star_restricts_the_other() -> None:
    assert days("*/2 * WED", "2026-04-01T12:00", 3) == ["04-15", "04-29", "05-13"]
    assert days("1-7 * */3", "2026-04-01T12:00", 4) == ["04-04", "04-05", "05-02", "05-03"]


def test_question_mark_leaves_a_day_field_open() -> None:
    assert days("? * MON", "2026-01-01T12:00", 2) == ["01-05", "01-12"]
    assert days("15 * ?", "2026-01-01T12:00", 2) == ["01-15", "02-15"]


def test_leap_day_is_missing_in_most_years_that_end_a_century() -> None:
    assert times("0 0 29 2 *", "2096-01-01T00:00", 2) == [
        "2096-02-29 00:00:00",
        "2104-02-29 00:00:00",
    ]


def test_rarest_day_is_found_forty_years_ahead() -> None:
    assert times("0 0 29 2 MON", "2072-03-01T00:00", 1, day_or=False) == ["2112-02-29 00:00:00"]


def test_matches_is_true_for_a_match_and_false_for_its_neighbours() -> None:
    cron = parse_cron("*/10 * * * * *")

    assert cron.matches(datetime(2026, 1, 1, 0, 0, 20))  # noqa: DTZ001 - a wall clock
    assert not cron.matches(datetime(2026, 1, 1, 0, 0, 21))  # noqa: DTZ001
    assert not cron.matches(datetime(2026, 1, 1, 0, 0, 20, 1))  # noqa: DTZ001


@pytest.mark.parametrize(
    ("hours", "is_open"),
    [
        *(("*", True), ("*/2", True), ("*/23", True), ("H/2", True)),
        *(("H", False), ("H(0-12)/2", False), ("H/24", False)),
        *(("0-23", False), ("0/2", False), ("*,3", False), ("3", False), ("*/24", False)),
    ],
)
def test_only_a_star_with_several_hours_leaves_them_open(hours: str, is_open: bool) -> None:
    assert parse_cron(f"0 {hours} * * *").has_open_hours is is_open


# --- hashed items ------------------------------------------------------------------------------


def masks(expression: str, seed: str) -> tuple[int, ...]:
    cron = parse_cron(expression, seed=seed)
    return cron.seconds, cron.minutes, cron.hours, cron.months, *cron.days


def values(mask: int) -> list[int]:
    return [value for value in range(mask.bit_length()) if mask >> value & 1]


def test_hashed_values_follow_from_the_seed_alone_and_never_change() -> None:
    """Jobs rely on these: other values would move every schedule with an H."""
    found = times("H H H H H", "2026-01-01T00:00", 1, seed="default/report")

    assert found == ["2026-02-04 17:18:00"]
    assert clocks("H H H * * *", "2026-01-01T00:00", 2, seed="default/report") == ["17:18:46"] * 2


def test_hashed_values_are_spread_evenly() -> None:
    minutes = Counter(
        values(parse_cron("H * * * *", seed=f"default/job-{number}").minutes)[0]
        for number in range(6_000)
    )

    assert len(minutes) == 60
    assert 60 < min(minutes.values()) <= max(minutes.values()) < 140


@pytest.mark.parametrize(
    ("item", "choices", "size"),
    [
        ("H", range(60), 1),
        ("H(0-29)", range(30), 1),
        ("h(50-9)", [*range(50, 60), *range(10)], 1),
        ("H/15", range(60), 4),
        ("H(0-29)/10", range(30), 3),
    ],
)
def test_hashed_minutes(item: str, choices: Sequence[int], size: int) -> None:
    seen: set[int] = set()
    for number in range(500):
        minutes = values(parse_cron(f"{item} * * * *", seed=str(number)).minutes)
        assert len(minutes) == size
        assert len({later - earlier for earlier, later in pairwise(minutes)}) <= 1
        seen.update(minutes)

    assert seen == set(choices)


@pytest.mark.parametrize(
    ("fields", "choices"),
    [
        ("H * *", {f"01-{day:02}" for day in range(1, 29)}),
        ("H(1-3) * *", {"01-01", "01-02", "01-03"}),
        ("* * H", {f"01-0{day}" for day in range(1, 8)}),
        ("* * H(0-7)", {f"01-0{day}" for day in range(1, 8)}),
        ("* * H(MON-FRI)", {"01-01", "01-02", "01-05", "01-06", "01-07"}),
        ("1 H *", {f"{month:02}-01" for month in range(1, 13)}),
        ("1 H(JUNE-AUG) *", {"06-01", "07-01", "08-01"}),
    ],
)
def test_hashed_days_are_days_that_every_month_and_week_has(fields: str, choices: set[str]) -> None:
    seen = {days(fields, "2025-12-31T12:00", 1, seed=str(number))[0] for number in range(400)}

    assert seen == choices


def test_hashed_item_may_be_one_of_a_list() -> None:
    plain = parse_cron("H * * * *", seed="a").minutes

    assert parse_cron("H,7 * * * *", seed="a").minutes == plain | 1 << 7


def test_years_are_hashed_within_a_range() -> None:
    seen = {
        times("0 0 0 1 1 * H(2027-2029)", "2026-01-01T00:00", 1, seed=str(number))[0][:4]
        for number in range(50)
    }

    assert seen == {"2027", "2028", "2029"}


def test_hashed_fields_are_chosen_independently() -> None:
    pairs = {masks("H H * * *", str(number))[1:3] for number in range(500)}

    assert len(pairs) > 400


# --- refusals ----------------------------------------------------------------------------------


STEPS_OF_MINUTES = "steps of minutes go from 1 to 60 (for other intervals write @every)"
DAYS = "days go from 1 to 31; other valid forms are L, L-n, nW, LW and L-nW"
WEEKDAYS = "weekdays go from 0 to 7 (0 and 7 are Sunday) or SUN to SAT"
FIELD_COUNTS = (
    "a cron expression has 5 (minute hour day month weekday), "
    "6 (seconds first) or 7 (seconds first, year last)"
)


@pytest.mark.parametrize(
    ("expression", "detail"),
    [
        ("61 * * * *", "has minute 61; minutes go from 0 to 59"),
        (
            "60 * * * * *",
            "has second 60; seconds go from 0 to 59 (six fields begin with the second)",
        ),
        (
            "0 30 9 * * 2027",
            f"has weekday 2027; {WEEKDAYS} (six fields begin with the second)",
        ),
        ("0 24 * * *", "has hour 24; hours go from 0 to 23"),
        ("0 0 32 * *", "has day 32; days go from 1 to 31"),
        ("0 0 0 * *", "has day 0; days go from 1 to 31"),
        ("0 0 32W * *", f"has day 32W; {DAYS}"),
        ("0 0 LW-1 * *", f'has day "LW-1"; {DAYS}'),
        ("0 0 1,L-W * *", f'has day "L-W"; {DAYS}'),
        ("0 0 5-40 * *", 'has day "5-40"; days go from 1 to 31'),
        ("0 0 * 13 *", "has month 13; months go from 1 to 12 or JAN to DEC"),
        ("0 0 * JUNI *", "has month JUNI; months go from 1 to 12 or JAN to DEC; write JUN"),
        ("0 0 * * tues", f"has weekday TUES; {WEEKDAYS}; write TUE"),
        (
            "0 0 * * 8",
            "has weekday 8; weekdays go from 0 to 7 (0 and 7 are Sunday) or SUN to SAT",
        ),
        ("0 0 * * 8L", f"has weekday 8L; {WEEKDAYS}"),
        ("0 0 * * fr\u0131", f"has weekday FR\u0131; {WEEKDAYS}"),
        ("0 0 * * \u017fun", f"has weekday \u017fUN; {WEEKDAYS}"),
        ("0 0 * \u212aan *", "has month \u212aAN; months go from 1 to 12 or JAN to DEC"),
        ("0 0 0 * * * 2100", "has year 2100; years go from 1970 to 2099"),
        ("0 0 0 * * * 2030-2028", "has year range 2030-2028; a range must be ascending"),
        ("5- * * * *", 'has minute "5-"; minutes go from 0 to 59'),
        ("-5 * * * *", 'has minute "-5"; minutes go from 0 to 59'),
        ("1,,2 * * * *", 'has minute ""; minutes go from 0 to 59'),
        ("1.5 * * * *", 'has minute "1.5"; minutes go from 0 to 59'),
        ("٣ * * * *", "has minute ٣; minutes go from 0 to 59"),
        ("99999999999 * * * *", "has minute 99999999999; minutes go from 0 to 59"),
        ("? * * * *", 'has minute "?"; minutes go from 0 to 59'),
        ("0 0 ?,5 * *", 'has day "?"; days go from 1 to 31'),
        (
            "*/0 * * * *",
            f"has minute step 0; {STEPS_OF_MINUTES}",
        ),
        (
            "*/90 * * * *",
            f"has minute step 90; {STEPS_OF_MINUTES}",
        ),
        ("0 0 L-31 * *", 'has day "L-31"; days before the last go from 0 to 30'),
        (
            "0 0 * * MON#6",
            'has weekday "MON#6"; the number after # goes from 1 to 5, and L is the last',
        ),
        ("0 0 * * L", "has weekday L alone; write which last weekday, as in 5L"),
        (
            "0 r/4 * * *",
            "has hour R/4; random fields (R) are not supported, write a number or H",
        ),
        ("H(0-60) * * * *", 'has minute "H(0-60)"; minutes go from 0 to 59'),
        (
            "H(5) * * * *",
            'has minute "H(5)"; minutes go from 0 to 59; a hashed range is written H(a-b)',
        ),
        ("H/61 * * * *", 'has minute "H/61"; its step goes from 2 to 60'),
        ("H/1 * * * *", 'has minute "H/1"; its step goes from 2 to 60'),
        ("0 0 H/29 * *", 'has day "H/29"; its step goes from 2 to 28'),
        ("0 0 0 1 1 * H", "has year H; a hashed year needs a range: H(2027-2029)"),
        (
            "* * * *",
            f"has 4 fields; {FIELD_COUNTS}",
        ),
    ],
)
def test_refusal_names_the_field_its_value_and_its_limits(expression: str, detail: str) -> None:
    with pytest.raises(Refused) as refused:
        parse_cron(expression)

    assert refused.value.detail == f'"{expression}" {detail}'
    assert (refused.value.kind, refused.value.code) == (Kind.INVALID, "invalid_schedule")


@pytest.mark.parametrize(
    "expression",
    ["N * * * *", "0-N * * * *", "*/N * * * *", "0 0 NW * *", "0 0 L-N * *", "0 0 * * MON#N"],
)
def test_a_number_of_more_digits_than_an_integer_is_read_from_is_refused(expression: str) -> None:
    with pytest.raises(Refused):
        parse_cron(expression.replace("N", "9" * 5_000))


@pytest.mark.parametrize(
    "expression",
    [
        "0 0 30 2 *",
        "0 0 31 2,4,6,9,11 *",
        "0 0 L-29 2 *",
        "0 0 30W 2 *",
        "0 0 0 29 2 * 2027",
        "0 0 0 29 2 ? 2025-2027",
        "0 0 */31 2 MON#5",
    ],
)
def test_expression_that_no_date_matches_is_refused(expression: str) -> None:
    with pytest.raises(Refused, match="never fires"):
        parse_cron(expression)


def test_expression_that_some_date_matches_is_not_refused() -> None:
    assert days("30 2 MON", "2026-01-01T00:00", 1) == ["02-02"]
    assert times("0 0 0 29 2 ? 2028", "2026-01-01T00:00", 2) == ["2028-02-29 00:00:00"]


def test_past_year_is_kept_and_fires_no_more() -> None:
    assert times("0 0 0 1 1 * 2020", "2019-01-01T00:00", 2) == ["2020-01-01 00:00:00"]
    assert times("0 0 0 1 1 * 2020", "2026-01-01T00:00", 1) == []


@pytest.mark.parametrize(
    ("day", "months"),
    [("31 *", {1, 3, 5, 7, 8, 10, 12}), ("L-28 *", {*range(1, 13)}), ("30 2,3", {3})],
)
def test_the_search_passes_over_months_without_a_day_that_matches(
    day: str, months: set[int]
) -> None:
    cron = parse_cron(f"0 0 {day} *")

    assert {month for month in range(1, 13) if cron.months >> month & 1} == months


def test_message_repeats_a_part_of_a_long_expression_without_what_a_terminal_acts_on() -> None:
    with pytest.raises(Refused) as refused:
        parse_cron("\x1b[2J" + "9" * 900 + " * * * *")

    assert len(refused.value.detail) < 400
    assert refused.value.detail.isprintable()
