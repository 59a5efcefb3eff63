"""Meaning of schedules: forms, refusals, clock changes, ranges."""

import re
from datetime import datetime
from itertools import islice
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.errors import Refused
from rota.core.timing import schedule as schedule_module
from rota.core.timing.instants import (
    DAY,
    LATEST_INSTANT,
    MINUTE,
    SECOND,
    Instant,
    format_instant,
    from_datetime,
    parse_instant,
    to_datetime,
)
from rota.core.timing.schedule import (
    LATEST_FIRE,
    FirePreview,
    Schedule,
    coming,
    fault_of,
    fire_times,
    is_manual,
    is_startup,
    latest_fire,
    next_fire,
    parse_schedule,
    preview,
)
from rota.node.api.documents.job_bodies import job_spec
from rota.node.api.requests.error_codes import CODES
from rota.wire.documents import JobBody
from unit.core.timing.cron_oracle import CHANGES

FAR = LATEST_INSTANT


def at(text: str) -> Instant:
    return parse_instant(text if text.endswith("Z") else f"{text}:00Z")


def fires(text: str, zone: str, after: str, count: int) -> list[str]:
    """Return the next fire times as UTC without seconds, ``2026-03-08T07:00``."""
    times = fire_times(parse_schedule(text, zone), at(after), FAR, count)
    return [format_instant(fire_at)[:16] for fire_at in times]


def utc(instant: Instant) -> str:
    return f"{to_datetime(instant):%Y-%m-%dT%H:%M:%SZ}"


# --- forms -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("macro", "expression"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
    ],
)
def test_macro_fires_like_its_expression(macro: str, expression: str) -> None:
    after = "2026-02-11T10:20"

    assert fires(macro, "Europe/Paris", after, 9) == fires(expression, "Europe/Paris", after, 9)


def test_macro_may_be_written_in_capitals() -> None:
    assert fires("@Daily", "UTC", "2026-02-11T10:20", 1) == ["2026-02-12T00:00"]


def test_every_is_aligned_to_the_epoch_wherever_it_is_asked_from() -> None:
    assert fires("@every 7m", "UTC", "1970-01-01T00:00", 2) == [
        "1970-01-01T00:07",
        "1970-01-01T00:14",
    ]
    assert fires("@every 5m", "UTC", "2026-01-01T00:02", 2) == [
        "2026-01-01T00:05",
        "2026-01-01T00:10",
    ]


def test_every_is_moved_by_its_phase() -> None:
    schedule = parse_schedule("@every 5m phase 30s")

    times = fire_times(schedule, at("2026-01-01T00:00"), FAR, 3)

    assert [utc(fire_at)[11:] for fire_at in times] == ["00:00:30Z", "00:05:30Z", "00:10:30Z"]


@given(
    interval_ms=st.integers(100, 10**9),
    phase_share=st.floats(0, 0.999),
    after=st.integers(0, FAR - 400 * DAY),
)
def test_every_fires_once_an_interval_at_its_phase(
    interval_ms: int, phase_share: float, after: int
) -> None:
    interval = interval_ms * 1000
    phase = int(interval_ms * phase_share)
    schedule = parse_schedule(f"@every {interval_ms}ms phase {phase}ms")

    fire_at = next_fire(schedule, Instant(after))

    assert fire_at is not None
    assert after < fire_at <= after + interval
    assert fire_at % interval == phase * 1000


def test_every_of_a_fraction_of_a_second_fires_between_seconds() -> None:
    times = fire_times(parse_schedule("@every 250ms"), Instant(0), Instant(SECOND), 9)

    assert times == [250_000, 500_000, 750_000, 1_000_000]


def test_at_fires_once() -> None:
    schedule = parse_schedule("@at 2027-01-01T00:00:00Z")
    due = at("2027-01-01T00:00")

    assert next_fire(schedule, Instant(due - 1)) == due
    assert next_fire(schedule, due) is None


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("@at 2027-01-01T00:00:00+02:00", "Asia/Tokyo", "2026-12-31T22:00"),
        ("@at 2027-01-01T00:00", "Asia/Tokyo", "2026-12-31T15:00"),
        ("@at 2027-01-01 00:00:00", "Asia/Tokyo", "2026-12-31T15:00"),
        ("@at 2026-03-08T02:30", "America/New_York", "2026-03-08T07:00"),  # skipped
        ("@at 2026-11-01T01:30", "America/New_York", "2026-11-01T05:30"),  # repeated
    ],
)
def test_at_without_offset_is_local(text: str, zone: str, expected: str) -> None:
    assert fires(text, zone, "2026-01-01T00:00", 2) == [expected]


def test_manual_and_startup_never_fire_by_themselves() -> None:
    manual, startup = parse_schedule("@manual"), parse_schedule("@startup")

    assert (is_manual(manual), is_startup(manual)) == (True, False)
    assert (is_manual(startup), is_startup(startup)) == (False, True)
    assert next_fire(manual, Instant(0)) is None
    assert next_fire(startup, Instant(0)) is None
    assert latest_fire(startup, Instant(0), FAR) is None


def test_startup_may_be_written_in_capitals() -> None:
    assert is_startup(parse_schedule("@Startup"))


def test_day_or_false_asks_both_day_fields_to_match() -> None:
    after = at("2026-01-01T00:00")

    either = parse_schedule("0 0 13 * FRI")
    both = parse_schedule("0 0 13 * FRI", day_or=False)

    assert [utc(t)[:10] for t in fire_times(either, after, FAR, 3)] == [
        "2026-01-02",
        "2026-01-09",
        "2026-01-13",
    ]
    assert [utc(t)[:10] for t in fire_times(both, after, FAR, 3)] == [
        "2026-02-13",
        "2026-03-13",
        "2026-11-13",
    ]


def test_schedule_is_stored_as_what_was_asked_and_no_more() -> None:
    schedule = parse_schedule("  */5   * * * * ", "Europe/Paris")

    stored = msgspec.json.encode(schedule)

    assert stored == b'{"text":"*/5 * * * *","timezone":"Europe/Paris"}'
    assert msgspec.json.decode(stored, type=Schedule) == schedule


def test_nothing_fires_at_the_end_of_time() -> None:
    assert next_fire(parse_schedule("* * * * *"), at("9999-12-31T23:59:59Z")) is None
    assert next_fire(parse_schedule("@every 1d"), at("9999-12-31T23:59:59Z")) is None


EXTREMES = (
    *("@every 100ms", "@every 36500d phase 36499d", "@every 9999d", "* * * * * *", "0 */3 * * *"),
    *("0 0 1 1 *", "59 59 23 31 12 ? *", "30 1 * * *", "@yearly", "@at 9998-12-31T23:59:59Z"),
    *("@at 9998-12-31T00:00", "@at 1970-01-02T00:00"),
)


@given(
    text=st.sampled_from(EXTREMES),
    zone=st.sampled_from(("UTC", "Pacific/Kiritimati", "Pacific/Midway", "Europe/Paris")),
    after=st.one_of(st.integers(-1, 10 * DAY), st.integers(FAR - 800 * DAY, FAR + DAY)),
)
def test_every_fire_time_can_be_written_in_its_zone(text: str, zone: str, after: int) -> None:
    schedule = parse_schedule(text, zone)

    for fire in preview(schedule, Instant(after), 3):
        assert parse_instant(fire.local) == parse_instant(format_instant(fire.instant))
    assert fire_times(schedule, LATEST_FIRE, FAR, 1) == []


def test_fire_times_of_an_older_version_end_with_the_year_9999() -> None:
    """The longest interval of that version led beyond the year 9999."""
    stored = Schedule(text="@every 2932896d phase 1d")

    assert "the longest is 36500d" in fault_of(stored)
    assert not is_startup(stored)
    assert fault_of(Schedule(text="@every 1h")) == ""


# --- refusals ----------------------------------------------------------------------------------

NOT_A_DURATION = (
    "is not a duration; write a number and a unit (ms, s, m, h, d, w), for example 90s or 1h30m"
)
FIRE_RANGE = "schedules fire from 1970 to the end of 9998, UTC"
AT_FORMS = (
    "write a time as 2027-01-01T09:00:00Z, with an offset as 2027-01-01T09:00+01:00, or as "
    "2027-01-01T09:00 for a local time in the schedule's timezone"
)


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("@dayly", "there is no schedule @dayly; did you mean @daily or @yearly?"),
        ("@reboot", "there is no schedule @reboot; did you mean @startup?"),
        ("@xyzzy", "there is no schedule @xyzzy."),
        ("@hourly 5", '@hourly has no arguments; remove "5"'),
        ("@manual now", '@manual has no arguments; remove "now"'),
        ("@every 99ms", '"@every 99ms" has interval 99ms; the shortest is 100ms'),
        (
            "@every 5m phase 5m",
            '"@every 5m phase 5m" has phase 5m; it must be shorter than the interval, 5m',
        ),
        (
            "@every 5",
            f"\"@every 5\": '5' {NOT_A_DURATION}",
        ),
        (
            "@at noon",
            f'"@at noon": {AT_FORMS}',
        ),
        ("@at 2027-02-30T00:00", '"@at 2027-02-30T00:00": day is out of range for month'),
        (
            "@at 1969-01-01T00:00",
            f'"@at 1969-01-01T00:00" is out of range; {FIRE_RANGE}',
        ),
        ("@at 0001-01-01T00:00", f'"@at 0001-01-01T00:00": {FIRE_RANGE}'),
        ("@at 9999-12-31T23:59:59", f'"@at 9999-12-31T23:59:59": {FIRE_RANGE}'),
        (
            "@at 9999-12-31T23:59:59Z",
            f'"@at 9999-12-31T23:59:59Z" is out of range; {FIRE_RANGE}',
        ),
        (
            "@every 2932896d phase 1d",
            '"@every 2932896d phase 1d" has interval 2932896d; the longest is 36500d',
        ),
        ("61 * * * *", '"61 * * * *" has minute 61; minutes go from 0 to 59'),
    ],
)
def test_refusal_says_what_is_wrong_and_what_would_be_right(text: str, detail: str) -> None:
    with pytest.raises(Refused) as refused:
        parse_schedule(text)

    assert (refused.value.code, refused.value.detail) == ("invalid_schedule", detail)


@pytest.mark.parametrize(
    "text", ["1," * 600 + "1 * * * *", "@every " + "1" * 400_000 + "s", "@at " + "9" * 400_000]
)
def test_overlong_schedule_is_refused_in_a_short_message(text: str) -> None:
    with pytest.raises(Refused, match="at most 1,000 are allowed") as refused:
        parse_schedule(text)

    assert len(refused.value.detail) < 300


@pytest.mark.parametrize("text", ["@wee\u212aly", "@da\u0131ly", "@every ٣s", "@every 5\u017f"])
def test_characters_outside_ascii_name_no_form_and_no_unit(text: str) -> None:
    with pytest.raises(Refused):
        parse_schedule(text)


def test_long_zone_is_repeated_in_part() -> None:
    with pytest.raises(Refused) as refused:
        parse_schedule("@daily", "Europe/" + "a" * 400_000)

    assert refused.value.code == "unknown_timezone"
    assert len(refused.value.detail) < 300


@pytest.mark.parametrize(
    ("zone", "hint"),
    [
        ("new york", "did you mean America/New_York?"),
        ("europe/paris", "did you mean Europe/Paris?"),
        ("Europe/Pariss", "did you mean Europe/Paris or"),
        ("../../etc/passwd", "is not a time zone"),
        ("America", "is not a time zone"),
        ("localtime", "is not a time zone"),
        ("Factory", "is not a time zone"),
        ("", "is not a time zone"),
    ],
)
def test_unknown_zone_is_refused_with_the_closest_names(zone: str, hint: str) -> None:
    with pytest.raises(Refused) as refused:
        parse_schedule("@manual", zone)

    assert refused.value.code == "unknown_timezone"
    assert hint in refused.value.detail


# --- the reference -----------------------------------------------------------------------------

PAGE = (Path(__file__).parents[4] / "docs" / "reference" / "schedules.md").read_text()


def test_codes_of_the_reference_are_those_of_the_api() -> None:
    words = set(re.findall(r"code `(\w+)`", PAGE))

    assert words == {"invalid_job", "past_schedule"}
    assert words <= set(CODES)
    for body in (JobBody(name="a", schedule="x"), JobBody(name="a", timezone="x")):
        with pytest.raises(Refused) as refused:
            job_spec(body)
        assert refused.value.code in words


def test_messages_of_the_reference_are_those_of_the_code() -> None:
    section = PAGE.partition("## Errors")[2]
    messages = section.split("```")[1].strip().splitlines()

    for message in messages:
        found = re.match(r'"([^"]+)"|there is no schedule (\S+);', message)
        assert found is not None, message
        text, zone = found[1] or found[2], "UTC"
        if "is not a time zone" in message:
            text, zone = "@daily", text
        with pytest.raises(Refused) as refused:
            parse_schedule(text, zone)
        assert refused.value.detail == message


# --- clock changes, by example -----------------------------------------------------------------


def test_skipped_local_time_fires_at_the_first_instant_after_the_gap() -> None:
    assert fires("30 2 * * *", "America/New_York", "2026-03-07T06:00", 3) == [
        "2026-03-07T07:30",
        "2026-03-08T07:00",  # 03:00 EDT: 02:30 does not exist
        "2026-03-09T06:30",
    ]


def test_fires_that_land_on_the_same_instant_after_a_gap_are_one() -> None:
    assert fires("*/20 2,3 * * *", "America/New_York", "2026-03-08T06:00", 4) == [
        "2026-03-08T07:00",  # for 02:00, 02:20, 02:40 and 03:00
        "2026-03-08T07:20",
        "2026-03-08T07:40",
        "2026-03-09T06:00",
    ]


def test_repeated_local_time_fires_at_its_first_pass_only() -> None:
    assert fires("30 1 * * *", "America/New_York", "2026-10-31T12:00", 2) == [
        "2026-11-01T05:30",
        "2026-11-02T06:30",
    ]


def test_second_pass_is_silent_when_asked_from_inside_it() -> None:
    assert fires("*/10 1-2 * * *", "America/New_York", "2026-11-01T06:05", 2) == [
        "2026-11-01T07:00",
        "2026-11-01T07:10",
    ]


def test_every_hour_has_neither_a_hole_nor_a_double() -> None:
    assert fires("0 * * * *", "America/New_York", "2026-03-08T05:30", 3) == [
        "2026-03-08T06:00",
        "2026-03-08T07:00",
        "2026-03-08T08:00",
    ]
    assert fires("30 * * * *", "America/New_York", "2026-11-01T05:00", 3) == [
        "2026-11-01T05:30",
        "2026-11-01T06:30",
        "2026-11-01T07:30",
    ]


def test_open_hours_do_not_fire_for_a_skipped_time() -> None:
    assert fires("0 */2 * * *", "America/New_York", "2026-03-08T04:00", 3) == [
        "2026-03-08T05:00",  # 00:00 EST
        "2026-03-08T08:00",  # 04:00 EDT; 02:00 does not exist
        "2026-03-08T10:00",
    ]


@pytest.mark.parametrize(
    ("text", "zone", "after", "expected"),
    [
        # The clock goes forward and back by 30 minutes.
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", "2026-10-03T15:30"),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00", "2026-04-04T14:45"),
        # Back for Ramadan, at 03:00 on 15 February 2026.
        ("30 2 * * *", "Africa/Casablanca", "2026-02-14T12:00", "2026-02-15T01:30"),
        # Midnight does not exist.
        ("0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00", "2018-11-04T03:00"),
        ("0 */24 * * *", "America/Sao_Paulo", "2018-11-03T12:00", "2018-11-04T03:00"),
        # The hour before midnight is repeated.
        ("30 23 * * *", "America/Sao_Paulo", "2018-02-17T12:00", "2018-02-18T01:30"),
        # 30 December 2011 does not exist.
        ("0 12 30 12 *", "Pacific/Apia", "2011-12-29T12:00", "2011-12-30T10:00"),
        ("0 0 * * *", "Asia/Kathmandu", "2026-05-01T00:00", "2026-05-01T18:15"),
        # Winter time is the exception there, with a negative offset from standard time.
        ("30 1 * * *", "Europe/Dublin", "2026-03-28T12:00", "2026-03-29T01:00"),
        ("30 1 * * *", "Europe/Dublin", "2026-10-24T12:00", "2026-10-25T00:30"),
    ],
)
def test_odd_clock_change(text: str, zone: str, after: str, expected: str) -> None:
    assert fires(text, zone, after, 1) == [expected]


def test_schedule_of_every_second_steps_over_a_skipped_day_at_once() -> None:
    schedule = parse_schedule("* * * * * *", "Pacific/Apia")

    times = fire_times(schedule, at("2011-12-30T09:59:58Z"), FAR, 3)

    assert [utc(fire_at)[11:] for fire_at in times] == ["09:59:59Z", "10:00:00Z", "10:00:01Z"]


def test_preview_shows_local_time_and_what_the_clock_does() -> None:
    spring = preview(parse_schedule("30 2 * * *", "America/New_York"), at("2026-03-07T12:00"), 2)
    autumn = preview(parse_schedule("30 * * * *", "America/New_York"), at("2026-11-01T05:00"), 3)

    assert [(fire.local, fire.note) for fire in spring] == [
        ("2026-03-08T03:00:00-04:00", "shifted out of a DST gap"),
        ("2026-03-09T02:30:00-04:00", ""),
    ]
    assert [(fire.local, fire.note) for fire in autumn] == [
        ("2026-11-01T01:30:00-04:00", "first of a repeated hour"),
        ("2026-11-01T01:30:00-05:00", "second of a repeated hour"),
        ("2026-11-01T02:30:00-05:00", ""),
    ]


def test_preview_notes_a_one_shot_that_falls_into_a_gap() -> None:
    schedule = parse_schedule("@at 2026-03-08T02:30", "America/New_York")

    assert [tuple(fire) for fire in preview(schedule, Instant(0), 5)] == [
        (at("2026-03-08T07:00"), "2026-03-08T03:00:00-04:00", "shifted out of a DST gap")
    ]


def test_preview_of_a_time_that_exists_after_a_gap_has_no_note() -> None:
    schedule = parse_schedule("0 2,3 * * *", "America/New_York")

    assert [fire.note for fire in preview(schedule, at("2026-03-08T06:30"), 1)] == [""]


# --- ranges ------------------------------------------------------------------------------------


EXAMPLES = [
    "* * * * *",
    "*/7 * 1-2 * * *",
    "30 1 * * *",
    "*/20 0-3 * * *",
    "0 */5 * * *",
    "15 2 L * *",
    "0 0 1-7 * MON",
    "@every 13m",
    "@every 90m phase 7s",
]


@given(
    text=st.sampled_from(EXAMPLES),
    place=st.sampled_from(CHANGES),
    begin_minutes=st.integers(-2_000, 2_000),
    length_s=st.integers(0, 200_000),
    limit=st.integers(0, 30),
)
def test_next_range_and_latest_agree(
    text: str, place: tuple[str, datetime], begin_minutes: int, length_s: int, limit: int
) -> None:
    zone, change = place
    schedule = parse_schedule(text, zone)
    after = Instant(from_datetime(change) + begin_minutes * MINUTE - 1)
    until = Instant(after + length_s * SECOND)

    times = fire_times(schedule, after, until, 10_000)

    assert times == sorted(set(times))
    assert all(after < fire_at <= until for fire_at in times)
    assert fire_times(schedule, after, until, limit) == times[:limit]
    assert latest_fire(schedule, after, until) == (times[-1] if times else None)
    following = next_fire(schedule, times[-1] if times else after)
    assert following is not None
    assert following > until


RARE = [
    parse_schedule(f"{number} 0 29 2 {number % 7}#5", "Europe/Paris", False) for number in range(60)
]


def test_coming_fires_of_many_schedules_are_found_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = 0

    def counted(rule: Schedule, after: Instant) -> Instant | None:
        nonlocal steps
        steps += 1
        return next_fire(rule, after)

    monkeypatch.setattr(schedule_module, "next_fire", counted)

    found = list(islice(coming(RARE, at("2026-01-01T00:00")), 10))

    assert len(found) == 10
    assert steps <= len(RARE) + len(found)


def test_coming_fires_are_those_of_each_schedule_in_order() -> None:
    schedules = [parse_schedule(text, "Europe/Paris") for text in EXAMPLES]
    unreadable = Schedule(text="0 0 * * *", timezone="Europe/Atlantis")
    after = at("2026-03-28T22:00")

    found = list(islice(coming([unreadable, *schedules], after), 200))

    each = [
        (fire, number)
        for number, schedule in enumerate(schedules, 1)
        for fire in preview(schedule, after, 200)
    ]
    assert [(fire, number) for number, fire in found] == sorted(each, key=_place)[:200]


def _place(found: tuple[FirePreview, int]) -> tuple[Instant, int]:
    fire, number = found
    return fire.instant, number


def test_latest_fire_of_a_long_range_is_the_last() -> None:
    begin, end = at("2016-01-01T00:00"), at("2026-06-01T00:00")

    def latest(text: str) -> str:
        fire_at = latest_fire(parse_schedule(text, "Europe/Paris"), begin, end)
        assert fire_at is not None
        return utc(fire_at)

    assert latest("* * * * * *") == "2026-06-01T00:00:00Z"
    assert latest("0 0 29 2 *") == "2024-02-28T23:00:00Z"
    assert latest("0 0 12 24 12 * 2019") == "2019-12-24T11:00:00Z"
    assert latest("@every 7s") == utc(Instant(end - end % (7 * SECOND)))
