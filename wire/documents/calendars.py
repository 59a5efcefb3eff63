"""Calendars: sets of local times that exclude fire times."""

from typing import Annotated

import msgspec

from rota.wire.documents.document import Body, ProseText, Word, Words

DayOfMonth = Annotated[int, msgspec.Meta(ge=-31, le=31)]


class WindowBody(Body, frozen=True):
    """A part of some days.

    Attributes:
        start: Its first minute, such as ``22:00``.
        end: The minute at which it ends, such as ``06:00``: on the next day, unless it is later
            than *start*. ``24:00`` is the end of the day.
        weekdays: The weekdays on which it begins, such as ``MON-FRI``; empty for all.
    """

    start: Word
    end: Word
    weekdays: Words = []


class CalendarBody(Body, frozen=True):
    """A calendar: the union of the times in its fields, without those of *excludes*.

    Attributes:
        description: A description for people.
        dates: Whole local days: ``2027-12-24``, ``2027-12-24..2027-12-26``, or ``12-24`` for that
            day of each year.
        weekdays: Weekdays, such as ``SAT`` or ``MON-FRI``.
        month_days: Days of each month: from 1, or back from -1, the last one.
        windows: Parts of days.
        includes: The names of calendars whose times it has, too.
        excludes: The names of calendars whose times it does not have.
        timezone: The zone of its local times; empty for that of the schedule.
        blackout_of: Namespaces whose schedules it stops, or ``*`` for all; empty for none.
    """

    description: ProseText = ""
    dates: Annotated[list[Word], msgspec.Meta(max_length=5_000)] = []
    weekdays: Words = []
    month_days: Annotated[list[DayOfMonth], msgspec.Meta(max_length=62)] = []
    windows: Annotated[list[WindowBody], msgspec.Meta(max_length=100)] = []
    includes: Words = []
    excludes: Words = []
    timezone: Word = ""
    blackout_of: Words = []
