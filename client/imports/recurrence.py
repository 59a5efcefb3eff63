"""Recurrence rules of iCalendar (RFC 5545, 3.3.10) on whole days.

A rule has periods: every n-th day, week, month or year. The days of a period that all its parts
match are its occurrences; ``BYSETPOS`` selects among them.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import count, islice

WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
FREQUENCIES = ("DAILY", "WEEKLY", "MONTHLY", "YEARLY")
DAYS_MAX = 200_000
"""The most days that are examined for one rule: five centuries."""
_BY_DAY = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d{1,3}", re.ASCII)
_UNTIL = re.compile(r"(\d{8})(?:T\d{6}Z?)?", re.ASCII)
_KNOWN = frozenset(
    {"FREQ", "INTERVAL", "COUNT", "UNTIL", "BYMONTH", "BYMONTHDAY", "BYDAY", "BYSETPOS", "WKST"}
)


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
    by_day = [_weekday(each) for each in parts["BYDAY"].split(",")] if "BYDAY" in parts else []
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
        weekdays=[(day, number) for number, day in by_day],
        positions=_numbers(parts, "BYSETPOS", -366, 366),
        week_start=WEEKDAYS.index(parts["WKST"]) if parts.get("WKST") in WEEKDAYS else 0,
    )


def occurrences(rule: Rule, start: date, last: date) -> list[date]:
    """Return the days of *rule* from *start* to *last*, in order; *start* is always one of them.

    Raises:
        ValueError: More than `DAYS_MAX` days would be examined.
    """
    end = min(last, rule.until or last)
    found = (day for day in _days(rule, start, end) if day > start)
    limited = islice(found, None if rule.count is None else rule.count - 1)
    return [day for day in (start, *limited) if day <= end]


def _days(rule: Rule, start: date, end: date) -> Iterator[date]:
    if (end - start).days > DAYS_MAX:
        raise ValueError("begins centuries ago; give it a later begin")
    for first, length in _periods(rule, start, end):
        days = [first + timedelta(days=number) for number in range(length)]
        matched = [day for day in days if _matches(rule, start, day)]
        if rule.positions:
            size = len(matched)
            chosen = {each - 1 if each > 0 else size + each for each in rule.positions}
            matched = [matched[each] for each in sorted(chosen) if 0 <= each < size]
        yield from matched


def _periods(rule: Rule, start: date, end: date) -> Iterator[tuple[date, int]]:
    """Yield the first day and the number of days of each period that begins until *end*."""
    week = start - timedelta(days=(start.weekday() - rule.week_start) % 7)
    for number in count(step=rule.interval):
        if rule.frequency == "DAILY":
            first, length = start + timedelta(days=number), 1
        elif rule.frequency == "WEEKLY":
            first, length = week + timedelta(weeks=number), 7
        elif rule.frequency == "MONTHLY":
            first = _month(start.year, start.month - 1 + number)
            length = _length_of_month(first)
        else:
            first = date(start.year + number, 1, 1)
            length = 366 if _length_of_month(date(first.year, 2, 1)) == 29 else 365
        if first > end:
            return
        yield first, length


def _month(year: int, month: int) -> date:
    return date(year + month // 12, month % 12 + 1, 1)


def _length_of_month(first: date) -> int:
    return (_month(first.year, first.month) - first).days


def _matches(rule: Rule, start: date, day: date) -> bool:
    months, month_days, weekdays = rule.months, rule.month_days, rule.weekdays
    # What a rule does not say follows from its first day.
    if rule.frequency == "YEARLY" and not (months or month_days or weekdays):
        months = (start.month,)
    if rule.frequency in ("MONTHLY", "YEARLY") and not (month_days or weekdays):
        month_days = (start.day,)
    if rule.frequency == "WEEKLY" and not weekdays:
        weekdays = ((start.weekday(), 0),)
    if months and day.month not in months:
        return False
    if month_days:
        length = _length_of_month(day.replace(day=1))
        if day.day not in month_days and day.day - length - 1 not in month_days:
            return False
    return not weekdays or any(_is_weekday(rule, day, *each) for each in weekdays)


def _is_weekday(rule: Rule, day: date, weekday: int, number: int) -> bool:
    """Return True if *day* is the weekday, and that of its number in the month or year."""
    if day.weekday() != weekday or not number:
        return day.weekday() == weekday
    if rule.frequency == "YEARLY" and not rule.months:
        first, length = (
            date(day.year, 1, 1),
            (date(day.year, 12, 31) - date(day.year, 1, 1)).days + 1,
        )
    else:
        first = day.replace(day=1)
        length = _length_of_month(first)
    position = (day - first).days
    return number in (position // 7 + 1, -((length - 1 - position) // 7 + 1))


def _weekday(text: str) -> tuple[int, int]:
    found = _BY_DAY.fullmatch(text)
    if found is None or (found[1] and not int(found[1])):
        raise ValueError(f"has BYDAY with {text!r}, which is no weekday")
    return int(found[1] or 0), WEEKDAYS.index(found[2])


def _positive(parts: Mapping[str, str], name: str) -> int | None:
    text = parts.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"\d{1,6}", text, re.ASCII) or not int(text):
        raise ValueError(f"has {name}={text[:20]}, which is no positive number")
    return int(text)


def _numbers(parts: Mapping[str, str], name: str, least: int, most: int) -> list[int]:
    texts = parts[name].split(",") if name in parts else []
    for text in texts:
        if not _NUMBER.fullmatch(text) or not int(text) or not least <= int(text) <= most:
            raise ValueError(f"has {name} with {text[:20]!r}, which is no such number")
    return [int(text) for text in texts]


def _until(text: str) -> date:
    found = _UNTIL.fullmatch(text)
    try:
        return date.fromisoformat(found[1] if found else text)
    except ValueError:
        raise ValueError(f"has UNTIL={text[:20]}, which is no date") from None
