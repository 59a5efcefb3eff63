"""Independent implementation of the rules of cron, and clock changes for tests.

The oracle shares no code with rota and does no arithmetic on offsets: it steps from instant to
instant, reads the local time, and records when each local time is reached first. Local times that
the clock skips are reached after the jump.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

CHANGES = [
    (zone, datetime.fromisoformat(change).replace(tzinfo=UTC))
    for zone, change in [
        ("America/New_York", "2026-03-08T07:00"),
        ("America/New_York", "2026-11-01T06:00"),
        ("Europe/Paris", "2026-03-29T01:00"),
        ("Europe/Paris", "2026-10-25T01:00"),
        ("Europe/Dublin", "2026-03-29T01:00"),
        ("Europe/Dublin", "2026-10-25T01:00"),
        ("Africa/Casablanca", "2026-02-15T02:00"),
        ("Africa/Casablanca", "2026-03-22T02:00"),
        ("Australia/Lord_Howe", "2026-04-04T15:00"),
        ("Australia/Lord_Howe", "2026-10-03T15:30"),
        ("Pacific/Chatham", "2026-04-04T14:00"),
        ("Pacific/Chatham", "2026-09-26T14:00"),
        ("America/Sao_Paulo", "2018-02-18T02:00"),
        ("America/Sao_Paulo", "2018-11-04T03:00"),
        ("America/Havana", "2026-03-08T05:00"),
        ("America/Havana", "2026-11-01T05:00"),
        ("Atlantic/Azores", "2026-03-29T01:00"),
        ("Atlantic/Azores", "2026-10-25T01:00"),
        ("Pacific/Apia", "2011-12-30T10:00"),
        ("Asia/Kathmandu", "1985-12-31T18:30"),
        ("UTC", "2028-02-29T00:00"),
    ]
]
"""Zones, and instants at which or near which their clocks change."""

MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]

Step = tuple[datetime, datetime]
"""An instant, and the naive local time at it."""
Rule = Callable[[date], bool]


@dataclass(frozen=True)
class Expectation:
    """The local times that an expression names."""

    seconds: set[int]
    minutes: set[int]
    hours: set[int]
    is_day: Rule
    follows_elapsed_time: bool

    def matches(self, wall: datetime) -> bool:
        """Return True if the expression names the local time *wall*."""
        return (
            wall.minute in self.minutes
            and wall.hour in self.hours
            and wall.second in self.seconds
            and self.is_day(wall.date())
        )

    def fires(self, steps: list[Step]) -> Iterator[datetime]:
        """Yield the instants of *steps* at which the expression fires."""
        length = steps[1][0] - steps[0][0]
        reached = steps[0][1] - length
        for instant, wall in steps:
            if self.follows_elapsed_time:
                shown = [wall]
            else:
                shown = list(between(reached, wall, length))
                reached = max(reached, wall)
            if any(map(self.matches, shown)):
                yield instant


def between(low: datetime, high: datetime, length: timedelta) -> Iterator[datetime]:
    while low < high:
        low += length
        yield low


@cache
def walk(zone: str, start: datetime, duration: timedelta, length: timedelta) -> list[Step]:
    instants = [start + count * length for count in range(duration // length)]
    return [(t, t.astimezone(ZoneInfo(zone)).replace(tzinfo=None, fold=0)) for t in instants]


def expect(expression: str, *, day_or: bool = True) -> Expectation:
    fields = expression.upper().split()
    second = fields.pop(0) if len(fields) > 5 else "0"
    year = fields.pop() if len(fields) > 5 else "*"
    minute, hour, day, month, weekday = fields
    months, years = plain(month, 1, 12, MONTHS), plain(year, 1970, 2099)
    day_rules = [day_rule(item) for item in day.split(",")]
    weekday_rules = [weekday_rule(item) for item in weekday.split(",")]
    is_either = day_or and day[0] not in "*?" and weekday[0] not in "*?"

    @cache
    def is_day(day: date) -> bool:
        if day.month not in months or day.year not in years:
            return False
        by_day = any(rule(day) for rule in day_rules)
        by_weekday = any(rule(day) for rule in weekday_rules)
        return by_day or by_weekday if is_either else by_day and by_weekday

    return Expectation(
        seconds=plain(second, 0, 59),
        minutes=plain(minute, 0, 59),
        hours=plain(hour, 0, 23),
        is_day=is_day,
        follows_elapsed_time=hour == "*" or (hour.startswith("*/") and "," not in hour),
    )


def plain(text: str, first: int, last: int, names: list[str] | None = None) -> set[int]:
    """Count from the low end of each item to its high end, around the field if need be."""
    values: set[int] = set()
    for item in text.split(","):
        span, _, step = item.partition("/")
        low, _, high = span.partition("-")
        if span == "*":
            low, high = str(first), str(last)
        elif step and not high:
            high = str(last)
        value, end = number(low, first, names), number(high or low, first, names)
        members = [value]
        while value != end:
            value = first if value == last else value + 1
            members.append(value)
        values.update(members[:: int(step or 1)])
    return values


def number(text: str, first: int, names: list[str] | None) -> int:
    return names.index(text) + first if names and text in names else int(text)


def day_rule(item: str) -> Rule:
    if item == "LW":
        return lambda day: day == workday_near(last_day(day))
    if item == "L":
        return lambda day: day == last_day(day)
    if item.startswith("L-"):
        return lambda day: (last_day(day) - day).days == int(item[2:])
    if item.endswith("W"):
        wanted = int(item[:-1])
        return lambda day: (
            wanted <= last_day(day).day and day == workday_near(day.replace(day=wanted))
        )
    days = plain(item, 1, 31)
    return lambda day: day.day in days


def weekday_rule(item: str) -> Rule:
    if item in ("*", "?"):
        return lambda _day: True
    if "#" in item:
        name, nth = item.split("#")
        return lambda day: is_on(day, name) and (day.day - 1) // 7 + 1 == int(nth)
    if "L" in item:
        return lambda day: is_on(day, item.strip("L")) and day.day + 7 > last_day(day).day
    # Sunday is 7 where a range ends with it, else 0.
    low, _, high = item.partition("/")[0].partition("-")
    if low == "7" and high != "7":
        item = "0" + item[1:]
    days = {value % 7 for value in plain(item, 0, 7 if high == "7" else 6, WEEKDAYS)}
    return lambda day: day.isoweekday() % 7 in days


def is_on(day: date, weekday: str) -> bool:
    return day.isoweekday() % 7 == number(weekday, 0, WEEKDAYS) % 7


def last_day(day: date) -> date:
    next_month = day.replace(day=28) + timedelta(days=4)
    return next_month - timedelta(days=next_month.day)


def workday_near(day: date) -> date:
    for distance in (0, -1, 1, -2, 2):
        other = day + timedelta(days=distance)
        if other.month == day.month and other.isoweekday() <= 5:
            return other
    raise AssertionError(day)
