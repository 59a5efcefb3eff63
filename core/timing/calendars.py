"""Calendars: sets of local times, such as holidays or business hours, that exclude fire times.

A calendar is the union of its dates, weekdays, days of months, windows and other calendars, without
those of its ``except``. A date is a whole local day. The local times are those of the calendar's
zone or, if it has none, of the schedule.

A fire time is excluded if it is in none of a job's ``only`` calendars (if there are any), in one of
its ``except`` calendars, or in a blackout of its namespace. A missing calendar is empty.

A calendar changes its answer only at its *edges*: local midnights, and the ends of windows. The end
of an excluded stretch is found from edge to edge, however dense a schedule is.
"""

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta, tzinfo
from itertools import takewhile
from types import MappingProxyType

import msgspec

from rota.core.timing.clock_changes import first_instant, instants_at
from rota.core.timing.instants import DAY, MICROSECOND, Instant, to_datetime
from rota.core.timing.schedule import (
    Schedule,
    latest_fire,
    load_zone,
    next_fire,
    previous_fire,
)

DEPTH_MAX = 8
"""The most calendars in a chain each of which contains the next."""
STRETCH_DAYS_MAX = 400
"""The most days of an excluded stretch: more than a year. What is later counts as never."""
EDGES_MAX = 1_000
"""The most edges that one search for a fire time examines: about 10 ms. Then it finds none."""
DAYS_AHEAD_MAX = 31
"""The most days after an excluded stretch on which a fire looks for its local time."""
DEFERRAL_COST = 20
"""What the examination of a fire time that may be deferred costs, in edges."""
EVERYWHERE = "*"
"""The namespace of blackouts that stop all jobs."""
_MINUTES = 24 * 60


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """A part of some days.

    Attributes:
        start: Its first minute of the day.
        end: The minute at which it ends; if that is not later than *start*, on the next day.
        weekdays: Mask of the weekdays on which it begins, Monday being bit 0.
    """

    start: int
    end: int
    weekdays: int = 0b111_1111

    def covers(self, wall: datetime) -> bool:
        """Return True if the local time *wall* is in the window."""
        minute, weekday = wall.hour * 60 + wall.minute, wall.weekday()
        if self.start < self.end:
            return self.start <= minute < self.end and bool(self.weekdays >> weekday & 1)
        begins_today = minute >= self.start and bool(self.weekdays >> weekday & 1)
        began_yesterday = minute < self.end and bool(self.weekdays >> (weekday - 1) % 7 & 1)
        return begins_today or began_yesterday


class Calendar(msgspec.Struct, frozen=True, kw_only=True):
    """A set of local times.

    Attributes:
        name: Its name.
        version: The version of its document.
        dates: Days, as ordinals (`datetime.date.toordinal`).
        yearly: Days of each year, as month and day.
        weekdays: Mask of weekdays, Monday being bit 0.
        month_days: Days of each month from 1, or from the last one back from -1.
        windows: Parts of days.
        includes: The names of calendars whose times it has, too.
        excludes: The names of calendars whose times it does not have.
        timezone: The zone of its local times; empty for that of the schedule.
        blackout_of: The namespaces whose jobs it stops, or `EVERYWHERE`.
        nth: If not empty, the calendar has only the n-th ones of its days of each month, counted
            from 1, or back from -1. A day counts if the calendar has its noon.
    """

    name: str
    version: int = 1
    dates: frozenset[int] = frozenset()
    yearly: frozenset[tuple[int, int]] = frozenset()
    weekdays: int = 0
    month_days: tuple[int, ...] = ()
    windows: tuple[Window, ...] = ()
    includes: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    timezone: str = ""
    blackout_of: tuple[str, ...] = ()
    nth: tuple[int, ...] = ()

    def has_day(self, day: date) -> bool:
        """Return True if the whole local *day* is in the calendar by itself."""
        return (
            day.toordinal() in self.dates
            or bool(self.weekdays >> day.weekday() & 1)
            or (day.month, day.day) in self.yearly
            or any(_is_day_of_month(day, number) for number in self.month_days)
        )


Calendars = Mapping[str, Calendar]
NO_CALENDARS: Calendars = MappingProxyType({})


class Budget:
    """The edges that one search, or several together, may still examine."""

    def __init__(self) -> None:
        self.left = EDGES_MAX


class Exclusion(msgspec.Struct, frozen=True):
    """What excludes fire times of a schedule.

    Attributes:
        calendars: All calendars by name.
        zone: The zone of the schedule.
        only: The names of calendars of which one must have a fire time; none for no condition.
        unless: The names of calendars that exclude their times.
        blackouts: Likewise, but of the namespace.
        months: The days of the calendars with `Calendar.nth`, by name, year and month, as far as
            they were needed.
    """

    calendars: Calendars
    zone: tzinfo
    only: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    blackouts: tuple[str, ...] = ()
    months: dict[tuple[str, int, int], tuple[int, ...]] = msgspec.field(
        default_factory=dict[tuple[str, int, int], tuple[int, ...]]
    )

    def why(self, at: Instant) -> str:
        """Return why the fire time *at* is excluded; empty if it is not."""
        return self.reason(at)

    def reason(self, at: Instant) -> str:
        """Return why the instant *at* is excluded; empty if it is not."""
        known: dict[str, bool] = {}
        for name in self.unless:
            if self._covers(name, at, known):
                return f"in calendar {self._named(name)}"
        if self.only and not any(self._covers(name, at, known) for name in self.only):
            return f"not in calendar {' or '.join(map(self._named, self.only))}"
        for name in self.blackouts:
            if self._covers(name, at, known):
                return f"blackout: calendar {self._named(name)}"
        return ""

    def ends_at(self, at: Instant, budget: Budget | None = None) -> Instant | None:
        """Return the end of the excluded stretch that has *at*, or None if it is too long."""
        for edge in self._within(budget, self._edges(at, step=1)):
            if not self.reason(edge):
                return edge
        return None

    @staticmethod
    def _within(budget: Budget | None, edges: Iterator[Instant]) -> Iterator[Instant]:
        for edge in edges:
            if budget is not None:
                budget.left -= 1
                if budget.left < 0:
                    return
            yield edge

    def begins_at(self, at: Instant, budget: Budget | None = None) -> Instant | None:
        """Return the first instant of the excluded stretch that has *at*; None if too long."""
        for edge in self._within(budget, self._edges(at, step=-1)):
            if not self.reason(Instant(edge - MICROSECOND)):
                return edge
        return None

    def edges_until(self, at: Instant, until: Instant) -> Iterator[Instant]:
        """Yield the instants in ``(at, until]`` at which an answer may change, in order.

        They reach `STRETCH_DAYS_MAX` days at most.
        """
        return takewhile(lambda edge: edge <= until, self._edges(at, step=1))

    def _edges(self, at: Instant, step: int) -> Iterator[Instant]:
        """Yield the instants at which an answer may change, from *at* on or (*step* -1) back."""
        zones = {each.timezone: self._zone_of(each) for each in self._used()}
        minutes = {0} | {
            minute % _MINUTES
            for calendar in self._used()
            for window in calendar.windows
            for minute in (window.start, window.end)
        }
        # A day begins and ends at other instants in each zone, so the zones are merged.
        each = (self._edges_in(zone, minutes, at, step) for zone in zones.values())
        yield from heapq.merge(*each, reverse=step < 0)

    @staticmethod
    def _edges_in(
        zone: tzinfo, minutes: Collection[int], at: Instant, step: int
    ) -> Iterator[Instant]:
        for days in range(STRETCH_DAYS_MAX):
            day = to_datetime(at).astimezone(zone).date() + timedelta(days=step * days)
            walls = (datetime.combine(day, time(*divmod(minute, 60))) for minute in minutes)
            found = {edge for wall in walls for edge in instants_at(zone, wall)}
            yield from sorted(
                (edge for edge in found if (edge - at) * step > 0 or (edge == at and step < 0)),
                reverse=step < 0,
            )

    def _used(self) -> list[Calendar]:
        """Return the calendars that decide, with those that they name."""
        names, found = [*self.only, *self.unless, *self.blackouts], dict[str, Calendar]()
        while names:
            calendar = self.calendars.get(names.pop())
            if calendar is not None and calendar.name not in found:
                found[calendar.name] = calendar
                names += [*calendar.includes, *calendar.excludes]
        return list(found.values())

    def _covers(self, name: str, at: Instant, known: dict[str, bool]) -> bool:
        """Return True if a calendar has *at*; each is evaluated once, and *known* from then on."""
        calendar = self.calendars.get(name)
        if calendar is None:
            return False
        if name not in known:
            known[name] = False  # For a circle, which two changes at the same time may make.
            wall = to_datetime(at).astimezone(self._zone_of(calendar))
            has_time = self._has(calendar, at, wall, known)
            known[name] = has_time and (not calendar.nth or self._is_nth(calendar, wall.date()))
        return known[name]

    def _has(self, calendar: Calendar, at: Instant, wall: datetime, known: dict[str, bool]) -> bool:
        """Return True if a calendar has *at*, its local time *wall*, whichever day that is."""
        return (
            calendar.has_day(wall.date())
            or any(window.covers(wall) for window in calendar.windows)
            or any(self._covers(each, at, known) for each in calendar.includes)
        ) and not any(self._covers(each, at, known) for each in calendar.excludes)

    def _is_nth(self, calendar: Calendar, day: date) -> bool:
        key = (calendar.name, day.year, day.month)
        if key not in self.months:
            first = day.replace(day=1)
            self.months[key] = tuple(
                number
                for number in range(_length_of(first))
                if self._has_noon(calendar, first, number)
            )
        days = self.months[key]
        if day.day - 1 not in days:
            return False
        place = days.index(day.day - 1)
        return place + 1 in calendar.nth or place - len(days) in calendar.nth

    def _has_noon(self, calendar: Calendar, first: date, number: int) -> bool:
        wall = datetime.combine(first + timedelta(days=number), time(12))
        at = first_instant(self._zone_of(calendar), wall)
        return self._has(calendar, at, wall, {calendar.name: False})

    def _zone_of(self, calendar: Calendar) -> tzinfo:
        return load_zone(calendar.timezone) if calendar.timezone else self.zone

    def _named(self, name: str) -> str:
        calendar = self.calendars.get(name)
        return f"{name} (version {calendar.version})" if calendar else f"{name}, which is missing"


class Deferral(Exclusion, frozen=True, kw_only=True):
    """What excludes fire times of a schedule, unless they can be made up for before the next one.

    Of the fire times in an excluded stretch, only the last one can: those before it have a fire in
    the stretch after them. So a search for a fire time goes from stretch to stretch, as without a
    deferral, and whether a fire can be made up for depends on the edges before the next one only.

    Attributes:
        schedule: The schedule.
        is_next_day: Whether an excluded fire starts at its local time on the next day on which that
            is permitted; else it starts as soon as nothing excludes it.
        stretches: The stretch that was found last, as the instant from which it was searched, and
            its end; empty at first.
    """

    schedule: Schedule
    is_next_day: bool = False
    stretches: list[tuple[Instant, Instant]] = msgspec.field(
        default_factory=list[tuple[Instant, Instant]]
    )

    def why(self, at: Instant) -> str:
        """Return why the fire time *at* does not start, also later; empty if it does."""
        why = self.reason(at)
        return "" if why and self.start_of(at) is not None else why

    def ends_at(self, at: Instant, budget: Budget | None = None) -> Instant | None:
        """Return the last fire time after *at* in its excluded stretch, or the end of that."""
        budget = budget or Budget()
        budget.left -= DEFERRAL_COST
        end = self._end_of(at, budget, None) if budget.left > 0 else None
        if end is None:
            return None
        return latest_fire(self.schedule, at, Instant(end - MICROSECOND)) or end

    def start_of(self, at: Instant) -> Instant | None:
        """Return when the fire of *at* starts: *at* if it is permitted; None if it does not."""
        if not self.reason(at):
            return at
        following = next_fire(self.schedule, at)
        end = self._end_of(at, Budget(), following)
        if end is None:
            return None
        return self._next_day(at, end, following) if self.is_next_day else end

    def _end_of(self, at: Instant, budget: Budget, until: Instant | None) -> Instant | None:
        """Return the end, before *until*, of the excluded stretch that has *at*; None for none."""
        for begin, end in self.stretches:
            if begin <= at < end:
                return end if until is None or end < until else None
        for edge in self._within(budget, self._edges(at, step=1)):
            if until is not None and edge >= until:
                return None
            if not self.reason(edge):
                self.stretches[:] = [(at, edge)]
                return edge
        return None

    def _next_day(self, at: Instant, end: Instant, until: Instant | None) -> Instant | None:
        """Return the first permitted instant in ``[end, until)`` at the local time of *at*."""
        wall = to_datetime(at).astimezone(self.zone).replace(tzinfo=None, fold=0)
        first = max(1, (end - at) // DAY - 1)
        for days in range(first, first + DAYS_AHEAD_MAX):
            start = first_instant(self.zone, wall + timedelta(days=days))
            if until is not None and start >= until:
                return None
            if start >= end and not self.reason(start):
                return start
        return None


def next_permitted(
    schedule: Schedule,
    exclusion: Exclusion | None,
    after: Instant,
    budget: Budget | None = None,
) -> Instant | None:
    """Return the first fire time strictly after *after* that is not excluded, or None.

    The search ends without a result when the *budget*, by default one of its own, is used up.
    """
    budget = budget or Budget()
    fire_at = next_fire(schedule, after)
    while fire_at is not None and exclusion is not None and exclusion.why(fire_at):
        end = exclusion.ends_at(fire_at, budget)
        fire_at = None if end is None else next_fire(schedule, Instant(end - MICROSECOND))
    return fire_at


def latest_permitted(
    schedule: Schedule, exclusion: Exclusion | None, after: Instant, until: Instant
) -> Instant | None:
    """Return the last fire time in ``(after, until]`` that is not excluded, or None."""
    budget = Budget()
    fire_at = latest_fire(schedule, after, until)
    while fire_at is not None and exclusion is not None and exclusion.why(fire_at):
        begin = exclusion.begins_at(fire_at, budget)
        until = after if begin is None else Instant(begin - MICROSECOND)
        fire_at = latest_fire(schedule, after, until) if until > after else None
    return fire_at


def previous_permitted(
    schedule: Schedule, exclusion: Exclusion | None, before: Instant
) -> Instant | None:
    """Return the last fire time that is not excluded before *before*, a fire time; or None."""
    budget = Budget()
    fire_at = previous_fire(schedule, before)
    while fire_at is not None and exclusion is not None and exclusion.why(fire_at):
        begin = exclusion.begins_at(fire_at, budget)
        fire_at = None if begin is None else previous_fire(schedule, begin)
    return fire_at


def circle_of(calendars: Calendars, name: str) -> Sequence[str]:
    """Return a path of names from *name* back to itself, or one that is too long; else nothing."""
    levels: list[dict[str, str]] = [{name: ""}]
    while levels[-1] and len(levels) <= DEPTH_MAX + 1:
        level: dict[str, str] = {}
        for parent in levels[-1]:
            calendar = calendars.get(parent)
            for each in (*calendar.includes, *calendar.excludes) if calendar else ():
                level.setdefault(each, parent)
                if each == name:
                    return _path(levels, parent, each)
        levels.append(level)
    last = next(iter(levels[-1]), "")
    return _path(levels[:-1], levels[-1][last], last) if last else ()


def _path(levels: Sequence[Mapping[str, str]], parent: str, last: str) -> Sequence[str]:
    """Return the names from the first level to *parent* of the last one, and *last*."""
    path = [last, parent]
    for level in reversed(levels[1:]):
        path.append(level[path[-1]])
    return tuple(reversed(path))


def _is_day_of_month(day: date, number: int) -> bool:
    if number > 0:
        return day.day == number
    return _length_of(day) - day.day + 1 == -number


def _length_of(day: date) -> int:
    """Return the number of days of the month with *day*."""
    following = date(day.year + day.month // 12, day.month % 12 + 1, 1)
    return (following - day.replace(day=1)).days
