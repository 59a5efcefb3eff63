"""Cron expressions, and the local times they match.

Five fields are minute, hour, day, month and weekday; six fields begin with the second, and seven
also end with the year. In this module, a time is the local time that a clock shows; zones and clock
changes are part of `rota.core.timing.schedule`.

A field is stored as a bit mask, with bit *n* set if *n* matches. The matching days of a month
depend only on its length and on its first weekday, so `Cron` has one mask for each of these 28
shapes, and the search does not test each day.

A hashed item, such as ``H`` or ``H(0-29)/10``, is replaced by values that follow from a seed and
the field, before the expression is parsed.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from string import ascii_lowercase, ascii_uppercase
from typing import NamedTuple

from rota.core.errors import invalid
from rota.core.quoting import quoted, shortened


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed cron expression, created by `parse_cron`.

    Attributes:
        seconds: Mask of the seconds that match.
        minutes: Mask of the minutes that match.
        hours: Mask of the hours that match.
        months: Mask of the months that match.
        years: Mask of the years that match.
        days: For each shape of a month, the mask of the days that match (see `_shape`).
        has_open_hours: Whether the hour field is ``*``, or ``*/n`` or ``H/n`` with more than one
            hour, so no particular hour is meant.
    """

    seconds: int
    minutes: int
    hours: int
    months: int
    years: int
    days: tuple[int, ...]
    has_open_hours: bool

    def next_after(self, wall: datetime) -> datetime | None:
        """Return the first matching local time strictly after the naive *wall*.

        The result is None if no later time matches: all matching years are over, or there is no
        match within 400 years, after which dates repeat.
        """
        start = wall.replace(microsecond=0) + _SECOND
        year, month, day = start.year, start.month, start.day
        if self._matches_day(year, month, day):
            time = self._time_from(start.hour, start.minute, start.second)
            if time is not None:
                return datetime(year, month, day, *time)  # noqa: DTZ001 - a wall clock has no zone
        found = self._date_from(year, month, day + 1)
        if found is None:
            return None
        first = _lowest(self.hours), _lowest(self.minutes), _lowest(self.seconds)
        return datetime(*found, *first)  # noqa: DTZ001 - a wall clock has no zone

    @property
    def has_all_hours(self) -> bool:
        """Whether every hour of the day matches."""
        return self.hours.bit_count() == 24

    @property
    def is_weekly(self) -> bool:
        """Whether the weekday alone decides if a day matches."""
        weekdays = {
            (month.weekday(day), bool(mask >> day & 1))
            for month, mask in zip(_SHAPES, self.days, strict=True)
            for day in range(1, month.length + 1)
        }
        return len(weekdays) == 7 and self.months.bit_count() == 12

    @property
    def is_daily(self) -> bool:
        """Whether every day matches."""
        return self.is_weekly and self.days[0].bit_count() == _SHAPES[0].length

    def matches(self, wall: datetime) -> bool:
        """Return True if the expression matches the naive local time *wall*."""
        return self.next_after(wall - _SECOND) == wall

    def _matches_day(self, year: int, month: int, day: int) -> bool:
        return bool(
            self.years >> year & 1
            and self.months >> month & 1
            and self.days[_shape(year, month)] >> day & 1
        )

    def _time_from(self, hour: int, minute: int, second: int) -> tuple[int, int, int] | None:
        if self.hours >> hour & 1:
            if self.minutes >> minute & 1:
                same_minute = _next_bit(self.seconds, second)
                if same_minute is not None:
                    return hour, minute, same_minute
            same_hour = _next_bit(self.minutes, minute + 1)
            if same_hour is not None:
                return hour, same_hour, _lowest(self.seconds)
        later_hour = _next_bit(self.hours, hour + 1)
        if later_hour is None:
            return None
        return later_hour, _lowest(self.minutes), _lowest(self.seconds)

    def _date_from(self, year: int, month: int, day: int) -> tuple[int, int, int] | None:
        for candidate in self._months_from(year, month):
            first = day if candidate == (year, month) else 1
            found = _next_bit(self.days[_shape(*candidate)], first)
            if found is not None:
                return *candidate, found
        return None

    def _months_from(self, year: int, month: int) -> Iterator[tuple[int, int]]:
        last_year = year + _CALENDAR_CYCLE_YEARS
        first_month = month
        match = _next_bit(self.years, year)
        while match is not None and match <= last_year:
            if match != year:
                first_month = 1
            found = _next_bit(self.months, first_month)
            while found is not None:
                yield match, found
                found = _next_bit(self.months, found + 1)
            match = _next_bit(self.years, match + 1)


def parse_cron(text: str, day_or: bool = True, seed: str = "") -> Cron:
    """Return the parsed cron expression *text*.

    With *day_or*, if neither day field begins with ``*`` or ``?``, a time matches if either of them
    matches (as in Vixie cron). Otherwise, and always without *day_or*, both must match. The values
    of hashed items follow from *seed*.

    Raises:
        Refused: Code ``invalid_schedule``: a field is invalid, or no date matches. The detail
            states the valid values of the field.
    """
    fields = text.translate(_CAPITALS).split()
    try:
        whole = _whole(fields)
        plain = tuple(_unhashed(number, each, seed) for number, each in enumerate(whole))
        return _cron(plain, day_or=day_or, is_open=_OPEN.fullmatch(whole[2]) is not None)
    except _NeverFires as mistake:
        raise invalid("invalid_schedule", f"{quoted(text)} {mistake}") from mistake
    except _Mistake as mistake:
        hint = " (six fields begin with the second)" if len(fields) == 6 else ""
        raise invalid("invalid_schedule", f"{quoted(text)} {mistake}{hint}") from mistake


def has_hash(text: str) -> bool:
    """Return True if an item of the cron expression *text* is hashed."""
    items = text.translate(_CAPITALS).replace(",", " ").split()
    return any(_HASHED.fullmatch(item) for item in items)


def _whole(fields: list[str]) -> list[str]:
    """Return the seven fields of an expression of five to seven *fields*."""
    if len(fields) not in (5, 6, 7):
        count = "1 field" if len(fields) == 1 else f"{len(fields)} fields"
        hint = "; in a shell, quote the whole expression" if len(fields) == 1 else ""
        raise _Mistake(
            f"has {count}; a cron expression has 5 (minute hour day month weekday), "
            f"6 (seconds first) or 7 (seconds first, year last){hint}"
        )
    return [*([] if len(fields) > 5 else ["0"]), *fields, *([] if len(fields) > 6 else ["*"])]


@lru_cache(maxsize=4096)  # about 2 KB each; a cluster has few distinct expressions
def _cron(fields: tuple[str, ...], *, day_or: bool, is_open: bool) -> Cron:
    second, minute, hour, day, month, weekday, year = fields
    seconds, minutes, hours = _mask(_SECONDS, second), _mask(_MINUTES, minute), _mask(_HOURS, hour)
    months, days = _mask(_MONTHS, month), _day_masks(day, weekday, day_or=day_or)
    cron = Cron(
        seconds=seconds,
        minutes=minutes,
        hours=hours,
        months=_months_with(days, months),
        years=_ALL_YEARS if year == "*" else _mask(_YEARS, year),
        days=days,
        # A step that leaves one hour, as */24 does, means that hour.
        has_open_hours=is_open and hours.bit_count() > 1,
    )
    if not cron.months or cron.next_after(_BEFORE_ALL) is None:
        raise _NeverFires("never fires: no date matches its day, month, weekday and year together")
    return cron


def _months_with(days: tuple[int, ...], months: int) -> int:
    """Return the mask of those *months* that can have one of *days*; the search skips others."""
    lengths = {shape.length for shape, mask in zip(_SHAPES, days, strict=True) if mask}
    leaps = {29} & lengths
    return months & _bits([n for n in range(1, 13) if _LENGTHS[n] in lengths or (n == 2 and leaps)])


# --- fields ------------------------------------------------------------------------------------


class _Mistake(Exception):
    """An error in an expression; the message continues a sentence that begins with it."""


class _NeverFires(_Mistake):
    """An expression of valid fields that no date matches."""


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of an expression; a name of *names* may be shortened to three characters."""

    name: str
    first: int
    last: int
    names: tuple[str, ...] = ()
    is_cyclic: bool = True

    @property
    def limits(self) -> str:
        """The valid values of the field, as the end of a sentence."""
        if not self.names:
            return f"{self.name}s go from {self.first} to {self.last}"
        if self.first == 0:
            return f"{self.name}s go from 0 to 7 (0 and 7 are Sunday) or SUN to SAT"
        return f"{self.name}s go from {self.first} to {self.last} or JAN to DEC"


_SECONDS = _Field("second", 0, 59)
_MINUTES = _Field("minute", 0, 59)
_HOURS = _Field("hour", 0, 23)
_DAYS = _Field("day", 1, 31)
_MONTHS = _Field(
    "month",
    1,
    12,
    (
        *("JANUARY", "FEBRUARY", "MARCH", "APRIL", "MAY", "JUNE"),
        *("JULY", "AUGUST", "SEPTEMBER", "OCTOBER", "NOVEMBER", "DECEMBER"),
    ),
)
_WEEKDAYS = _Field(
    "weekday",
    0,
    7,
    ("SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY"),
)
_YEARS = _Field("year", 1970, 2099, is_cyclic=False)
_ALL = (_SECONDS, _MINUTES, _HOURS, _DAYS, _MONTHS, _WEEKDAYS, _YEARS)
"""The fields in their order. Hashed values follow from the place, which must not change."""

_SUNDAY, _SATURDAY = 0, 6
_SECOND = timedelta(seconds=1)
_CALENDAR_CYCLE_YEARS = 400
_ALL_YEARS = (1 << 9999) - 2
_BEFORE_ALL = datetime(_YEARS.first - 1, 12, 31, 23, 59, 59)  # noqa: DTZ001 - a wall clock

# Not str.upper, which turns other characters into ASCII letters, such as the Turkish dotless i.
_CAPITALS = str.maketrans(ascii_lowercase, ascii_uppercase)
_NAME_LENGTH = 3
"""The number of characters in the short name of a month or weekday."""
_OPEN = re.compile(r"\*(?:/[0-9]+)?|H/[0-9]+")
_ITEM = re.compile(r"(?:\*|([0-9A-Z]+)(?:-([0-9A-Z]+))?)(?:/([0-9]+))?")
_HASHED = re.compile(r"H(?:\((?P<low>[0-9A-Z]+)-(?P<high>[0-9A-Z]+)\))?(?:/(?P<step>[0-9]+))?")
_RANDOM = re.compile(r"R(?:\([0-9-]*\))?(?:/[0-9]+)?")
_SAFE_DAYS = range(1, 29)
"""The days that every month has."""


def _mask(field: _Field, text: str) -> int:
    mask = 0
    for item in dict.fromkeys(text.split(",")):
        mask |= _item_mask(field, item)
    return mask


def _item_mask(field: _Field, item: str) -> int:
    """Return the mask of an item: ``*``, ``*/n``, ``a``, ``a/n``, ``a-b`` or ``a-b/n``."""
    parts = _ITEM.fullmatch(item)
    if parts is None:
        raise _no_item(field, item)
    low_text, high_text, step_text = parts.groups()
    step = _step(field, step_text) if step_text else 1
    if low_text is None:
        return _bits(range(field.first, field.last + 1, step))
    low = _value(field, low_text, item)
    if high_text is not None:
        high = _value(field, high_text, item)
    elif step_text:
        # A week ends on Saturday unless a range ends with 7, as in croniter.
        high = _SATURDAY if field is _WEEKDAYS else field.last
    else:
        high = low
    return _bits(_span(field, low, high)[::step])


def _span(field: _Field, low: int, high: int) -> list[int]:
    """Return *low* to *high*, beyond the end of the field if necessary: ``22-2``, ``FRI-MON``."""
    if low <= high:
        return list(range(low, high + 1))
    if not field.is_cyclic:
        raise _Mistake(f"has {field.name} range {low}-{high}; a range must be ascending")
    # After Saturday a week continues with Sunday as 0; 7 is for ranges that end with it.
    last = _SATURDAY if field is _WEEKDAYS else field.last
    return [*range(low, last + 1), *range(field.first, high + 1)]


def _value(field: _Field, text: str, item: str) -> int:
    """Return the value that *text*, a part of *item*, stands for."""
    for number, name in enumerate(field.names, field.first):
        if text in (name, name[:_NAME_LENGTH]):
            return number
    if not text.isdigit() or len(text) > 9 or not field.first <= int(text) <= field.last:
        raise _no_item(field, item)
    return int(text)


def _step(field: _Field, text: str) -> int:
    # A longer step would silently mean "the first value only": */90 is not every 90 minutes.
    longest = 7 if field is _WEEKDAYS else field.last - field.first + 1
    if len(text) > 9 or not 1 <= int(text) <= longest:
        raise _Mistake(
            f"has {field.name} step {shortened(text)}; steps of {field.name}s go from 1 to "
            f"{longest} (for other intervals write @every)"
        )
    return int(text)


def _no_item(field: _Field, item: str) -> _Mistake:
    if _RANDOM.fullmatch(item):
        return _Mistake(
            f"has {field.name} {shortened(item)}; random fields (R) are not supported, "
            "write a number or H"
        )
    shown = shortened(item) if item.isalnum() else quoted(item)
    return _Mistake(f"has {field.name} {shown}; {field.limits}{_hint_of(field, item)}")


def _hint_of(field: _Field, item: str) -> str:
    if field is _DAYS and ("L" in item or "W" in item):
        return "; other valid forms are L, L-n, nW, LW and L-nW"
    if item.startswith("H(") and "-" not in item:
        return "; a hashed range is written H(a-b)"
    short = item[:_NAME_LENGTH]
    if item.isalpha() and any(short == name[:_NAME_LENGTH] for name in field.names):
        return f"; write {short}"
    return ""


# --- hashed items ------------------------------------------------------------------------------


def _unhashed(number: int, text: str, seed: str) -> str:
    """Return field *number* with its hashed items replaced by lists of values."""
    if "H" not in text:
        return text
    return ",".join(_unhashed_item(number, item, seed) for item in text.split(","))


def _unhashed_item(number: int, item: str, seed: str) -> str:
    parts = _HASHED.fullmatch(item)
    if parts is None:
        return item
    values = _hashable(_ALL[number], item, parts)
    digest = blake2b(f"{number} {seed}".encode(), digest_size=8).digest()
    place = int.from_bytes(digest)
    if parts["step"] is None:
        return str(values[place % len(values)])
    step = _number(parts["step"], 2, len(values))
    if step is None:
        raise _Mistake(
            f"has {_ALL[number].name} {quoted(item)}; its step goes from 2 to {len(values)}"
        )
    return ",".join(map(str, values[place % step :: step]))


def _hashable(field: _Field, item: str, parts: re.Match[str]) -> list[int]:
    """Return the values from which the hashed *item* chooses."""
    if parts["low"] is not None:
        span = _span(field, _value(field, parts["low"], item), _value(field, parts["high"], item))
        return list(dict.fromkeys(day % 7 for day in span)) if field is _WEEKDAYS else span
    if field is _YEARS:
        raise _Mistake(f"has year {shortened(item)}; a hashed year needs a range: H(2027-2029)")
    if field is _DAYS:
        return list(_SAFE_DAYS)
    return list(range(field.first, _SATURDAY + 1 if field is _WEEKDAYS else field.last + 1))


# --- days --------------------------------------------------------------------------------------


class _Month(NamedTuple):
    """The properties of a month on which a rule for days depends."""

    length: int
    first_weekday: int

    def weekday(self, day: int) -> int:
        """Return the weekday of *day*, from 0 for Sunday."""
        return (self.first_weekday + day - 1) % 7


_DayRule = Callable[[_Month], int]
"""Returns the mask of the days that match; bits beyond the end of the month have no effect."""
_Masks = tuple[int, ...]
"""The masks of a rule, one for each of `_SHAPES`."""

_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_SHAPES = tuple(_Month(length, weekday) for length in (28, 29, 30, 31) for weekday in range(7))

_FROM_END = re.compile(r"L(?:-([0-9]+))?(W)?")
_NEAREST = re.compile(r"([0-9]+)W")
_LAST = re.compile(r"L([0-9A-Z]+)|([0-9A-Z]+)L")
_NTH = re.compile(r"([0-9A-Z]+)#([0-9]+|L)")


def _shape(year: int, month: int) -> int:
    """Return the index in `_SHAPES` of *month* of *year*."""
    length = _LENGTHS[month]
    if month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0):
        length = 29
    return (length - 28) * 7 + date(year, month, 1).isoweekday() % 7


def _day_masks(day: str, weekday: str, *, day_or: bool) -> _Masks:
    by_day = _union(_day_masks_of, day)
    by_weekday = _union(_weekday_masks_of, weekday)
    # Only the first character decides, so "*/2" counts as open. Vixie cron does the same, and
    # crontabs rely on it, although its manual calls it a bug.
    is_either = day_or and day[0] not in "*?" and weekday[0] not in "*?"
    return tuple(
        (one | other if is_either else one & other) & _bits(range(1, month.length + 1))
        for one, other, month in zip(by_day, by_weekday, _SHAPES, strict=True)
    )


def _union(masks_of: Callable[[str], _Masks], text: str) -> list[int]:
    union = [0] * len(_SHAPES)
    for item in ["*"] if text == "?" else dict.fromkeys(text.split(",")):
        union = [one | other for one, other in zip(union, masks_of(item), strict=True)]
    return union


@lru_cache(maxsize=1024)  # 0.3 KB each; most of the cost of parsing is the 28 masks of a rule
def _day_masks_of(item: str) -> _Masks:
    return tuple(map(_day_rule(item), _SHAPES))


@lru_cache(maxsize=1024)
def _weekday_masks_of(item: str) -> _Masks:
    return tuple(map(_weekday_rule(item), _SHAPES))


def _day_rule(item: str) -> _DayRule:
    """Return the rule of an item of the day field: ``L-n``, ``L-nW``, ``nW`` or plain."""
    if parts := _FROM_END.fullmatch(item):
        before_end = _number(parts[1] or "0", 0, 30)
        if before_end is None:
            raise _Mistake(f"has day {quoted(item)}; days before the last go from 0 to 30")
        if parts[2]:
            return lambda month: _workday_mask(month, month.length - before_end)
        return lambda month: 1 << max(month.length - before_end, 0)
    if parts := _NEAREST.fullmatch(item):
        day = _value(_DAYS, parts[1], item)
        return lambda month: _workday_mask(month, day)
    mask = _item_mask(_DAYS, item)
    return lambda month: mask


def _workday_mask(month: _Month, day: int) -> int:
    """Return the mask of the Monday to Friday closest to *day*; 0 if *month* has no such day."""
    if not 1 <= day <= month.length:
        return 0
    weekday = month.weekday(day)
    if weekday == _SATURDAY:
        return 1 << (day - 1 if day > 1 else day + 2)
    if weekday == _SUNDAY:
        return 1 << (day + 1 if day < month.length else day - 2)
    return 1 << day


def _weekday_rule(item: str) -> _DayRule:
    """Return the rule of an item of the weekday field: ``nL``, ``Ln``, ``n#k`` or plain."""
    if item == "L":
        raise _Mistake("has weekday L alone; write which last weekday, as in 5L")
    if parts := _LAST.fullmatch(item):
        last = _value(_WEEKDAYS, parts[1] or parts[2], item) % 7
        return lambda month: 1 << max(_days_on(month, last))
    if parts := _NTH.fullmatch(item):
        weekday = _value(_WEEKDAYS, parts[1], item) % 7
        if parts[2] == "L":
            return lambda month: 1 << max(_days_on(month, weekday))
        nth = _number(parts[2], 1, 5)
        if nth is None:
            raise _Mistake(
                f"has weekday {quoted(item)}; the number after # goes from 1 to 5, "
                "and L is the last"
            )
        return lambda month: _bits(_days_on(month, weekday)[nth - 1 : nth])
    mask = _item_mask(_WEEKDAYS, item)
    weekdays = [weekday for weekday in range(7) if (mask | mask >> 7) >> weekday & 1]
    return lambda month: _bits([d for weekday in weekdays for d in _days_on(month, weekday)])


def _days_on(month: _Month, weekday: int) -> range:
    return range(1 + (weekday - month.first_weekday) % 7, month.length + 1, 7)


def _number(text: str, first: int, last: int) -> int | None:
    """Return the number with the digits *text*, or None if it is not from *first* to *last*."""
    return int(text) if len(text) <= 9 and first <= int(text) <= last else None


# --- masks -------------------------------------------------------------------------------------


def _bits(values: range | list[int]) -> int:
    mask = 0
    for value in values:
        mask |= 1 << value
    return mask


def _next_bit(mask: int, start: int) -> int | None:
    """Return the first bit of *mask* from *start* on, or None."""
    rest = mask >> start
    return start + (rest & -rest).bit_length() - 1 if rest else None


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1
