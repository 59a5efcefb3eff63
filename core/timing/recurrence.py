"""Recurrence rules of iCalendar (RFC 5545, 3.3.10) on whole days, and at times of them.

A rule has periods: every n-th day, week, month or year. The days of a period that all its parts
match are its occurrences; ``BYSETPOS`` selects among them.
"""

import re
from calendar import isleap
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from itertools import count, islice, product

WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
FREQUENCIES = ("DAILY", "WEEKLY", "MONTHLY", "YEARLY")
DAYS_MAX = 200_000
"""The most days from the first of one rule to its last: five centuries."""
STEPS_MAX = 1_000_000
"""The most days and periods that are examined for all rules of a file: some seconds."""
LISTED_MAX = 400
"""The most different items of a part such as ``BYDAY``; ``BYSETPOS`` of a year has 366."""
_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_BY_DAY = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d{1,3}", re.ASCII)
_UNTIL = re.compile(r"(\d{8})(?:T\d{6}Z?)?", re.ASCII)
_KNOWN = frozenset(
    {"FREQ", "INTERVAL", "COUNT", "UNTIL", "BYMONTH", "BYMONTHDAY", "BYDAY", "BYSETPOS", "WKST"}
)


class WorkUsedUp(Exception):
    """The rules of a file take more steps than `STEPS_MAX`."""


class Work:
    """The steps that are left for the rules of one file."""

    def __init__(self) -> None:
        self._left = STEPS_MAX

    def spend(self, steps: int) -> None:
        """Count steps, before they are done.

        Raises:
            WorkUsedUp: So many are not left.
        """
        self._left -= steps
        if self._left < 0:
            raise WorkUsedUp(f"take more than {STEPS_MAX:,} steps")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A recurrence rule.

    Attributes:
        frequency: One of `FREQUENCIES`.
        interval: Every how many periods it has occurrences.
        count: The number of all occurrences; None for no limit.
        until: The last day; None for no limit.
        months: The months; none for all.
        month_days: The days of months, back from -1; none for all.
        weekdays: Weekdays from 0 for Monday, each with the number of it in the month or year, back
            from -1; the number 0 stands for all.
        positions: The occurrences of a period that count, back from -1; none for all.
        week_start: The first day of weeks, from 0 for Monday.
    """

    frequency: str
    interval: int = 1
    count: int | None = None
    until: date | None = None
    months: Collection[int] = ()
    month_days: Collection[int] = ()
    weekdays: Collection[tuple[int, int]] = ()
    positions: Collection[int] = ()
    week_start: int = 0

    @property
    def is_endless(self) -> bool:
        """Whether it has no end, and no period is passed over."""
        return self.interval == 1 and self.count is None and self.until is None


def parse_rule(text: str) -> Rule:
    """Return the rule in *text*.

    Raises:
        ValueError: It is invalid, or has parts that are not supported; the text says why.
    """
    parts: dict[str, str] = {}
    for part in text.upper().strip(";").split(";"):
        name, equals, value = part.partition("=")
        if not equals or name in parts:
            raise ValueError(f"has the part {part!r}, which is no NAME=VALUE, or is repeated")
        parts[name] = value
    unknown = sorted(parts.keys() - _KNOWN)
    if unknown:
        raise ValueError(f"has the part {unknown[0]}, which is not supported")
    if parts.get("FREQ") not in FREQUENCIES:
        raise ValueError(f"has FREQ={parts.get('FREQ', '')}, which is none of days")
    until = parts.get("UNTIL")
    by_day = {_weekday(each) for each in _listed(parts, "BYDAY")}
    if any(number for number, _ in by_day) and parts["FREQ"] in ("DAILY", "WEEKLY"):
        raise ValueError("has a number in BYDAY, which months and years alone may have")
    if "BYMONTHDAY" in parts and parts["FREQ"] == "WEEKLY":
        raise ValueError("has BYMONTHDAY, which weeks may not have")
    return Rule(
        frequency=parts["FREQ"],
        interval=_positive(parts, "INTERVAL") or 1,
        count=_positive(parts, "COUNT"),
        until=None if until is None else _until(until),
        months=_numbers(parts, "BYMONTH", 1, 12),
        month_days=_numbers(parts, "BYMONTHDAY", -31, 31),
        weekdays={(day, number) for number, day in by_day},
        positions=_numbers(parts, "BYSETPOS", -366, 366),
        week_start=WEEKDAYS.index(parts["WKST"]) if parts.get("WKST") in WEEKDAYS else 0,
    )


def occurrences(rule: Rule, start: date, last: date, work: Work) -> list[date]:
    """Return the days of *rule* from *start* to *last*, in order; *start* is always one of them.

    Raises:
        ValueError: There are more than `DAYS_MAX` days from the first to the last.
        WorkUsedUp: The rule takes more steps than *work* has left.
    """
    end = min(last, rule.until or last)
    found = (day for day in _days(_completed(rule, start), start, end, work) if day > start)
    limited = islice(found, None if rule.count is None else rule.count - 1)
    return [day for day in (start, *limited) if day <= end]


def _completed(rule: Rule, start: date) -> Rule:
    """Return *rule* with what it does not say, which follows from its first day."""
    if rule.frequency == "WEEKLY":
        return replace(rule, weekdays=rule.weekdays or {(start.weekday(), 0)})
    if rule.frequency == "DAILY" or rule.month_days or rule.weekdays:
        return rule
    months = rule.months or ({start.month} if rule.frequency == "YEARLY" else ())
    return replace(rule, months=months, month_days={start.day})


def _days(rule: Rule, start: date, end: date, work: Work) -> Iterator[date]:
    if (end - start).days > DAYS_MAX:
        raise ValueError("begins centuries ago; give it a later begin")
    for first, length in _periods(rule, start, start, end):
        days = _examined(rule, first, length)
        work.spend(1 + len(days))
        yield from _chosen(rule, days)


def _chosen(rule: Rule, days: Collection[int]) -> list[date]:
    """Return the occurrences among the *days* of a period, which are ordinals."""
    matched = [day for day in map(date.fromordinal, days) if _matches(rule, day)]
    if rule.positions:
        size = len(matched)
        chosen = {each - 1 if each > 0 else size + each for each in rule.positions}
        matched = [matched[each] for each in sorted(chosen) if 0 <= each < size]
    return matched


def _periods(rule: Rule, start: date, since: date, end: date) -> Iterator[tuple[int, int]]:
    """Yield the first day and the number of days of each period from *since* until *end*.

    Periods are counted from the one with *start*. Days are ordinals: weeks may begin before the
    year 1, and end after the year 9999.
    """
    last = end.toordinal()
    week = start.toordinal() - (start.weekday() - rule.week_start) % 7
    passed = {
        "DAILY": since.toordinal() - start.toordinal(),
        "WEEKLY": (since.toordinal() - week) // 7,
        "MONTHLY": 12 * (since.year - start.year) + since.month - start.month,
        "YEARLY": since.year - start.year,
    }[rule.frequency]
    for number in count(max(0, passed // rule.interval) * rule.interval, rule.interval):
        if rule.frequency == "DAILY":
            first, length = start.toordinal() + number, 1
        elif rule.frequency == "WEEKLY":
            first, length = week + 7 * number, 7
        else:
            months = number if rule.frequency == "MONTHLY" else 12 * number - start.month + 1
            years, month = divmod(start.month - 1 + months, 12)
            year = start.year + years
            if year > end.year:
                return
            first = date(year, month + 1, 1).toordinal()
            is_month = rule.frequency == "MONTHLY"
            length = _length_of(year, month + 1) if is_month else 365 + isleap(year)
        if first > last:
            return
        yield first, length


def _length_of(year: int, month: int) -> int:
    return 29 if month == 2 and isleap(year) else _LENGTHS[month - 1]


def _examined(rule: Rule, first: int, length: int) -> Collection[int]:
    """Return the days of a period that may match: of months and years, those of its months."""
    if not rule.months or rule.frequency in ("DAILY", "WEEKLY"):
        return range(max(first, 1), min(first + length, date.max.toordinal() + 1))
    begin = date.fromordinal(first)
    months = sorted(rule.months) if rule.frequency == "YEARLY" else {begin.month} & {*rule.months}
    found: list[int] = []
    for month in months:
        day = begin.replace(month=month).toordinal()
        found += range(day, day + _length_of(begin.year, month))
    return found


def _matches(rule: Rule, day: date) -> bool:
    if rule.months and day.month not in rule.months:
        return False
    if rule.month_days:
        length = _length_of(day.year, day.month)
        if day.day not in rule.month_days and day.day - length - 1 not in rule.month_days:
            return False
    weekday = day.weekday()
    return (
        not rule.weekdays
        or (weekday, 0) in rule.weekdays
        or any((weekday, number) in rule.weekdays for number in _numbers_of(rule, day))
    )


def _numbers_of(rule: Rule, day: date) -> tuple[int, int]:
    """Return the number of the weekday of *day* in its month or year, and that from the end."""
    if rule.frequency == "YEARLY" and not rule.months:
        first, length = date(day.year, 1, 1), 365 + isleap(day.year)
    else:
        first, length = day.replace(day=1), _length_of(day.year, day.month)
    position = (day - first).days
    return position // 7 + 1, -((length - 1 - position) // 7 + 1)


def _weekday(text: str) -> tuple[int, int]:
    found = _BY_DAY.fullmatch(text)
    if found is None or (found[1] and not int(found[1])):
        raise ValueError(f"has BYDAY with {text[:20]!r}, which is no weekday")
    return int(found[1] or 0), WEEKDAYS.index(found[2])


def _positive(parts: Mapping[str, str], name: str) -> int | None:
    text = parts.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"\d{1,6}", text, re.ASCII) or not int(text):
        raise ValueError(f"has {name}={text[:20]}, which is no positive number")
    return int(text)


def _numbers(parts: Mapping[str, str], name: str, least: int, most: int) -> set[int]:
    texts = _listed(parts, name)
    for text in texts:
        if not _NUMBER.fullmatch(text) or not int(text) or not least <= int(text) <= most:
            raise ValueError(f"has {name} with {text[:20]!r}, which is no such number")
    return {int(text) for text in texts}


def _listed(parts: Mapping[str, str], name: str) -> list[str]:
    """Return the different items of a part, in their order.

    Raises:
        ValueError: There are more than `LISTED_MAX`.
    """
    texts = [*dict.fromkeys(parts[name].split(","))] if name in parts else []
    if len(texts) > LISTED_MAX:
        raise ValueError(f"has {name} with {len(texts):,} items, and may have {LISTED_MAX}")
    return texts


def _until(text: str) -> date:
    found = _UNTIL.fullmatch(text)
    try:
        return date.fromisoformat(found[1] if found else text)
    except ValueError:
        raise ValueError(f"has UNTIL={text[:20]}, which is no date") from None


# -- at times of days -----------------------------------------------------------------------------

PREFIX = "RRULE:"
YEARS_AHEAD = 48
"""How far the next occurrence is searched; a 29 February that is a Monday comes after 40 years at
most."""
EXAMINED_MAX = 4_000
"""The most days that a search examines, some milliseconds: eleven years of each day."""
_TIMES_MAX = 1_440
_CLOCK = (("BYHOUR", 23), ("BYMINUTE", 59), ("BYSECOND", 59))


@dataclass(frozen=True, slots=True)
class RecurringTimes:
    """The local times of a rule; created by `recurring_times`.

    Attributes:
        rule: The rule, complete.
        start: The first local time, from which its periods are counted.
        times: The times of its days, in order.
    """

    rule: Rule
    start: datetime
    times: tuple[time, ...]

    has_open_hours = False
    """As for `rota.core.timing.cron.Cron`: it names its hours."""
    has_all_hours = False

    def next_after(self, wall: datetime) -> datetime | None:
        """Return the first of its times strictly after the naive *wall*, or None.

        Times that are more than `YEARS_AHEAD` later, or `EXAMINED_MAX` examined days, do not count.
        """
        examined = 0
        since = max(wall.date(), self.start.date())
        end = date(min(since.year + YEARS_AHEAD, date.max.year), 12, 31)
        for first, length in _periods(self.rule, self.start.date(), since, end):
            if examined > EXAMINED_MAX:
                return None
            days = _examined(self.rule, first, length)
            examined += 1 + len(days)
            for day in _chosen(self.rule, days):
                if day < since:
                    continue
                for each in self.times:
                    at = datetime.combine(day, each)
                    if at > wall and at >= self.start:
                        return at
        return None

    def matches(self, wall: datetime) -> bool:
        """Return True if the naive local time *wall* is one of its times."""
        return self.next_after(wall - timedelta(seconds=1)) == wall


def recurring_times(text: str, start: datetime) -> RecurringTimes:
    """Return the local times of a rule, such as ``FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0``.

    Args:
        text: The rule.
        start: The local time from which its periods are counted, and which gives what the rule does
            not say, such as the hour.

    Raises:
        ValueError: It is invalid, or has parts that are not supported; the text says why.
    """
    parts = [part.partition("=") for part in text.upper().strip(";").split(";")]
    given = {name: value for name, _, value in parts}
    days = ";".join("".join(part) for part in parts if part[0] not in dict(_CLOCK))
    rule = parse_rule(days)
    if rule.count is not None:
        raise ValueError("has COUNT; write maxExecutions in the schedule")
    if rule.until is not None:
        raise ValueError("has UNTIL; write endAt in the schedule")
    own = (start.hour, start.minute, start.second)
    hours, minutes, seconds = (
        _of_clock(given, name, most) or {default}
        for (name, most), default in zip(_CLOCK, own, strict=True)
    )
    times = tuple(sorted(time(*each) for each in product(hours, minutes, seconds)))
    if len(times) > _TIMES_MAX:
        raise ValueError(f"has {len(times):,} times a day, and may have {_TIMES_MAX:,}")
    if rule.positions and len(times) > 1:
        raise ValueError("has BYSETPOS with several times a day, which is not supported")
    return RecurringTimes(_completed(rule, start.date()), start.replace(microsecond=0), times)


def _of_clock(parts: Mapping[str, str], name: str, most: int) -> set[int]:
    texts = _listed(parts, name)
    for text in texts:
        if not re.fullmatch(r"\d{1,2}", text, re.ASCII) or int(text) > most:
            raise ValueError(f"has {name} with {text[:20]!r}; it goes from 0 to {most}")
    return {int(text) for text in texts}
