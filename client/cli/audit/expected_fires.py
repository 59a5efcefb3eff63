"""Fire times of schedules by another engine than that of the nodes: the library croniter.

croniter finds the local times of a cron expression; their instants follow from `local_times`. What
it cannot compute, or reads in another way than rota, is not audited, and the reason is reported.
"""

import heapq
import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from importlib import import_module
from itertools import count, dropwhile, takewhile
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from rota.client.cli.audit.local_times import (
    first_instant_of,
    hours_around,
    instant_in,
    instants_of,
    shown_at,
)
from rota.core.timing.instants import SECOND, Instant, parse_duration
from rota.wire.documents import ScheduleView

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@semiannually": "0 0 1 1,7 *",
    "@quarterly": "0 0 1 1,4,7,10 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@noon": "0 12 * * *",
    "@hourly": "0 * * * *",
    "@minutely": "* * * * *",
    "@every_minute": "* * * * *",
}
NEVER = Instant(253_370_764_799 * SECOND)
"""The end of the year 9998, after which no schedule fires."""
_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august"),
    *("september", "october", "november", "december"),
)
_WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")


class NotAudited(Exception):
    """The fire times of a schedule cannot be computed; the text is the reason."""


class _Field(NamedTuple):
    name: str
    least: int
    most: int
    words: tuple[str, ...] = ()


_FIELDS = (
    _Field("second", 0, 59),
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("weekday", 0, 6, _WEEKDAYS),
    _Field("year", 1970, 2099),
)
_RANGE = re.compile(r"(?P<first>\w+)(?:-(?P<last>\w+))?(?:/(?P<step>\d+))?", re.ASCII)
_STARRED = re.compile(r"\*(?:/(?P<step>\d+))?", re.ASCII)
_NTH = re.compile(r"(?P<day>\w+)#(?P<nth>[1-5])", re.ASCII)
_LAST = re.compile(r"L(?P<after>[0-7])|(?P<before>\w+?)#?L", re.ASCII)
_WORKDAY = re.compile(r"([1-9]|1[0-9]|2[0-8])W", re.ASCII)


def fires_from(schedule: ScheduleView, since: Instant) -> Iterator[Instant]:
    """Return the fire times of *schedule* from *since* on, in order, each once.

    Raises:
        NotAudited: They cannot be computed here.
    """
    for name, is_used in (
        ("every n-th period (every)", schedule.every is not None),
        ("hashed times (spread)", schedule.spread),
        ("gap: skip", schedule.gap != "shift"),
        (f"fold: {schedule.fold}", schedule.fold != "first"),
    ):
        if is_used:
            raise NotAudited(f"{name} is computed by no other engine")
    try:
        zone = ZoneInfo(schedule.timezone)
    except (KeyError, ValueError, OSError) as error:
        raise NotAudited(f"this machine has no time zone {schedule.timezone}") from error
    begin = max(since, instant_in(schedule.start_at, zone)) if schedule.start_at else since
    end = instant_in(schedule.end_at, zone) if schedule.end_at else NEVER
    found = dropwhile(lambda at: at < begin, _fires(schedule, zone, begin))
    return takewhile(lambda at: at <= end, found)


def once_at(schedule: ScheduleView) -> Instant | None:
    """Return the time of an ``@at``; None for other schedules."""
    form, _, argument = schedule.schedule.partition(" ")
    return instant_in(argument, ZoneInfo(schedule.timezone)) if form.lower() == "@at" else None


def _fires(schedule: ScheduleView, zone: ZoneInfo, begin: Instant) -> Iterator[Instant]:
    form, _, argument = schedule.schedule.partition(" ")
    match form.lower():
        case "@every":
            interval, _, phase = argument.partition(" phase ")
            return _regular(parse_duration(interval), parse_duration(phase or "0s"), begin)
        case "@at":
            return iter([instant_in(argument, zone)])
        case "@manual":
            return iter(())
        case "@startup":
            raise NotAudited("@startup fires when a node starts")
        case rule if rule.startswith("rrule:"):
            raise NotAudited("a recurrence rule is computed by no other engine")
        case macro if macro in MACROS:
            return _cron(MACROS[macro], zone, begin, day_or=True)
        case macro if macro.startswith("@"):
            raise NotAudited(f"this version of rota does not know {macro}")
        case _:
            return _cron(schedule.schedule, zone, begin, day_or=schedule.day_or)


def _regular(interval: int, phase: int, begin: Instant) -> Iterator[Instant]:
    first = max(0, begin - phase) // interval * interval + phase
    return (Instant(at) for at in count(first, interval))


# -- cron expressions ------------------------------------------------------------------------------


def _cron(text: str, zone: ZoneInfo, begin: Instant, *, day_or: bool) -> Iterator[Instant]:
    given = text.upper().split()
    fields = [*(["0"] if len(given) == 5 else []), *given]
    if len(fields) not in (6, 7):
        raise NotAudited(f"{text!r} has {len(given)} fields")
    translated = [_translated(*each) for each in zip(_FIELDS, fields, strict=False)]
    _check_days(translated[3], translated[5])
    start = shown_at(begin, zone) - hours_around(begin, zone) - timedelta(seconds=1)
    walls = _local_times(" ".join(translated), start, day_or=day_or)
    hours = _STARRED.fullmatch(fields[2])
    if hours is not None and int(hours["step"] or 1) < 24:
        return _whenever_shown(walls, zone)
    return _each_once(first_instant_of(wall, zone) for wall in walls)


def _local_times(expression: str, after: datetime, *, day_or: bool) -> Iterator[datetime]:
    library: Any = import_module("croniter")  # Any: the library has no types.
    try:
        found = library.croniter(
            expression,
            after,
            ret_type=datetime,
            day_or=day_or,
            implement_cron_bug=True,
            second_at_beginning=True,
        )
    except (library.CroniterError, ValueError) as error:
        raise NotAudited(f"croniter cannot read it: {error}") from error

    def local_times() -> Iterator[datetime]:
        while True:
            try:
                yield found.get_next()
            except library.CroniterBadDateError:
                return  # No further date matches.

    return local_times()


def _each_once(found: Iterable[Instant]) -> Iterator[Instant]:
    last = -1
    for at in found:
        if at != last:
            yield at
        last = at


def _whenever_shown(walls: Iterable[datetime], zone: ZoneInfo) -> Iterator[Instant]:
    """Yield the instants at which the clock shows *walls*, in their own order.

    The second pass of a repeated hour is kept until the first pass is over.
    """
    waiting: list[Instant] = []
    for wall in walls:
        instants = instants_of(wall, zone)
        while waiting and instants and waiting[0] < instants[0]:
            yield heapq.heappop(waiting)
        for at in instants:
            heapq.heappush(waiting, at)
    while waiting:
        yield heapq.heappop(waiting)


def _translated(field: _Field, text: str) -> str:
    """Return a field as croniter writes it.

    Raises:
        NotAudited: croniter has no such form, or reads it in another way.
    """
    if text == "?":
        return "*"
    if starred := _STARRED.fullmatch(text):
        return text if int(starred["step"] or 1) <= field.most - field.least + 1 else "*/0"
    items = text.split(",")
    if any(item.startswith("H") for item in items):
        raise NotAudited("hashed fields (H) are computed by no other engine")
    if any("*" in item for item in items):
        raise _foreign(field, text)
    if field.name == "day" and (text == "L" or _WORKDAY.fullmatch(text)):
        return text
    if field.name == "weekday":
        for special, form in ((_NTH, _nth), (_LAST, _last)):
            found = [special.fullmatch(item) for item in items]
            if all(found):
                return ",".join(form(field, each) for each in found if each)
    return ",".join(_plain(field, item, text) for item in items)


def _nth(field: _Field, found: re.Match[str]) -> str:
    return f"{_value(field, found['day'], found[0]) % 7}#{found['nth']}"


def _last(field: _Field, found: re.Match[str]) -> str:
    return f"L{_value(field, found['after'] or found['before'], found[0]) % 7}"


def _plain(field: _Field, item: str, text: str) -> str:
    found = _RANGE.fullmatch(item)
    if found is None:
        raise _foreign(field, text)
    first, last = (_value(field, found[end] or found["first"], text) for end in ("first", "last"))
    step = found["step"]
    if field.name == "weekday":
        if step and 7 in (first, last):
            raise _foreign(field, text)
        if last == 7 > first:
            return f"{first}-6,0" if first < 6 else "6,0"
        first, last = first % 7, last % 7
    if step and not found["last"]:
        last = field.most
    if first == last:
        return str(first)
    if first < last:
        return f"{first}-{last}" + (f"/{step}" if step else "")
    if step:
        raise _foreign(field, text)
    return f"{_run(first, field.most)},{_run(field.least, last)}"


def _run(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _value(field: _Field, word: str, text: str) -> int:
    if word.isdecimal():
        return int(word)
    for number, name in enumerate(field.words):
        if word.lower() in (name, name[:3]):
            return number + field.least
    raise _foreign(field, text)


def _foreign(field: _Field, text: str) -> NotAudited:
    return NotAudited(f"croniter has no form {text!r} of a {field.name}, or reads it differently")


def _check_days(days: str, weekdays: str) -> None:
    """Check that no rule about the week or the month is combined with another day field."""
    has_rule = re.search(r"[LW#]", days + weekdays)
    if has_rule and not days.startswith("*") and not weekdays.startswith("*"):
        raise NotAudited(f"croniter does not combine the day {days!r} with the weekday {weekdays}")
