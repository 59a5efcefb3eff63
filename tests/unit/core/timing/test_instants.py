"""Text forms and order of instants and durations."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.timing.instants import (
    DAY,
    HOUR,
    LATEST_INSTANT,
    MILLISECOND,
    MINUTE,
    SECOND,
    WEEK,
    Duration,
    Instant,
    format_duration,
    format_instant,
    from_datetime,
    later,
    parse_duration,
    parse_instant,
    seconds,
    to_datetime,
)

instants = st.integers(0, LATEST_INSTANT).map(Instant)
durations = st.integers(0, LATEST_INSTANT).map(Duration)


@given(instants)
def test_instant_survives_text(instant: Instant) -> None:
    assert parse_instant(format_instant(instant)) == instant


@given(instants)
def test_instant_survives_datetime(instant: Instant) -> None:
    assert from_datetime(to_datetime(instant)) == instant


@given(durations)
def test_duration_survives_text(duration: Duration) -> None:
    assert parse_duration(format_duration(duration)) == duration


@given(instants, instants)
def test_instants_sort_as_their_text_does(one: Instant, other: Instant) -> None:
    assert (one < other) == (format_instant(one) < format_instant(other))


def test_instant_is_written_in_utc_with_microseconds() -> None:
    assert format_instant(Instant(1_500_000)) == "1970-01-01T00:00:01.500000Z"
    assert format_instant(LATEST_INSTANT) == "9999-12-31T23:59:59.000000Z"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("1970-01-01t00:00:01.5z", 1_500_000),
        ("1970-01-01 00:01Z", MINUTE),
        ("1970-01-01T02:00:00+01:00", HOUR),
        ("1969-12-31T23:00:00-02:00", HOUR),
    ],
)
def test_instant_is_read_from_rfc_3339(text: str, expected: int) -> None:
    assert parse_instant(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2027-01-01T00:00:00", "with a zone"),
        ("2027-01-01", "with a zone"),
        ("", "with a zone"),
        ("2027-01-01T00:00:00Z ", "with a zone"),
        ("2027-02-29T00:00:00Z", "is not a time"),
        ("2027-01-01T25:00:00Z", "is not a time"),
        ("1969-12-31T23:59:59Z", "out of range"),
        ("9999-12-31T23:59:59-01:00", "is not a time|out of range"),
    ],
)
def test_text_that_names_no_instant_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_instant(text)


def test_instant_of_a_datetime_does_not_depend_on_its_zone() -> None:
    utc = datetime(2026, 3, 8, 7, tzinfo=UTC)

    assert from_datetime(utc.astimezone(timezone(timedelta(hours=-5)))) == from_datetime(utc)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", 90 * SECOND),
        ("1h30m", 90 * MINUTE),
        ("1.5h", 90 * MINUTE),
        ("250ms", 250 * MILLISECOND),
        ("7us", 7),
        ("0s", 0),
        ("2w1d", 2 * WEEK + DAY),
        (" 5m ", 5 * MINUTE),
        ("0.000001s", 1),
    ],
)
def test_duration_is_read_with_its_units(text: str, expected: int) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "5", "5 m", "-5m", "m", "1y", "1h 30m", "1.s", "5M", "٣s"])
def test_text_that_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


def test_duration_beyond_the_year_9999_is_refused() -> None:
    with pytest.raises(ValueError, match="longest duration is 8,029 years"):
        parse_duration("9999999w")


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        (Duration(0), "0s"),
        (Duration(90 * MINUTE), "1h30m"),
        (Duration(-90 * SECOND), "-1m30s"),
        (Duration(WEEK), "7d"),
        (Duration(1_001), "1ms1us"),
    ],
)
def test_duration_is_written_in_its_shortest_exact_form(duration: Duration, expected: str) -> None:
    assert format_duration(duration) == expected


def test_seconds_are_rounded_to_the_microsecond() -> None:
    assert seconds(0.1) == 100_000
    assert seconds(1e-7) == 0


def test_later_moves_both_ways() -> None:
    assert later(Instant(5), Duration(3)) == 8
    assert later(Instant(5), Duration(-3)) == 2


@pytest.mark.parametrize("count", [1e308, float("inf"), float("nan")])
def test_more_seconds_than_a_number_holds_are_no_duration(count: float) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        seconds(count)
