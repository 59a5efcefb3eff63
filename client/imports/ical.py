"""Calendars in iCalendar files (RFC 5545) as calendars of rota.

Events of whole days are dates. A rule on a fixed day of each year without an end is a day of each
year; other rules are expanded. An event with times is a window if it repeats on weekdays without
an end, in the time zone of the calendar; others are lost, with a note.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

import msgspec

from rota.client.imports.calendar_days import check_size, dates_of
from rota.client.imports.drafts import Findings, Note, Source
from rota.client.imports.ical_lines import Event, Property, read_events
from rota.core.timing.recurrence import (
    Rule,
    Work,
    WorkUsedUp,
    occurrences,
    parse_rule,
)
from rota.core.timing.schedule import is_zone

SPAN_DAYS_MAX = 3_660
"""The most days of one event."""
EXPANDED_MAX = 200_000
"""The most days of all rules of a file that are expanded."""
NAMES = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_DATE = re.compile(r"\d{8}", re.ASCII)
_TIME = re.compile(r"(\d{8}T\d{6})(Z?)", re.ASCII)
_DURATION = re.compile(
    r"\+?P(?:(\d+)W|(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?)", re.ASCII
)
_BY_HAND = "add it by hand, as dates or windows, if it counts"


class ImportedCalendar(msgspec.Struct, frozen=True):
    """A calendar of a file.

    Attributes:
        definition: Its definition.
        report: What is lost or changed, in the order of the lines.
    """

    definition: dict[str, Any]  # Any: JSON.
    report: list[Note]

    @property
    def is_whole(self) -> bool:
        """Whether nothing was lost."""
        return all(note.effect != "lost" for note in self.report)


@dataclass(slots=True)
class _Reading:
    """What has been read of a file."""

    findings: Findings
    today: date
    until: date
    zone: str
    days: set[date] = field(default_factory=set[date])
    yearly: set[str] = field(default_factory=set[str])
    windows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])  # Any: JSON.
    expanded: int = 0
    work: Work = field(default_factory=Work)

    def lose(self, event: Event, line: int, why: str, remedy: str = _BY_HAND) -> None:
        self.findings.lose(line, f"the event {event.title} {why}", remedy)


class _Unusable(Exception):
    """An event cannot be carried over; the text says why."""

    def __init__(self, found: Property, why: str) -> None:
        super().__init__(why)
        self.line = found.line


def imported_calendar(
    source: Source, *, today: date, until: date, timezone: str = ""
) -> ImportedCalendar:
    """Return the calendar in a file.

    Args:
        source: The file.
        today: The present day; rules are expanded from the begin of its year.
        until: The last day to which rules are expanded.
        timezone: The zone of the calendar; empty for that which the file names, if any.

    Raises:
        InvalidFile: The file is invalid, or the calendar would be too large.
    """
    whole, events = read_events(source)
    zone = timezone or _zone_of(whole, events)
    reading = _Reading(Findings(source.name), today, until, zone)
    exceptions = _replaced(reading, events)
    for event in events:
        _read(reading, event, exceptions.get(event.text("UID"), set()))
    definition: dict[str, Any] = {
        "description": whole.text("X-WR-CALNAME"),
        "source": f"{source.name.rpartition('/')[2]}, rules until {until.isoformat()}"[:1000],
        "dates": dates_of(reading.days, reading.yearly),
        "windows": reading.windows,
        "timezone": zone if timezone or reading.windows or _zone_of(whole, ()) else "",
    }
    kept = {name: value for name, value in definition.items() if value}
    check_size(kept, source.name, "give an earlier --until, or import parts of the file")
    notes = sorted(reading.findings.notes, key=lambda note: note.line)
    return ImportedCalendar(kept, notes)


def _zone_of(whole: Event, events: Iterable[Event]) -> str:
    """Return the zone that a file names for all events, or else for the first one with times."""
    named = [whole.text("X-WR-TIMEZONE")]
    starts = (event.one("DTSTART") for event in events)
    named += [_zone_in(start) for start in starts if start and _TIME.fullmatch(start.value)]
    return next((zone for zone in named if zone and is_zone(zone)), "")


def _zone_in(found: Property) -> str:
    return "UTC" if found.value.endswith("Z") else found.parameters.get("TZID", "")


def _replaced(reading: _Reading, events: list[Event]) -> dict[str, set[date]]:
    """Return, by UID, the days of rules whose occurrence is an event of its own."""
    found: dict[str, set[date]] = defaultdict(set)
    for event in events:
        changed = event.one("RECURRENCE-ID")
        if changed is not None:
            day = _day(reading, changed)
            found[event.text("UID")].add(day)
    return found


def _read(reading: _Reading, event: Event, exceptions: set[date]) -> None:
    start = event.one("DTSTART")
    if start is None:
        detail = f"the event {event.title} has no DTSTART; correct or remove it"
        raise reading.findings.invalid(event.line, detail)
    if event.text("STATUS").upper() == "CANCELLED":
        reading.findings.change(
            event.line, f"the event {event.title} is cancelled", "nothing; it is left out"
        )
        return
    try:
        if _DATE.fullmatch(start.value) or _is_midnight(reading, event, start):
            _add_days(reading, event, start, exceptions)
        else:
            _add_window(reading, event, start, exceptions)
    except _Unusable as error:
        reading.lose(event, error.line, str(error))
    except WorkUsedUp as error:
        detail = f"the rules and days of the file {error} up to here"
        remedy = "let rules begin later, or import parts of the file"
        found = event.one("RRULE") or start
        raise reading.findings.invalid(found.line, f"{detail}; {remedy}") from None


# -- whole days -----------------------------------------------------------------------------------


def _is_midnight(reading: _Reading, event: Event, start: Property) -> bool:
    """Return True if an event with times has whole days of the calendar's zone."""
    end = event.one("DTEND")
    if end is None or not _is_local(reading, start) or not _is_local(reading, end):
        return False
    begins, ends = _wall(reading, start), _wall(reading, end)
    return begins < ends and not any(each.time() != datetime.min.time() for each in (begins, ends))


def _add_days(reading: _Reading, event: Event, start: Property, exceptions: set[date]) -> None:
    first = _day(reading, start)
    length = _length(reading, event, start, first)
    span = [timedelta(days=number) for number in range(length)]
    rules = event.all("RRULE")
    left_out = exceptions | {day for each in event.all("EXDATE") for day in _days_in(reading, each)}
    if event.one("RECURRENCE-ID") is not None:
        left_out = set[date]()
    begins = set[date]() if rules else {first}  # A rule has its first day.
    for each in event.all("RDATE"):
        begins |= set(_days_in(reading, each))
    for each in rules:
        rule = _rule(each)
        is_alone = len(rules) == 1 and not (begins or left_out)
        if is_alone and _is_yearly(reading, rule, first, length):
            reading.yearly |= {f"{first + day:%m-%d}" for day in span}
            return
        begins |= set(_expanded(reading, event, each, rule, first))
    begins -= left_out
    reading.work.spend(len(begins) * length)
    _check_end(start, max(begins, default=first), length)
    reading.days |= {begin + day for begin in begins for day in span}


def _check_end(found: Property, begin: date, length: int) -> None:
    """Check that the days of an event exist.

    Raises:
        _Unusable: It ends after the year 9999.
    """
    if length - 1 > (date.max - begin).days:
        raise _Unusable(found, f"has days after the year {date.max.year}")


def _is_yearly(reading: _Reading, rule: Rule, first: date, length: int) -> bool:
    """Return True if a rule has the same days in each year."""
    is_plain = not (rule.weekdays or rule.positions) and rule.is_endless
    is_fixed = (
        rule.frequency == "YEARLY"
        and list(rule.months) in ([], [first.month])
        and list(rule.month_days) in ([], [first.day])
        and not (rule.month_days and not rule.months)
    )
    # In leap years, what passes the end of February has another day.
    others = [first + timedelta(days=number) for number in range(1, length)]
    passes_february = any((day.month, day.day) in ((2, 29), (3, 1)) for day in others)
    return is_plain and is_fixed and not passes_february and first.year <= reading.today.year


def _expanded(
    reading: _Reading, event: Event, found: Property, rule: Rule, first: date
) -> list[date]:
    try:
        days = occurrences(rule, first, reading.until, reading.work)
    except ValueError as error:
        raise _Unusable(found, f"repeats by a rule that {error}") from None
    reading.expanded += len(days)
    if reading.expanded > EXPANDED_MAX:
        detail = f"the rules of the file have more than {EXPANDED_MAX:,} days"
        raise reading.findings.invalid(found.line, f"{detail}; give an earlier --until")
    if rule.until is None and rule.count is None:
        what = f"the event {event.title} repeats without an end; its days end {reading.until}"
        reading.findings.change(found.line, what, "import the file again before that day")
    begin = date(reading.today.year, 1, 1)
    return [day for day in days if day >= begin or rule.until or rule.count]


def _rule(found: Property) -> Rule:
    try:
        return parse_rule(found.value)
    except ValueError as error:
        raise _Unusable(found, f"repeats by a rule that {error}") from None


def _length(reading: _Reading, event: Event, start: Property, first: date) -> int:
    """Return the number of days of an event; a file may give it none, for one day."""
    end, duration = event.one("DTEND"), event.one("DURATION")
    if end is not None:
        days, place = (_day(reading, end) - first).days, end
    elif duration is not None:
        seconds, place = _seconds(reading, duration), duration
        if seconds % 86_400:
            raise _Unusable(duration, "has a part of a day as its duration")
        days = seconds // 86_400
    else:
        days, place = 1, start
    if not 0 <= days <= SPAN_DAYS_MAX:
        detail = f"the event {event.title} has {days:,} days; correct its end"
        raise reading.findings.invalid(place.line, detail)
    _check_end(place, first, days)
    return max(days, 1)


# -- parts of days --------------------------------------------------------------------------------


def _add_window(reading: _Reading, event: Event, start: Property, exceptions: set[date]) -> None:
    begins = _wall(reading, start)
    if not _is_local(reading, start):
        zone = _zone_in(start)
        raise _Unusable(start, f"has times in the zone {zone}, not that of the calendar")
    rules = event.all("RRULE")
    if len(rules) != 1:
        raise _Unusable(start, "has times of one day, which no window can say")
    if exceptions or event.one("EXDATE") or event.one("RDATE"):
        raise _Unusable(start, "has times and exceptions, which no window can say")
    rule = _rule(rules[0])
    is_weekly = rule.frequency in ("DAILY", "WEEKLY") and rule.is_endless
    if not is_weekly or rule.months or rule.month_days or rule.positions:
        raise _Unusable(rules[0], "has times, and repeats otherwise than on weekdays for ever")
    if begins.date() > reading.today:
        raise _Unusable(start, "has times, and begins later, which no window can say")
    minutes = _minutes(reading, event, start, begins)
    weekdays = sorted({day for day, _ in rule.weekdays})
    if rule.frequency == "WEEKLY" and not weekdays:
        weekdays = [begins.weekday()]
    ends = begins + timedelta(minutes=minutes)
    is_midnight = ends.time() == datetime.min.time()
    window: dict[str, Any] = {
        "start": f"{begins:%H:%M}",
        "end": "24:00" if is_midnight else f"{ends:%H:%M}",
    }
    if weekdays:
        window["weekdays"] = [NAMES[day] for day in weekdays]
    if window not in reading.windows:
        reading.windows.append(window)
    if len(reading.windows) > 100:
        detail = "the file has more than 100 events with times; import parts of it"
        raise reading.findings.invalid(start.line, detail)


def _minutes(reading: _Reading, event: Event, start: Property, begins: datetime) -> int:
    end, duration = event.one("DTEND"), event.one("DURATION")
    if end is not None:
        if _zone_in(end) != _zone_in(start):
            raise _Unusable(end, "begins and ends in different time zones")
        seconds = int((_wall(reading, end) - begins).total_seconds())
    else:
        seconds = _seconds(reading, duration) if duration else 0
    if begins.second or seconds % 60 or not 0 < seconds <= 86_400:
        raise _Unusable(end or duration or start, "is no window of whole minutes of at most a day")
    return seconds // 60


def _is_local(reading: _Reading, found: Property) -> bool:
    """Return True if a time is in the zone of the calendar, or in none."""
    return _zone_in(found) in ("", reading.zone)


# -- values ---------------------------------------------------------------------------------------


def _wall(reading: _Reading, found: Property) -> datetime:
    time = _TIME.fullmatch(found.value)
    try:
        return datetime.strptime(time[1] if time else "", "%Y%m%dT%H%M%S")  # noqa: DTZ007 - local
    except ValueError:
        raise _no_value(reading, found, "time", "20271224T180000") from None


def _day(reading: _Reading, found: Property) -> date:
    return _read_day(reading, found, found.value)


def _read_day(reading: _Reading, found: Property, text: str) -> date:
    if not (_DATE.fullmatch(text) or _TIME.fullmatch(text)):
        raise _no_value(reading, found, "date", "20271224")
    try:
        return date.fromisoformat(text[:8])
    except ValueError:
        raise _no_value(reading, found, "date", "20271224") from None


def _days_in(reading: _Reading, found: Property) -> list[date]:
    if found.parameters.get("VALUE") == "PERIOD":
        raise _Unusable(found, f"has periods in {found.name}")
    return [_read_day(reading, found, text) for text in found.value.split(",")]


def _seconds(reading: _Reading, found: Property) -> int:
    parts = _DURATION.fullmatch(found.value)
    if parts is None or not any(parts.groups()):
        raise _no_value(reading, found, "duration", "P1D")
    weeks, days, hours, minutes, seconds = (int((part or "0")[:9]) for part in parts.groups())
    return (weeks * 7 + days) * 86_400 + hours * 3600 + minutes * 60 + seconds


def _no_value(reading: _Reading, found: Property, what: str, example: str) -> Exception:
    detail = f"{found.name} has {found.value[:40]!r}, which is no {what}; write {example}"
    return reading.findings.invalid(found.line, detail)
