"""Calendars written a second time, for the audit: whether a local time is in one.

A node compiles calendars; this reads the fields of the documents as they are, time by time.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec

from rota.client.cli.audit.local_times import first_instant_of, shown_at
from rota.core.timing.instants import Instant
from rota.wire.documents import CalendarBody, DocumentView, WindowBody

WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
LEVELS_MAX = 20
"""More than the API permits; an end for calendars that contain themselves."""
NAMED = re.compile(r"calendar (?P<name>\S+) \(version (?P<version>\d+)\)")
"""A calendar in the reason of an excluded fire time."""


class CalendarTimes:
    """The times of calendars.

    Args:
        documents: All calendars.
    """

    def __init__(self, documents: Iterable[DocumentView]) -> None:
        self.documents: Mapping[str, DocumentView] = {each.name: each for each in documents}
        self._bodies = {
            name: msgspec.convert(each.definition, CalendarBody)
            for name, each in self.documents.items()
        }

    def blackouts_of(self, namespace: str) -> list[str]:
        """Return the names of the calendars that stop the jobs of a namespace."""
        return [
            name
            for name, body in self._bodies.items()
            if {namespace, "*"}.intersection(body.blackout_of)
        ]

    def used_by(self, names: Iterable[str]) -> set[str]:
        """Return *names* and the names of all calendars that these contain."""
        found, waiting = set[str](), list(names)
        while waiting:
            name = waiting.pop()
            if name not in found and name in self._bodies:
                waiting += [*self._bodies[name].includes, *self._bodies[name].excludes]
            found.add(name)
        return found

    def has(self, name: str, at: Instant, zone: ZoneInfo, level: int = 0) -> bool:
        """Return True if the calendar *name* has the instant *at*, in *zone* unless it has its own.

        A calendar that does not exist has none.
        """
        body = self._bodies.get(name)
        if body is None or level > LEVELS_MAX:
            return False
        return self._has_any(body, at, zone, level) and (
            not body.nth or self._is_nth(body, at, zone, level)
        )

    def _is_nth(self, body: CalendarBody, at: Instant, zone: ZoneInfo, level: int) -> bool:
        own = ZoneInfo(body.timezone) if body.timezone else zone
        noon = shown_at(at, own).replace(hour=12, minute=0, second=0, microsecond=0)
        days = [noon.replace(day=1) + timedelta(days=number) for number in range(31)]
        has = [
            day.day
            for day in days
            if day.month == noon.month
            and self._has_any(body, first_instant_of(day, own), zone, level)
        ]
        if noon.day not in has:
            return False
        place = has.index(noon.day)
        return place + 1 in body.nth or place - len(has) in body.nth

    def _has_any(self, body: CalendarBody, at: Instant, zone: ZoneInfo, level: int) -> bool:
        if any(self.has(each, at, zone, level + 1) for each in body.excludes):
            return False
        wall = shown_at(at, ZoneInfo(body.timezone) if body.timezone else zone)
        return _has_time(body, wall) or any(
            self.has(each, at, zone, level + 1) for each in body.includes
        )


def _has_time(body: CalendarBody, wall: datetime) -> bool:
    day = wall.date()
    month_end = (day.replace(day=1) + timedelta(days=31)).replace(day=1) - timedelta(days=1)
    return (
        any(_has_day(text, day) for text in body.dates)
        or day.weekday() in _weekdays(body.weekdays)
        or day.day in body.month_days
        or day.day - month_end.day - 1 in body.month_days
        or any(_is_within(window, wall, before) for window in body.windows for before in (0, 1))
    )


def _has_day(text: str, day: date) -> bool:
    if len(text) == len("12-24"):
        return text == f"{day:%m-%d}"
    first, _, last = text.partition("..")
    return date.fromisoformat(first) <= day <= date.fromisoformat(last or first)


def _is_within(window: WindowBody, wall: datetime, days_before: int) -> bool:
    """Return True if *wall* is in the window that begins so many days before."""
    midnight = datetime.combine(wall.date() - timedelta(days=days_before), datetime.min.time())
    begin = midnight + _clock(window.start) % timedelta(days=1)
    end = midnight + _clock(window.end)
    if end <= begin:
        end += timedelta(days=1)
    weekdays = _weekdays(window.weekdays or ["MON-SUN"])
    return begin <= wall < end and midnight.weekday() in weekdays


def _clock(text: str) -> timedelta:
    hours, minutes = text.split(":")
    return timedelta(hours=int(hours), minutes=int(minutes))


def _weekdays(texts: Iterable[str]) -> set[int]:
    found = set[int]()
    for text in texts:
        first, _, last = text.upper().partition("-")
        day, end = WEEKDAYS.index(first[:3]), WEEKDAYS.index((last or first)[:3])
        found.add(day)
        while day != end:
            day = (day + 1) % 7
            found.add(day)
    return found
