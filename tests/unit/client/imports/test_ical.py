"""Calendars in iCalendar files."""

from datetime import date
from typing import Any

import msgspec
import pytest

from rota.client.definitions import InvalidFile
from rota.client.imports import ical, ical_lines
from rota.client.imports.drafts import Source
from rota.client.imports.ical import ImportedCalendar, imported_calendar
from rota.core.timing import recurrence
from rota.wire.bodies.calendar_bodies import problems_of_calendar
from rota.wire.documents import CalendarBody

TODAY, UNTIL = date(2026, 11, 29), date(2028, 12, 31)


def file_of(*lines: str) -> str:
    """Return a file with the properties of one event; the first is line 3."""
    return "\r\n".join(("BEGIN:VCALENDAR", "BEGIN:VEVENT", *lines, "END:VEVENT", "END:VCALENDAR"))


def read(text: str, **options: Any) -> ImportedCalendar:
    """Return the calendar of a file; a node would accept it."""
    found = imported_calendar(Source("a/x.ics", text), today=TODAY, until=UNTIL, **options)
    body = msgspec.convert(found.definition, CalendarBody)
    assert not list(problems_of_calendar(body))
    return found


def event(*lines: str, **options: Any) -> ImportedCalendar:
    """Return the calendar of a file with one event, whose properties begin in line 3."""
    return read(file_of(*lines), **options)


def notes(found: ImportedCalendar) -> list[tuple[int, str, str]]:
    """Return line, effect and text of each note."""
    return [(note.line, note.effect, note.what) for note in found.report]


DAY = "DTSTART;VALUE=DATE:20271224"


@pytest.mark.parametrize(
    ("lines", "dates"),
    [
        ([DAY], ["2027-12-24"]),
        ([DAY, "DTEND;VALUE=DATE:20271227"], ["2027-12-24..2027-12-26"]),
        ([DAY, "DTEND;VALUE=DATE:20271224"], ["2027-12-24"]),
        ([DAY, "DURATION:P1W"], ["2027-12-24..2027-12-30"]),
        ([DAY, "RDATE;VALUE=DATE:20280101,20280106"], ["2027-12-24", "2028-01-01", "2028-01-06"]),
        ([DAY, "RRULE:FREQ=DAILY;COUNT=3", "EXDATE;VALUE=DATE:20271225"],
         ["2027-12-24", "2027-12-26"]),
        (["DTSTART;VALUE=DATE:20201224", "RRULE:FREQ=YEARLY"], ["12-24"]),
        (["DTSTART;VALUE=DATE:20201224", "RRULE:FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=24"], ["12-24"]),
        (["DTSTART;VALUE=DATE:20201231", "DURATION:P2D", "RRULE:FREQ=YEARLY"], ["01-01", "12-31"]),
        ([DAY, "RRULE:FREQ=YEARLY"], ["2027-12-24", "2028-12-24"]),
        (["DTSTART;VALUE=DATE:20200228", "DURATION:P2D", "RRULE:FREQ=YEARLY"],
         ["2026-02-28..2026-03-01", "2027-02-28..2027-03-01", "2028-02-28..2028-02-29"]),
        (["DTSTART;VALUE=DATE:20251127", "RRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH"],
         ["2026-11-26", "2027-11-25", "2028-11-23"]),
        (["DTSTART:20271224T000000", "DTEND:20271226T000000"], ["2027-12-24..2027-12-25"]),
    ],
)  # fmt: skip
def test_events_of_whole_days_are_dates(lines: list[str], dates: list[str]) -> None:
    found = event(*lines)

    assert found.definition["dates"] == dates
    assert found.is_whole


def test_a_rule_without_an_end_is_reported_with_its_last_day() -> None:
    found = event("DTSTART;VALUE=DATE:20251127", "RRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH")

    what = "the event 'without a summary' repeats without an end; its days end 2028-12-31"
    assert notes(found) == [(4, "changed", what)]
    assert found.definition["source"] == "x.ics, rules until 2028-12-31"


def test_an_occurrence_that_moved_is_not_at_its_old_day() -> None:
    moved = file_of("UID:a", "RECURRENCE-ID;VALUE=DATE:20271225", "DTSTART;VALUE=DATE:20271228")
    text = file_of("UID:a", DAY, "RRULE:FREQ=DAILY;COUNT=3")
    body = moved.removeprefix("BEGIN:VCALENDAR\r\n")

    found = read(text.removesuffix("END:VCALENDAR") + body)

    assert found.definition["dates"] == ["2027-12-24", "2027-12-26", "2027-12-28"]


@pytest.mark.parametrize(
    ("lines", "window"),
    [
        (["DTSTART:20260105T220000", "DTEND:20260106T060000", "RRULE:FREQ=WEEKLY;BYDAY=MO,FR"],
         {"start": "22:00", "end": "06:00", "weekdays": ["MON", "FRI"]}),
        (["DTSTART:20260105T220000", "DURATION:PT2H", "RRULE:FREQ=DAILY"],
         {"start": "22:00", "end": "24:00"}),
        (["DTSTART:20260105T083000", "DURATION:PT90M", "RRULE:FREQ=WEEKLY"],
         {"start": "08:30", "end": "10:00", "weekdays": ["MON"]}),
    ],
)  # fmt: skip
def test_times_that_repeat_on_weekdays_are_windows(lines: list[str], window: Any) -> None:
    found = event(*lines)

    assert (found.definition["windows"], found.is_whole) == ([window], True)


def test_the_zone_of_the_times_is_that_of_the_calendar() -> None:
    start = "DTSTART;TZID=Europe/Berlin:20260105T220000"
    rule = ["DURATION:PT1H", "RRULE:FREQ=DAILY"]

    assert event(start, *rule).definition["timezone"] == "Europe/Berlin"
    assert notes(event(start, *rule, timezone="Asia/Tokyo"))[0][2].endswith(
        "has times in the zone Europe/Berlin, not that of the calendar"
    )


@pytest.mark.parametrize(
    ("lines", "line", "why"),
    [
        (["DTSTART:20271224T180000Z"], 3, "has times of one day, which no window can say"),
        (["DTSTART:20260105T180000", "RRULE:FREQ=DAILY;COUNT=2", "DURATION:PT1H"], 4,
         "has times, and repeats otherwise than on weekdays for ever"),
        (["DTSTART:20260105T180000", "RRULE:FREQ=DAILY", "EXDATE:20260106T180000"], 3,
         "has times and exceptions"),
        (["DTSTART:20270105T180000", "RRULE:FREQ=DAILY", "DURATION:PT1H"], 3, "begins later"),
        (["DTSTART:20260105T180000", "RRULE:FREQ=DAILY", "DURATION:PT25H"], 5, "no window of"),
        ([DAY, "RRULE:FREQ=YEARLY;BYWEEKNO=1"], 4, "BYWEEKNO, which is not supported"),
        (["DTSTART;VALUE=DATE:99991231", "DURATION:P10D"], 4, "has days after the year 9999"),
        (["DTSTART;VALUE=DATE:99991231", "DURATION:P2D", "RRULE:FREQ=YEARLY"], 4, "the year 9999"),
        ([DAY, "RDATE;VALUE=DATE:99991231", "DURATION:P2D"], 3, "has days after the year 9999"),
        ([DAY, "DURATION:PT5H"], 4, "has a part of a day as its duration"),
    ],
)  # fmt: skip
def test_what_a_calendar_cannot_say_is_lost_with_its_line(
    lines: list[str], line: int, why: str
) -> None:
    found = event(*lines, "SUMMARY:Party\\, at home")

    [(at, effect, what)] = notes(found)
    assert (at, effect) == (line, "lost")
    assert "'Party, at home'" in what
    assert why in what
    assert not found.is_whole
    assert "dates" not in found.definition


def test_a_cancelled_event_is_left_out() -> None:
    found = event(DAY, "STATUS:CANCELLED")

    assert "dates" not in found.definition
    assert [note.effect for note in found.report] == ["changed"]


def test_folded_lines_and_other_components_are_read() -> None:
    text = file_of("DTSTART;VALUE=DA", " TE:20271224", "BEGIN:VALARM", "TRIGGER:-P1D", "END:VALARM")
    text = text.replace("BEGIN:VEVENT", "X-WR-CALNAME:Free days\r\nBEGIN:VEVENT")

    found = read(text)

    assert found.definition["dates"] == ["2027-12-24"]
    assert found.definition["description"] == "Free days"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("name: a\n", "x.ics:1: the file is no iCalendar file"),
        ("", "x.ics:1: the file is no iCalendar file"),
        ("BEGIN:VTODO\nEND:VTODO", "x.ics:1: the file is no iCalendar file"),
        ("BEGIN:VCALENDAR\nBEGIN:VEVENT", "x.ics:2: VEVENT has no end; the file is cut off"),
        ("BEGIN:VCALENDAR\nEND:VEVENT", "x.ics:2: END:VEVENT ends nothing that is open"),
        ("BEGIN:VCALENDAR\n!!\nEND:VCALENDAR", "x.ics:2: '!!' is no NAME:VALUE; correct"),
        (file_of("SUMMARY:x"), "x.ics:2: the event 'x' has no DTSTART"),
        (file_of("DTSTART:2027"), "x.ics:3: DTSTART has '2027', which is no time"),
        (file_of("DTSTART:20270231"), "x.ics:3: DTSTART has '20270231', which is no date"),
        (file_of(DAY, "DTEND:20271201"), "x.ics:4: the event .* has -23 days; correct its end"),
        (file_of(DAY, "DURATION:1D"), "x.ics:4: DURATION has '1D', which is no duration"),
    ],
)
def test_an_invalid_file_is_refused_with_the_line(text: str, reason: str) -> None:
    with pytest.raises(InvalidFile, match=f"^a/{reason}"):
        read(text)


def test_a_file_has_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = ",".join(f"{day:%Y%m%d}" for day in map(date.fromordinal, range(700_000, 711_000, 2)))
    with pytest.raises(InvalidFile, match="has 5,501 dates and ranges, and may have 5,000"):
        event(DAY, f"RDATE;VALUE=DATE:{odd}")

    monkeypatch.setattr(ical, "EXPANDED_MAX", 2)
    with pytest.raises(InvalidFile, match=":4: the rules of the file have more than 2 days"):
        event(DAY, "RRULE:FREQ=DAILY")

    monkeypatch.setattr(ical_lines, "EVENTS_MAX", 0)
    with pytest.raises(InvalidFile, match=":2: the file has more than 0 events; import parts"):
        event(DAY)


CENTURIES = ("DTSTART;VALUE=DATE:16000101", "RRULE:FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=31;COUNT=2")


def repeated(count: int, *lines: str) -> str:
    """Return a file with *count* equal events."""
    return file_of(*("\r\n".join(lines), "END:VEVENT\r\nBEGIN:VEVENT") * (count - 1), *lines)


@pytest.mark.parametrize(
    ("count", "lines"),
    [
        (3, CENTURIES),
        (2, (DAY, "RRULE:FREQ=DAILY;COUNT=4000")),
        (2, (DAY, "RRULE:FREQ=DAILY;COUNT=4", "DURATION:P3660D")),
        (6, ("DTSTART;VALUE=DATE:19000101", "DURATION:P3660D")),
    ],
)
def test_the_events_of_a_file_share_one_limit_of_work(
    count: int, lines: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recurrence, "STEPS_MAX", 20_000)
    until = date(2059, 12, 31)
    imported_calendar(Source("x.ics", repeated(1, *lines)), today=TODAY, until=until)

    with pytest.raises(InvalidFile, match=r"x.ics:\d+: the rules and days .* than 20,000 steps"):
        imported_calendar(Source("x.ics", repeated(count, *lines)), today=TODAY, until=until)


def test_a_yearly_rule_of_decades_examines_its_month_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recurrence, "STEPS_MAX", 2_000)

    found = event("DTSTART;VALUE=DATE:19701126", "RRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH")

    assert found.definition["dates"] == ["2026-11-26", "2027-11-25", "2028-11-23"]
