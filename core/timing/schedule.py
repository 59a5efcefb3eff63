"""Schedules: the rules that give fire times.

A schedule is stored as its text, its zone and one switch; these are parsed when they are needed,
and the result is cached. Each form implements only `next_fire`. Ranges of fire times, the latest
fire and the preview are derived from `next_fire`, so they cannot disagree with it.

The clock of a zone may be put forward or back. A cron expression that names hours fires once for
each local time that it names: at the first instant after the gap if the clock skips that time, at
its first occurrence if the clock repeats it. An expression whose hour field is ``*`` or ``*/n``
follows elapsed time instead: it fires whenever the local time matches, so its fires neither pause
nor double when the clock changes. Both kinds depend on `_change_at`, which relies on PEP 495: the
two folds of a local time have different offsets exactly if the clock skips or repeats it.
"""

import difflib
import heapq
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from enum import Enum
from functools import lru_cache
from itertools import islice
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

import msgspec

from rota.core.errors import Refused, invalid
from rota.core.quoting import QUOTED_MAX, quoted, shortened
from rota.core.timing.cron import Cron, parse_cron
from rota.core.timing.instants import (
    DAY,
    MILLISECOND,
    SECOND,
    Duration,
    Instant,
    format_duration,
    is_instant,
    later,
    parse_duration,
    parse_instant,
    to_datetime,
)

TEXT_LENGTH_MAX = 1_000
"""The maximum number of characters of a schedule; a cron expression that lists every value of every
field has about 500."""
INTERVAL_MIN = Duration(100 * MILLISECOND)
"""The shortest `@every`: below it, lateness would be as long as the interval itself."""
INTERVAL_MAX = Duration(36_500 * DAY)
"""The longest `@every`, about a century."""
LATEST_FIRE = Instant(253_370_764_799 * SECOND)
"""9998-12-31T23:59:59Z; no schedule fires later.

A fire time may be shown in any zone, and the last instant (`LATEST_INSTANT`) has no local time east
of Greenwich.
"""


class Schedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rule that gives fire times, as stored; created by `parse_schedule`.

    Attributes:
        text: A cron expression, or a form that begins with ``@``.
        timezone: IANA name of the zone of the local times in the text.
        day_or: Whether a match of either day field is enough if a cron expression restricts both.
    """

    text: str
    timezone: str = "UTC"
    day_or: bool = True


class FirePreview(NamedTuple):
    """A coming fire time, for display.

    Attributes:
        instant: The fire time.
        local: The fire time in the schedule's zone, in RFC 3339 with the offset.
        note: The effect of a clock change on the fire time, or ``""``.
    """

    instant: Instant
    local: str
    note: str


def parse_schedule(text: str, timezone: str = "UTC", day_or: bool = True) -> Schedule:
    """Return the schedule *text*, fully checked and with normalized white space.

    The forms are: a cron expression of 5 to 7 fields; ``@yearly @annually @monthly @weekly @daily
    @midnight @hourly``; ``@every 5m phase 30s``; ``@at 2027-01-01T00:00:00Z``, or without offset
    for a local time; ``@manual``; ``@startup``.

    Raises:
        Refused: Code ``invalid_schedule`` or ``unknown_timezone``; the detail states what is valid.
    """
    if len(text) > TEXT_LENGTH_MAX:
        raise _refusal(
            f"the schedule has {len(text):,} characters; at most {TEXT_LENGTH_MAX:,} are allowed"
        )
    schedule = Schedule(text=" ".join(text.split()), timezone=timezone, day_or=day_or)
    _rule(schedule)
    return schedule


def is_manual(schedule: Schedule) -> bool:
    """Return True if *schedule* never fires by itself."""
    return _rule(schedule) is _Unscheduled.MANUAL


def is_startup(schedule: Schedule) -> bool:
    """Return True if *schedule* fires when the cluster starts; `next_fire` gives no fire time."""
    # Called for every stored job when the cluster starts, so the text is compared and not parsed.
    return schedule.text.lower() == _Unscheduled.STARTUP.value


def one_shot_at(schedule: Schedule) -> Instant | None:
    """Return the instant of an ``@at``; None for any other schedule.

    Raises:
        Refused: *schedule* cannot be read (see `fault_of`).
    """
    rule = _rule(schedule)
    return rule.at if isinstance(rule, _At) else None


def fault_of(schedule: Schedule) -> str:
    """Return the reason why a stored *schedule* cannot be read, or ``""`` if it can.

    An unreadable schedule was stored by another version of rota or with another tz database.
    """
    try:
        _rule(schedule)
    except Refused as refusal:
        return refusal.detail
    return ""


def next_fire(schedule: Schedule, after: Instant) -> Instant | None:
    """Return the first fire time strictly after *after*, or None if none is left by `LATEST_FIRE`.

    Raises:
        Refused: *schedule* cannot be read (see `fault_of`).
    """
    if after >= LATEST_FIRE:
        return None
    fire_at = _next_by_rule(_rule(schedule), after)
    return fire_at if fire_at is not None and fire_at <= LATEST_FIRE else None


def _next_by_rule(rule: "_Rule", after: Instant) -> Instant | None:
    match rule:
        case _CronRule() as rule:
            return rule.next_fire(after)
        case _Every(interval, phase):
            return later(after, Duration(interval - (after - phase) % interval))
        case _At(at):
            return at if at > after else None
        case _Unscheduled():
            return None


def fire_times(schedule: Schedule, after: Instant, until: Instant, limit: int) -> list[Instant]:
    """Return the fire times in ``(after, until]``, oldest first, at most *limit* of them."""
    times: list[Instant] = []
    fire_at = next_fire(schedule, after)
    while fire_at is not None and fire_at <= until and len(times) < limit:
        times.append(fire_at)
        fire_at = next_fire(schedule, fire_at)
    return times


def latest_fire(schedule: Schedule, after: Instant, until: Instant) -> Instant | None:
    """Return the last fire time in ``(after, until]``, or None.

    `next_fire` is called less than a hundred times, however many fire times the range has.
    """
    latest = None
    # Look back twice as far each time until there is a fire, then bisect the rest of the range:
    # from any instant before the latest fire, the next one is in range; from any other, it is not.
    reach = SECOND
    begin = Instant(max(after, until - reach))
    while (fire_at := next_fire(schedule, begin)) is None or fire_at > until:
        if begin <= after:
            return None
        reach = Duration(2 * reach)
        begin = Instant(max(after, until - reach))
    latest, end = fire_at, until
    while latest < end:
        middle = Instant((latest + end) // 2)
        fire_at = next_fire(schedule, middle)
        if fire_at is None or fire_at > until:
            end = middle
        else:
            latest = fire_at
    return latest


def coming(schedules: Sequence[Schedule], after: Instant) -> Iterator[tuple[int, FirePreview]]:
    """Yield the fire times of *schedules* after *after* in order, each with its schedule's number.

    Each step computes one fire time; the first step computes one for each schedule. A schedule that
    cannot be read is left out (see `fault_of`).
    """
    found = (
        _numbered(number, schedule, after)
        for number, schedule in enumerate(schedules)
        if not fault_of(schedule)
    )
    for _, number, preview in heapq.merge(*found):
        yield number, preview


def _numbered(
    number: int, schedule: Schedule, after: Instant
) -> Iterator[tuple[Instant, int, FirePreview]]:
    rule, zone = _rule(schedule), load_zone(schedule.timezone)
    fire_at = next_fire(schedule, after)
    while fire_at is not None:
        wall = to_datetime(fire_at).astimezone(zone)
        yield fire_at, number, FirePreview(fire_at, wall.isoformat(), _note(rule, wall))
        fire_at = next_fire(schedule, fire_at)


def preview(schedule: Schedule, after: Instant, count: int) -> list[FirePreview]:
    """Return the next *count* fire times after *after*, with notes on clock changes."""
    return [fire for _, fire in islice(coming([schedule], after), count)]


def _note(rule: "_Rule", wall: datetime) -> str:
    if _is_shifted(rule, wall.replace(tzinfo=None, fold=0)):
        return "shifted out of a DST gap"
    if wall.utcoffset() == wall.replace(fold=1 - wall.fold).utcoffset():
        return ""
    return "second of a repeated hour" if wall.fold else "first of a repeated hour"


def _is_shifted(rule: "_Rule", shown: datetime) -> bool:
    match rule:
        case _CronRule():
            return not rule.cron.matches(shown)
        case _At():
            return rule.is_shifted
        case _Every():
            return False
        case _Unscheduled():
            return False


# --- parsing of a text -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _CronRule:
    cron: Cron
    zone: tzinfo

    def next_fire(self, after: Instant) -> Instant | None:
        if self.cron.has_open_hours:
            return _next_matching_instant(self.cron, self.zone, after)
        return _next_named_time(self.cron, self.zone, after)


@dataclass(frozen=True, slots=True)
class _Every:
    """Every instant that is *phase* past a multiple of *interval* since the epoch."""

    interval: Duration
    phase: Duration


@dataclass(frozen=True, slots=True)
class _At:
    at: Instant
    is_shifted: bool


class _Unscheduled(Enum):
    MANUAL = "@manual"
    STARTUP = "@startup"


_Rule = _CronRule | _Every | _At | _Unscheduled

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_PLAIN_FORMS = {form.value: form for form in _Unscheduled}
_FORMS = (*_MACROS, "@every", "@at", *_PLAIN_FORMS)
_FIRE_RANGE = "schedules fire from 1970 to the end of 9998, UTC"
_AT_FORMS = (
    "write a time as 2027-01-01T09:00:00Z, with an offset as 2027-01-01T09:00+01:00, or as "
    "2027-01-01T09:00 for a local time in the schedule's timezone"
)
_SYNONYMS = {"@reboot": "@startup", "@once": "@at", "@never": "@manual"}

_LOCAL_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?", re.ASCII)


@lru_cache(maxsize=4096)
def _rule(schedule: Schedule) -> _Rule:
    zone = load_zone(schedule.timezone)
    if not schedule.text.startswith("@"):
        return _CronRule(parse_cron(schedule.text, schedule.day_or), zone)
    form, _, argument = schedule.text.partition(" ")
    # Not str.lower alone, which turns the Kelvin sign into an ASCII k.
    form = form.lower() if form.isascii() else form
    if form == "@every":
        return _parse_every(argument)
    if form == "@at":
        return _parse_at(argument, zone)
    if form not in _FORMS:
        raise _refusal(f"there is no schedule {shortened(form)}{_did_you_mean(form, _FORMS)}")
    if argument:
        raise _refusal(f"{form} has no arguments; remove {quoted(argument)}")
    if form in _PLAIN_FORMS:
        return _PLAIN_FORMS[form]
    return _CronRule(parse_cron(_MACROS[form]), zone)


def _parse_every(argument: str) -> _Every:
    interval_text, has_phase, phase_text = argument.partition(" phase ")
    try:
        interval = parse_duration(interval_text)
        phase = parse_duration(phase_text) if has_phase else Duration(0)
    except ValueError as error:
        raise _refusal(f"{quoted(f'@every {argument}')}: {error}") from error
    if interval < INTERVAL_MIN:
        raise _refusal(
            f"{quoted(f'@every {argument}')} has interval {format_duration(interval)}; "
            f"the shortest is {format_duration(INTERVAL_MIN)}"
        )
    if interval > INTERVAL_MAX:
        raise _refusal(
            f"{quoted(f'@every {argument}')} has interval {format_duration(interval)}; "
            f"the longest is {format_duration(INTERVAL_MAX)}"
        )
    if phase >= interval:
        raise _refusal(
            f"{quoted(f'@every {argument}')} has phase {format_duration(phase)}; "
            f"it must be shorter than the interval, {format_duration(interval)}"
        )
    return _Every(interval, phase)


def _parse_at(argument: str, zone: tzinfo) -> _At:
    try:
        rule = _at_rule(argument, zone)
    except (ValueError, OverflowError) as error:
        raise _refusal(f"{quoted(f'@at {argument}')}: {error}") from error
    if not 0 <= rule.at <= LATEST_FIRE:
        raise _refusal(f"{quoted(f'@at {argument}')} is out of range; {_FIRE_RANGE}")
    return rule


def _at_rule(argument: str, zone: tzinfo) -> _At:
    if not _LOCAL_TIME.fullmatch(argument):
        if not is_instant(argument):
            raise ValueError(_AT_FORMS)
        return _At(parse_instant(argument), is_shifted=False)
    wall = datetime.fromisoformat(argument.upper())
    if not 1969 <= wall.year < 9999:
        # A zone has no offsets for the first and the last years.
        raise ValueError(_FIRE_RANGE)
    change = _change_at(zone, wall)
    is_shifted = change is not None and change.skips_local_times
    return _At(_first_instant(zone, wall), is_shifted=is_shifted)


def _refusal(detail: str) -> Refused:
    return invalid("invalid_schedule", detail)


# --- zones -------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)  # there are about 600 zones
def load_zone(name: str) -> ZoneInfo:
    """Return the zone with the IANA name *name*.

    Raises:
        Refused: ``unknown_timezone``, with the names closest to *name*.
    """
    if is_zone(name):
        return ZoneInfo(name)
    raise unknown_zone(name)


def is_zone(name: str) -> bool:
    """Return True if there is a zone with the IANA name *name*."""
    return name in _zone_names()


def unknown_zone(name: str, *, has_hint: bool = True) -> Refused:
    """Return the refusal of *name*, which is not the name of a zone.

    Args:
        name: The name that was given.
        has_hint: Whether to suggest the closest names; the search for them takes about 2 ms.
    """
    hint = _did_you_mean(name, tuple(_zone_names())) if has_hint else "."
    detail = f"{quoted(name)} is not a time zone{hint}"
    return invalid("unknown_timezone", f"{detail} Zones have IANA names, such as Europe/Paris.")


@lru_cache(maxsize=1)  # lists a directory of the tz database, which costs about 20 ms
def _zone_names() -> frozenset[str]:
    # These two have a different meaning on each machine.
    return frozenset(available_timezones()) - {"localtime", "Factory"}


def _did_you_mean(word: str, known: tuple[str, ...]) -> str:
    if word in _SYNONYMS:
        return f"; did you mean {_SYNONYMS[word]}?"
    if len(word) > QUOTED_MAX:
        return "."
    lowered = {name.lower(): name for name in sorted(known)}
    wanted = word.lower().replace(" ", "_")
    # "new york" and "Berlin" should find their zone, so the last part of a name is enough.
    close = [name for key, name in lowered.items() if wanted in (key, key.rpartition("/")[2])]
    if not close:
        close = [lowered[key] for key in difflib.get_close_matches(wanted, lowered)]
    return f"; did you mean {' or '.join(close)}?" if close else "."


# --- clock changes -----------------------------------------------------------------------------

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - of the clock on the wall
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class _Change:
    """A clock change: the clock of a zone is put forward or back.

    Attributes:
        at: The first instant with the new offset.
        before: The offset until then.
        after: The offset from then on.
    """

    at: Instant
    before: timedelta
    after: timedelta

    @property
    def skips_local_times(self) -> bool:
        return self.after > self.before


def _change_at(zone: tzinfo, wall: datetime) -> _Change | None:
    """Return the clock change that skips or repeats the naive local time *wall*, or None."""
    before, after = _offsets(zone, wall)
    if before == after:
        return None
    # The change is between the two instants that the offsets give; bisect to the microsecond.
    low, high = sorted((_instant(wall, before), _instant(wall, after)))
    while high - low > 1:
        middle = Instant((low + high) // 2)
        if to_datetime(middle).astimezone(zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return _Change(high, before, after)


def _offsets(zone: tzinfo, wall: datetime) -> tuple[timedelta, timedelta]:
    """Return the offsets of both folds of *wall*: before and after a change if they differ."""
    first = zone.utcoffset(wall)
    second = zone.utcoffset(wall.replace(fold=1))
    assert first is not None
    assert second is not None  # zones from the tz database always know their offset
    return first, second


def _instant(wall: datetime, offset: timedelta) -> Instant:
    return Instant((wall - offset - _EPOCH) // _TICK)


def _wall(instant: Instant, offset: timedelta) -> datetime:
    return _EPOCH + timedelta(microseconds=instant) + offset


def _first_instant(zone: tzinfo, wall: datetime) -> Instant:
    """Return the first instant at which the clock shows *wall* or later.

    A later local time has a later instant or the same one, so fires stay in order whatever the
    changes of a zone.
    """
    change = _change_at(zone, wall)
    if change is None:
        return _instant(wall, _offsets(zone, wall)[0])
    if change.skips_local_times:
        return change.at
    return _instant(wall, change.before)


def _next_named_time(cron: Cron, zone: tzinfo, after: Instant) -> Instant | None:
    """Return the first instant after *after* of a local time that *cron* names."""
    wall = to_datetime(after).astimezone(zone)
    reached = wall.replace(tzinfo=None, fold=0)
    if wall.fold:
        # In the second pass, all local times up to the end of the first pass have fired already.
        change = _change_at(zone, reached)
        assert change is not None
        reached = _wall(change.at, change.before) - _TICK
    named = cron.next_after(reached)
    return None if named is None else _first_instant(zone, named)


def _next_matching_instant(cron: Cron, zone: tzinfo, after: Instant) -> Instant | None:
    """Return the first instant after *after* at which the local time matches *cron*."""
    wall = to_datetime(after).astimezone(zone)
    shown = wall.replace(tzinfo=None, fold=0)
    match = cron.next_after(shown)
    change = _change_at(zone, shown)
    if change is not None and not wall.fold:
        # In the first pass, the rest of this pass comes first, then all of the second pass.
        if match is not None and _instant(match, change.before) < change.at:
            return _instant(match, change.before)
        match = cron.next_after(_wall(change.at, change.after) - _TICK)
    while match is not None:
        change = _change_at(zone, match)
        if change is None:
            return _instant(match, _offsets(zone, match)[0])
        if not change.skips_local_times:
            first = _instant(match, change.before)
            return first if first > after else _instant(match, change.after)
        match = cron.next_after(_wall(change.at, change.after) - _TICK)
    return None
