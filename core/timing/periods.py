"""Every n-th day, week, month or year of a cron expression.

Periods are counted in local time from the one with an anchor date. A period is skipped as a whole,
so the search costs a few searches of the expression, however far the anchor is.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import NamedTuple

from rota.core.quoting import quoted
from rota.core.timing.cron import Cron

COUNT_MAX = 100
"""The highest n; it limits the number of searches."""
_SEARCHES_MAX = 200
"""For some expressions no n-th period has a match, such as a January for every second month from
February on. If one has, it is among this many."""
_YEARS_MAX = 400
"""The most years between two matches, as for expressions: 200 searches for matches that are 28
years apart would take 5 ms each time, and a job may have 64 schedules."""
_SECOND = timedelta(seconds=1)
_FORM = re.compile(r"(?P<count>[0-9]{1,3}) (?P<unit>day|week|month|year)s?")


class _Unit(NamedTuple):
    """A kind of period.

    Attributes:
        number_of: Returns the number of the period with a date.
        first_of: Returns the first date of the period with a number.
        needs: What an expression needs for it, as the end of a sentence; empty for nothing.
    """

    number_of: Callable[[date], int]
    first_of: Callable[[int], date]
    needs: str


def _week_of(day: date) -> int:
    return (day.toordinal() - 1) // 7  # 0001-01-01 is a Monday.


def _monday_of(week: int) -> date:
    return date.fromordinal(week * 7 + 1)


def _month_of(day: date) -> int:
    return day.year * 12 + day.month - 1


def _first_of_month(month: int) -> date:
    return date(month // 12, month % 12 + 1, 1)


def _year_of(day: date) -> int:
    return day.year


def _first_of_year(year: int) -> date:
    return date(year, 1, 1)


_UNITS = {
    "day": _Unit(
        date.toordinal,
        date.fromordinal,
        "an expression that matches on every day; name times only, or count weeks or months",
    ),
    "week": _Unit(
        _week_of,
        _monday_of,
        "an expression that names no days but plain weekdays; or count months",
    ),
    "month": _Unit(_month_of, _first_of_month, ""),
    "year": _Unit(_year_of, _first_of_year, ""),
}


@dataclass(frozen=True, slots=True)
class PeriodicCron:
    """The matches of an expression in every n-th period; created by `in_periods`."""

    cron: Cron
    unit: _Unit
    count: int
    anchor: int

    @property
    def has_open_hours(self) -> bool:
        """As for `Cron`."""
        return self.cron.has_open_hours

    @property
    def has_all_hours(self) -> bool:
        """As for `Cron`."""
        return self.cron.has_all_hours

    def next_after(self, wall: datetime) -> datetime | None:
        """Return the first match strictly after the naive *wall*, or None.

        Matches that are more than `_YEARS_MAX` later do not count.
        """
        match = self.cron.next_after(wall)
        for _ in range(_SEARCHES_MAX):
            if match is None or match.year - wall.year > _YEARS_MAX:
                return None
            number = self.unit.number_of(match.date())
            passed = (number - self.anchor) % self.count
            if passed == 0:
                return match
            try:
                first = self.unit.first_of(number - passed + self.count)
            except (ValueError, OverflowError):  # after the year 9999
                return None
            match = self.cron.next_after(datetime.combine(first, time.min) - _SECOND)
        return None

    def matches(self, wall: datetime) -> bool:
        """Return True if the naive local time *wall* is a match."""
        return self.next_after(wall - _SECOND) == wall


def in_periods(cron: Cron, every: str, anchor: date) -> PeriodicCron:
    """Return the matches of *cron* in every n-th period, counted from the one with *anchor*.

    Args:
        cron: The expression.
        every: The periods: ``2 weeks``.
        anchor: A date in the first of them.

    Raises:
        ValueError: *every* is no such text, or *cron* does not suit it.
    """
    parts = _FORM.fullmatch(every.lower())
    if parts is None or not 1 <= int(parts["count"]) <= COUNT_MAX:
        raise ValueError(
            f"{quoted(every)} is not a number of periods; write 1 to {COUNT_MAX} days, weeks, "
            'months or years: "2 weeks"'
        )
    unit = _UNITS[parts["unit"]]
    suits = {"day": cron.is_daily, "week": cron.is_weekly}
    if not suits.get(parts["unit"], True):
        raise ValueError(f"{quoted(every)} needs {unit.needs}")
    return PeriodicCron(cron, unit, int(parts["count"]), unit.number_of(anchor))
