"""Calendars in their documents, compiled for decisions."""

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import date

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.errors import Problem
from rota.core.model.shared_document import SharedDocument
from rota.core.quoting import in_quotes
from rota.core.timing.calendars import Calendar, Window
from rota.core.timing.schedule import is_zone, unknown_zone
from rota.wire.documents import CalendarBody, WindowBody

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
DATES_MAX = 20_000
"""The most days in the ranges of one calendar: more than fifty years."""
_MINUTE = re.compile(r"(\d\d):(\d\d)", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_YEARLY = re.compile(r"(\d\d)-(\d\d)", re.ASCII)
_LEAP_YEAR = 2000


def calendar_in(document: SharedDocument) -> Calendar:
    """Return the calendar of a document; an empty one if this version cannot read it."""
    try:
        body = msgspec.convert(document.definition, CalendarBody)
        return calendar_of(document.name, document.version, body)
    except (*UNDECODABLE, ValueError):
        return Calendar(name=document.name, version=document.version)


def calendar_of(name: str, version: int, body: CalendarBody) -> Calendar:
    """Return the calendar that *body* defines.

    Raises:
        ValueError: A field is invalid; see `problems_of_calendar`.
    """
    dates = [each for each in body.dates if not _YEARLY.fullmatch(each)]
    yearly = [each for each in body.dates if _YEARLY.fullmatch(each)]
    return Calendar(
        name=name,
        version=version,
        dates=frozenset(day for each in dates for day in _days_in(each)),
        yearly=frozenset(map(_yearly_day, yearly)),
        weekdays=_mask(body.weekdays),
        month_days=tuple(filter(None, body.month_days)),
        windows=tuple(map(_window, body.windows)),
        includes=tuple(body.includes),
        excludes=tuple(body.excludes),
        timezone=body.timezone,
        blackout_of=tuple(body.blackout_of),
        nth=tuple(filter(None, body.nth)),
    )


def problems_of_calendar(body: CalendarBody) -> Iterator[Problem]:
    """Yield the errors of a calendar by itself, not of the names in it."""
    yield from _faults("/dates", body.dates, _read_date)
    yield from _faults("/weekdays", body.weekdays, _weekdays)
    for number, window in enumerate(body.windows):
        yield from _faults(f"/windows/{number}/weekdays", window.weekdays, _weekdays)
        for field, text in (("start", window.start), ("end", window.end)):
            for problem in _faults("", [text], _minute):
                yield Problem(f"/windows/{number}/{field}", problem.detail)
    for field, days in (("monthDays", body.month_days), ("nth", body.nth)):
        for number, day in enumerate(days):
            if not day:
                detail = "0 is no day of a month; days go from 1 to 31, or back from -1 to -31"
                yield Problem(f"/{field}/{number}", detail)
    if body.timezone and not is_zone(body.timezone):
        yield Problem("/timezone", unknown_zone(body.timezone).detail)
    if sum(map(_length, body.dates)) > DATES_MAX:
        detail = f"the ranges have more than {DATES_MAX:,} days; use several calendars"
        yield Problem("/dates", detail)


def _faults(pointer: str, texts: Iterable[str], read: Callable[[str], object]) -> Iterator[Problem]:
    for number, text in enumerate(texts):
        try:
            read(text)
        except ValueError as error:
            yield Problem(f"{pointer}/{number}", f"{in_quotes(text)} {error}")


def _read_date(text: str) -> object:
    return _yearly_day(text) if _YEARLY.fullmatch(text) else _range(text)


def _length(text: str) -> int:
    try:
        first, last = _range(text)
    except ValueError:
        return 1
    return last - first + 1


def _range(text: str) -> tuple[int, int]:
    """Return the ordinals of the first and the last day of a date or a range."""
    first, _, last = text.partition("..")
    ends = [_date(each).toordinal() for each in (first, last or first)]
    if ends[0] > ends[1]:
        raise ValueError("ends before it begins; write the earlier date first")
    return ends[0], ends[1]


def _days_in(text: str) -> range:
    first, last = _range(text)
    return range(first, last + 1)


def _date(text: str) -> date:
    rule = "is no date; write 2027-12-24, 2027-12-24..2027-12-26, or 12-24 for each year"
    if not _DATE.fullmatch(text):
        raise ValueError(rule)
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError("is no day of the calendar") from None


def _yearly_day(text: str) -> tuple[int, int]:
    month, day = (int(part) for part in text.split("-"))
    try:
        date(_LEAP_YEAR, month, day)
    except ValueError:
        raise ValueError("is no day of a year") from None
    return month, day


def _mask(texts: Iterable[str]) -> int:
    return sum({1 << day for text in texts for day in _weekdays(text)})


def _weekdays(text: str) -> list[int]:
    """Return the numbers of a weekday, or of a range such as ``FRI-MON``; Monday is 0."""
    first, dash, last = text.partition("-")
    begin = _weekday(first)
    end = _weekday(last) if dash else begin
    return [(begin + n) % 7 for n in range((end - begin) % 7 + 1)]


def _weekday(text: str) -> int:
    for number, name in enumerate(WEEKDAYS):
        if text.lower() in (name, name[:3]):
            return number
    raise ValueError("is no weekday; write MON, TUE, WED, THU, FRI, SAT, SUN, or MON-FRI")


def _window(body: WindowBody) -> Window:
    mask = _mask(body.weekdays) if body.weekdays else (1 << 7) - 1
    return Window(start=_minute(body.start) % 1440, end=_minute(body.end), weekdays=mask)


def _minute(text: str) -> int:
    found = _MINUTE.fullmatch(text)
    minute = int(found[1]) * 60 + int(found[2]) if found else 0
    if found is None or int(found[2]) > 59 or minute > 24 * 60:
        raise ValueError("is no time of day; write 09:30, from 00:00 to 24:00")
    return minute
