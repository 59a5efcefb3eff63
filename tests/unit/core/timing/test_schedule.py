"""Meaning of schedules: forms, refusals, clock changes, ranges."""

import re
from datetime import date, datetime, timedelta
from itertools import islice, pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

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
    checked,
    coming,
    fault_of,
    fire_times,
    has_rules,
    is_manual,
    is_startup,
    latest_fire,
    next_fire,
    parse_schedule,
    preview,
    previous_fire,
)
from rota.node.api.requests.error_codes import CODES
from rota.wire.bodies.job_bodies import job_spec
from rota.wire.documents import JobBody
from unit.core.timing.cron_oracle import CHANGES

FAR = LATEST_INSTANT
FIELD_COUNTS = (
    "a cron expression has 5 (minute hour day month weekday), "
    "6 (seconds first) or 7 (seconds first, year last)"
)


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
        ("@noon", "0 12 * * *"),
        ("@quarterly", "0 0 1 1,4,7,10 *"),
        ("@semiannually", "0 0 1 1,7 *"),
        ("@minutely", "* * * * *"),
        ("@every_minute", "* * * * *"),
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


@pytest.mark.parametrize(
    ("macro", "expression"),
    [
        ("@yearly", "H H H H *"),
        ("@semiannually", "H H H H/6 *"),
        ("@quarterly", "H H H H/3 *"),
        ("@monthly", "H H H * *"),
        ("@weekly", "H H * * H"),
        ("@Daily", "H H * * *"),
        ("@midnight", "H H(0-2) * * *"),
        ("@noon", "H 12 * * *"),
        ("@hourly", "H * * * *"),
        ("@minutely", "H * * * * *"),
    ],
)
def test_macro_that_is_spread_fires_like_its_hashed_expression(macro: str, expression: str) -> None:
    spread = checked(Schedule(text=macro, spread=True, seed="default/report"))
    hashed = checked(Schedule(text=expression, seed="default/report"))
    after = at("2026-02-11T10:20")

    assert fire_times(spread, after, FAR, 9) == fire_times(hashed, after, FAR, 9)


@pytest.mark.parametrize("text", ["0 9 * * *", "H 9 * * *", "@every 5m", "@manual"])
def test_only_a_macro_is_spread(text: str) -> None:
    with pytest.raises(Refused) as refused:
        checked(Schedule(text=text, spread=True))

    assert refused.value.detail == (
        f'"{text}" cannot be spread; spread is for @daily and other macros, in a cron expression '
        "write H"
    )


def test_seed_is_stored_only_with_what_is_hashed() -> None:
    def stored(text: str, *, spread: bool = False) -> bytes:
        schedule = checked(Schedule(text=text, spread=spread, seed="default/report"))
        return msgspec.json.encode(schedule)

    assert stored("0 9 * * THU") == b'{"text":"0 9 * * THU"}'
    assert stored("@daily") == b'{"text":"@daily"}'
    assert stored("0 h(1-3)/2 * * *") == (b'{"text":"0 h(1-3)/2 * * *","seed":"default/report"}')
    assert stored("@daily", spread=True) == (
        b'{"text":"@daily","spread":true,"seed":"default/report"}'
    )


@pytest.mark.parametrize("prefix", ["TZ", "CRON_TZ"])
@pytest.mark.parametrize("text", ["0 9 * * *", "@daily", "@at 2027-01-01T09:00"])
def test_prefix_is_stored_as_the_zone(prefix: str, text: str) -> None:
    stored = parse_schedule(text, "Europe/Paris")

    assert parse_schedule(f" {prefix}=Europe/Paris  {text}") == stored
    assert parse_schedule(f"{prefix}=Europe/Paris {text}", "Europe/Paris") == stored


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        (
            "TZ=Europe/Paris 0 9 * * *",
            '"TZ=Europe/Paris 0 9 * * *" begins with another zone than Asia/Tokyo; remove',
        ),
        ("TZ=Asia/Tokyo", f'"" has 0 fields; {FIELD_COUNTS}'),
        ("CRON_TZ=Europe/Pariss @daily", '"Europe/Pariss" is not a time zone; did you mean'),
        ("TZ= 0 9 * * *", '"" is not a time zone'),
    ],
)
def test_prefix_that_cannot_be_followed_is_refused(text: str, detail: str) -> None:
    with pytest.raises(Refused) as refused:
        parse_schedule(text, "Asia/Tokyo")

    assert refused.value.detail.startswith(detail)


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
            f'"@at 1969-01-01T00:00": out of range; {FIRE_RANGE}',
        ),
        ("@at 0001-01-01T00:00", f'"@at 0001-01-01T00:00": out of range; {FIRE_RANGE}'),
        ("@at 9999-12-31T23:59:59", f'"@at 9999-12-31T23:59:59": out of range; {FIRE_RANGE}'),
        (
            "@at 9999-12-31T23:59:59Z",
            f'"@at 9999-12-31T23:59:59Z": out of range; {FIRE_RANGE}',
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


# --- limits ------------------------------------------------------------------------------------


def limited(text: str, start_at: str, end_at: str, zone: str = "Europe/Berlin") -> Schedule:
    return checked(Schedule(text=text, timezone=zone, start_at=start_at, end_at=end_at))


@pytest.mark.parametrize(
    ("start_at", "end_at"),
    [
        ("2026-03-02T09:00", "2026-03-04T09:00"),
        ("2026-03-02T08:00:00Z", "2026-03-04T09:00+01:00"),
        ("2026-03-01T09:00:01", "2026-03-05 08:59:59"),
    ],
)
def test_no_fire_time_is_before_the_start_or_after_the_end(start_at: str, end_at: str) -> None:
    schedule = limited("0 9 * * *", start_at, end_at)

    assert [utc(fire_at) for fire_at in fire_times(schedule, Instant(0), FAR, 9)] == [
        "2026-03-02T08:00:00Z",
        "2026-03-03T08:00:00Z",
        "2026-03-04T08:00:00Z",
    ]


def test_either_limit_may_be_alone() -> None:
    from_start = limited("@daily", "2026-03-02T00:00", "")
    to_end = limited("@daily", "", "2026-03-02T00:00")

    assert next_fire(from_start, Instant(0)) == at("2026-03-01T23:00")
    assert latest_fire(to_end, Instant(0), FAR) == at("2026-03-01T23:00")


def test_the_start_does_not_shift_an_interval() -> None:
    schedule = limited("@every 1h phase 5m", "2026-03-02T09:30:00Z", "")

    assert next_fire(schedule, Instant(0)) == at("2026-03-02T10:05")


def test_a_recurrence_rule_fires_at_its_local_times_from_its_start_on() -> None:
    schedule = limited("RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=SU", "2026-03-15T02:30", "")

    fires = fire_times(schedule, Instant(0), FAR, 3)

    # On 29 March, the clock is put forward from 02:00 to 03:00.
    assert fires == [at("2026-03-15T01:30"), at("2026-03-29T01:00"), at("2026-04-12T00:30")]
    assert latest_fire(schedule, Instant(0), at("2026-04-01T00:00")) == at("2026-03-29T01:00")


@pytest.mark.parametrize(
    ("text", "start_at", "end_at", "detail"),
    [
        (
            "RRULE:FREQ=DAILY",
            "",
            "2026-03-03T08:59",
            '"RRULE:FREQ=DAILY" needs startAt, from which its periods are counted',
        ),
        (
            "RRULE:FREQ=DAILY;COUNT=2",
            "2026-03-02T09:01",
            "",
            '"RRULE:FREQ=DAILY;COUNT=2" has COUNT; write maxExecutions in the schedule',
        ),
        (
            "RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
            "2026-03-02T09:01",
            "",
            '"RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30" has no fire time from startAt on',
        ),
        ("@daily", "tomorrow", "", f'startAt "tomorrow": {AT_FORMS}'),
        ("@daily", "", "1969-01-01T00:00", f'endAt "1969-01-01T00:00": out of range; {FIRE_RANGE}'),
        (
            "@daily",
            "2026-03-02T09:00",
            "2026-03-02T08:00",
            'endAt "2026-03-02T08:00" is before startAt "2026-03-02T09:00"',
        ),
        (
            "0 9 * * *",
            "2026-03-02T09:01",
            "2026-03-03T08:59",
            '"0 9 * * *" has no fire time between startAt and endAt',
        ),
        (
            "@at 2026-03-02T09:01",
            "2026-03-02T09:01",
            "",
            '"@at 2026-03-02T09:01" has neither startAt nor endAt; remove them',
        ),
        ("@manual", "", "2026-03-02T09:01", '"@manual" has neither startAt nor endAt; remove them'),
    ],
)
def test_limits_that_leave_no_fire_time_are_refused(
    text: str, start_at: str, end_at: str, detail: str
) -> None:
    with pytest.raises(Refused) as refused:
        limited(text, start_at, end_at)

    assert refused.value.detail == detail


def test_local_limits_follow_the_rules_of_the_zone() -> None:
    assert has_rules(limited("@every 1h", "2026-03-02T09:00", ""))
    assert not has_rules(parse_schedule("@every 1h", "Europe/Berlin"))


# --- clock changes, as asked -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ["2026-03-08T07:00", "2026-03-09T06:30"]),
        ({"gap": "skip"}, ["2026-03-09T06:30", "2026-03-10T06:30"]),
        ({"gap": "skip", "fold": "both"}, ["2026-03-09T06:30", "2026-03-10T06:30"]),
        ({"fold": "both"}, ["2026-03-08T07:00", "2026-03-09T06:30"]),
    ],
)
def test_skipped_local_time_fires_as_the_gap_asks(
    fields: dict[str, str], expected: list[str]
) -> None:
    assert two_fires("30 2 * * *", fields, "2026-03-07T12:00") == expected


@pytest.mark.parametrize(
    ("fold", "expected"),
    [
        ("first", ["2026-11-01T05:30", "2026-11-02T06:30"]),
        ("last", ["2026-11-01T06:30", "2026-11-02T06:30"]),
        ("both", ["2026-11-01T05:30", "2026-11-01T06:30"]),
    ],
)
def test_repeated_local_time_fires_as_the_fold_asks(fold: str, expected: list[str]) -> None:
    assert two_fires("30 1 * * *", {"fold": fold}, "2026-10-31T12:00") == expected


def two_fires(text: str, fields: dict[str, str], after: str) -> list[str]:
    fields = {"text": text, "timezone": "America/New_York", **fields}
    schedule = checked(msgspec.convert(fields, Schedule))
    return [format_instant(fire_at)[:16] for fire_at in fire_times(schedule, at(after), FAR, 2)]


@pytest.mark.parametrize("text", ["@hourly", "0 */2 * * *", "@every 5m", "@at 2027-01-01T00:00"])
def test_gap_and_fold_are_for_expressions_that_name_hours(text: str) -> None:
    with pytest.raises(Refused) as refused:
        checked(Schedule(text=text, fold="last"))

    assert refused.value.detail == (
        f'"{text}" is no cron expression that names hours, which gap and fold are for; remove them'
    )


# --- every n-th period -------------------------------------------------------------------------


def periodic(text: str, every: str, start_at: str, zone: str = "Europe/Berlin") -> Schedule:
    return checked(Schedule(text=text, timezone=zone, start_at=start_at, every=every))


@pytest.mark.parametrize(
    ("text", "every", "expected"),
    [
        # 25 March 2026 is a Wednesday, and the clock changes on the 29th: the Monday of its week
        # has passed, and that of the week after next is 6 April.
        ("0 10 * * MON", "2 weeks", ["04-06 08:00", "04-20 08:00", "05-04 08:00"]),
        ("0 10 * * SUN", "2  Weeks", ["03-29 08:00", "04-12 08:00", "04-26 08:00"]),
        ("0 10 * * MON,FRI", "2 weeks", ["03-27 09:00", "04-06 08:00", "04-10 08:00"]),
        ("0 10 * * *", "3 days", ["03-25 09:00", "03-28 09:00", "03-31 08:00"]),
        ("0 0,12 * * *", "2 days", ["03-24 23:00", "03-25 11:00", "03-26 23:00"]),
        ("@monthly", "3 months", ["05-31 22:00", "08-31 22:00", "11-30 23:00"]),
        ("0 10 * * FRI#L", "2 months", ["03-27 09:00", "05-29 08:00", "07-31 08:00"]),
        ("0 10 31 * *", "2 months", ["03-31 08:00", "05-31 08:00", "07-31 08:00"]),
        ("0 10 1 7 *", "2 years", ["07-01 08:00"] * 3),
        ("0 10 * * MON", "1 week", ["03-30 08:00", "04-06 08:00", "04-13 08:00"]),
    ],
)
def test_every_nth_period_counts_from_that_of_the_start(
    text: str, every: str, expected: list[str]
) -> None:
    schedule = periodic(text, every, "2026-03-25T00:00")

    found = fire_times(schedule, Instant(0), FAR, 3)

    assert [f"{to_datetime(fire_at):%m-%d %H:%M}" for fire_at in found] == expected


def test_years_are_skipped() -> None:
    schedule = periodic("0 10 29 2 *", "3 years", "2025-01-01T00:00", "UTC")

    found = fire_times(schedule, Instant(0), FAR, 3)

    assert [utc(fire_at)[:10] for fire_at in found] == ["2028-02-29", "2040-02-29", "2052-02-29"]


NTHS = [
    ("0 1 * * *", "3 days"),
    ("*/20 0-3 * * *", "2 days"),
    ("30 * * * *", "2 days"),
    ("30 2 * * SUN,MON", "2 weeks"),
    ("0 */2 * * SAT-SUN", "3 weeks"),
    ("15 2 L * *", "2 months"),
    ("*/30 1 * * SUN#L", "5 months"),
    ("0 3 * 3,10 SUN", "2 years"),
]


@pytest.mark.parametrize("every", ["97 months", "97 years"])
def test_a_period_whose_first_match_is_centuries_away_has_none(every: str) -> None:
    leap_mondays = Schedule(
        text="0 0 29 2 MON", day_or=False, start_at="2027-01-02T00:00:00Z", every=every
    )

    assert next_fire(leap_mondays, at("2027-01-02T00:00:00Z")) is None


@given(
    nth=st.sampled_from(NTHS),
    place=st.sampled_from([place for place in CHANGES if place[0] != "Pacific/Apia"]),
    days_before=st.integers(1, 900),
    begin_minutes=st.integers(-3_000, 3_000),
    length_days=st.integers(0, 400),
)
def test_fire_times_of_every_nth_period_are_those_of_the_expression_in_it(
    nth: tuple[str, str],
    place: tuple[str, datetime],
    days_before: int,
    begin_minutes: int,
    length_days: int,
) -> None:
    text, every = nth
    zone, change = place
    start = (change - timedelta(days=days_before)).astimezone(ZoneInfo(zone)).date()
    schedule = periodic(text, every, f"{start}T00:00", zone)
    after = Instant(from_datetime(change) + begin_minutes * MINUTE - 1)
    until = Instant(after + length_days * DAY)

    found = fire_times(schedule, after, until, 10_000)

    plain = checked(replace(schedule, every=""))
    local = [
        (fire_at, to_datetime(fire_at).astimezone(ZoneInfo(zone)).date())
        for fire_at in fire_times(plain, after, until, 100_000)
    ]
    assert found == [fire_at for fire_at, day in local if is_nth(every, start, day)]
    assert latest_fire(schedule, after, until) == (found[-1] if found else None)


def is_nth(every: str, start: date, day: date) -> bool:
    count, unit = every.split()
    passed = {
        "days": (day - start).days,
        "weeks": (day - (start - timedelta(days=start.weekday()))).days // 7,
        "months": (day.year - start.year) * 12 + day.month - start.month,
        "years": day.year - start.year,
    }
    return passed[unit] % int(count) == 0


EVERY_DAY = "matches on every day; name times only, or count weeks or months"
ANY_WEEK = "names no days but plain weekdays; or count months"
PERIODS = 'write 1 to 100 days, weeks, months or years: "2 weeks"'


@pytest.mark.parametrize(
    ("text", "every", "start_at", "detail"),
    [
        ("@daily", "fortnight", "", "every: the periods are counted from startAt; add it"),
        (
            *("@daily", "fortnight", "2026-03-25T00:00"),
            f'every: "fortnight" is not a number of periods; {PERIODS}',
        ),
        (
            *("@daily", "101 days", "2026-03-25T00:00"),
            f'every: "101 days" is not a number of periods; {PERIODS}',
        ),
        (
            *("@every 5m", "2 days", "2026-03-25T00:00"),
            'every: "@every 5m" has no such field; remove it',
        ),
        (
            *("0 9 * * MON", "2 days", "2026-03-25T00:00"),
            f'every: "2 days" needs an expression that {EVERY_DAY}',
        ),
        *(
            (
                *(text, "2 weeks", "2026-03-25T00:00"),
                f'every: "2 weeks" needs an expression that {ANY_WEEK}',
            )
            for text in ("0 9 1 * *", "0 9 * * MON#1", "0 9 * 3 MON", "0 9 L * MON")
        ),
        (
            *("0 9 1 1 *", "2 months", "2026-02-25T00:00"),
            '"0 9 1 1 *" has no fire time in a period of every, 2 months, from startAt on',
        ),
    ],
)
def test_periods_that_do_not_suit_the_expression_are_refused(
    text: str, every: str, start_at: str, detail: str
) -> None:
    with pytest.raises(Refused) as refused:
        periodic(text, every, start_at)

    assert refused.value.detail == detail


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
        (at("2026-03-08T07:00"), "2026-03-08T03:00:00-04:00", "shifted out of a DST gap", "")
    ]


@pytest.mark.parametrize(
    ("text", "fields", "note"),
    [
        ("0 */2 * * *", {}, "no fire at 02:00, which the clock skips"),
        ("15 * * * *", {}, ""),
        (
            "*/15 2,4 * * *",
            {"gap": "skip"},
            "no fire at 02:00 and 02:15 and others, which the clock skips",
        ),
        ("30 2,4 * * *", {"gap": "skip"}, "no fire at 02:30, which the clock skips"),
        ("0 2,3 * * *", {}, "also for 02:00, which the clock skips"),
        (
            "15,45 2 * * *",
            {},
            "shifted out of a DST gap; also for 02:15 and 02:45, which the clock skips",
        ),
        ("30 2 * * *", {}, "shifted out of a DST gap"),
        ("0 4 * * *", {}, ""),
        ("@every 1h", {}, ""),
    ],
)
def test_preview_names_the_local_times_that_the_clock_skips(
    text: str, fields: dict[str, Any], note: str
) -> None:
    rule = checked(Schedule(text=text, timezone="America/New_York", **fields))

    fires = preview(rule, at("2026-03-08T05:30"), 4)

    assert [each.note for each in fires if each.note] == ([note] if note else [])


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
    assert all(previous_fire(schedule, later) == at for at, later in pairwise(times))
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


def test_the_fire_time_before_the_first_one_is_before_the_start() -> None:
    limited = checked(Schedule(text="0 9 * * MON", start_at="2027-03-01T00:00Z", every="2 weeks"))
    first = next_fire(limited, at("2027-01-01T00:00"))
    assert first is not None

    before = previous_fire(limited, first)

    assert before is not None
    assert (utc(before), utc(first)) == ("2027-02-15T09:00:00Z", "2027-03-01T09:00:00Z")


def test_a_single_fire_time_has_none_before_it() -> None:
    assert previous_fire(parse_schedule("@at 2027-01-01T00:00:00Z"), at("2027-01-01T00:00")) is None


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
