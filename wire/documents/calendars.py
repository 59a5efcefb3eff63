"""Calendars: sets of local times that exclude fire times, and previews of their changes."""

from typing import Annotated

import msgspec

from rota.wire.documents.document import Body, InstantText, LineText, ProseText, View, Word, Words

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
        source: What the dates are imported from, for people.
        names: Names of dates, such as those of holidays, by date; for people.
        dates: Whole local days: ``2027-12-24``, ``2027-12-24..2027-12-26``, or ``12-24`` for that
            day of each year.
        weekdays: Weekdays, such as ``SAT`` or ``MON-FRI``.
        month_days: Days of each month: from 1, or back from -1, the last one.
        windows: Parts of days.
        includes: The names of calendars whose times it has, too.
        excludes: The names of calendars whose times it does not have.
        timezone: The zone of its local times; empty for that of the schedule.
        blackout_of: Namespaces whose schedules it stops, or ``*`` for all; empty for none.
        nth: Only the n-th ones of its days of each month: from 1, or back from -1, the last one; a
            day counts if the calendar has its noon. Empty for all.
    """

    description: ProseText = ""
    source: LineText = ""
    names: Annotated[dict[Word, LineText], msgspec.Meta(max_length=5_000)] = {}
    dates: Annotated[list[Word], msgspec.Meta(max_length=5_000)] = []
    weekdays: Words = []
    month_days: Annotated[list[DayOfMonth], msgspec.Meta(max_length=62)] = []
    windows: Annotated[list[WindowBody], msgspec.Meta(max_length=100)] = []
    includes: Words = []
    excludes: Words = []
    timezone: Word = ""
    blackout_of: Words = []
    nth: Annotated[list[DayOfMonth], msgspec.Meta(max_length=62)] = []


class NewCalendar(Body, frozen=True):
    """A calendar as it would be saved.

    Attributes:
        name: Its name.
        definition: Its definition.
    """

    name: Word
    definition: CalendarBody


class CalendarPreviewBody(Body, frozen=True):
    """Calendars that would be saved together.

    Attributes:
        calendars: The calendars; they may name each other.
    """

    calendars: Annotated[list[NewCalendar], msgspec.Meta(max_length=100)]


class ChangedFiresView(View, frozen=True):
    """The fire times of a job that a change of calendars affects.

    Attributes:
        job: The ``namespace/name`` of the job.
        dropped: The first fire times that go, at most 20.
        added: The first fire times that come, at most 20.
        truncated: Whether there may be more.
    """

    job: str
    dropped: list[InstantText]
    added: list[InstantText]
    truncated: bool = False


class CalendarPreview(View, frozen=True):
    """The jobs whose fire times a change of calendars affects.

    Attributes:
        items: The first jobs by name, at most 100.
        until: The last instant that was examined.
        truncated: Whether there may be more: further jobs, or later times that were not examined.
    """

    items: list[ChangedFiresView]
    until: InstantText
    truncated: bool = False
