"""Schedules: the rules that give fire times.

A schedule is stored as its text, its zone and a few fields; these are parsed when they are needed,
and the result is cached. Each form implements only `next_fire`. Ranges of fire times, the latest
fire and the preview are derived from `next_fire`, so they cannot disagree with it.

The clock of a zone may be put forward or back. A cron expression that names hours fires once for
each local time that it names: at the first instant after the gap if the clock skips that time, at
its first occurrence if the clock repeats it, unless its fields `gap` and `fold` say otherwise. An
expression whose hour field is ``*`` or ``*/n`` follows elapsed time instead: it fires whenever the
local time matches, so its fires neither pause nor double when the clock changes
(`rota.core.timing.clock_changes`).
"""

import difflib
import heapq
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from enum import Enum
from functools import lru_cache
from itertools import islice
from typing import Literal, NamedTuple, Protocol
from zoneinfo import ZoneInfo, available_timezones

import msgspec
from msgspec.structs import replace

from rota.core.errors import Problem, Refused, invalid
from rota.core.quoting import QUOTED_MAX, quoted, shortened
from rota.core.timing.clock_changes import (
    TICK,
    change_at,
    changes_after,
    first_instant,
    forward_between,
    instant_of,
    offsets_at,
    wall_of,
)
from rota.core.timing.cron import Cron, has_hash, parse_cron
from rota.core.timing.instants import (
    DAY,
    HOUR,
    MICROSECOND,
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
from rota.core.timing.periods import PeriodicCron, in_periods
from rota.core.timing.recurrence import PREFIX, RecurringTimes, recurring_times

TEXT_LENGTH_MAX = 1_000
"""The maximum number of characters of a schedule; a cron expression that lists every value of every
field has about 500."""
INTERVAL_MIN = Duration(100 * MILLISECOND)
"""The shortest `@every`: below it, lateness would be as long as the interval itself."""
INTERVAL_MAX = Duration(36_500 * DAY)
"""The longest `@every`, about a century."""
_STEPS = 4
"""The most fire times that `_latest` takes one by one before it bisects."""
_HOURS_BEFORE = Duration(12 * HOUR)
"""The time before and after a change of the clock in which fires are examined for notes."""
_FIRES_AROUND = 50
_SKIPPED_MAX = 2
"""The most skipped local times that the note of a fire names."""
LATEST_FIRE = Instant(253_370_764_799 * SECOND)
"""9998-12-31T23:59:59Z; no schedule fires later.

A fire time may be shown in any zone, and the last instant (`LATEST_INSTANT`) has no local time east
of Greenwich.
"""


class Schedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rule that gives fire times, as stored; created by `parse_schedule` and `checked`.

    Attributes:
        text: A cron expression, a form that begins with ``@``, or a recurrence rule that begins
            with ``RRULE:``.
        timezone: IANA name of the zone of the local times in the text.
        day_or: Whether a match of either day field is enough if a cron expression restricts both.
        spread: Whether a macro, such as ``@daily``, fires at a hashed time of its period.
        seed: The full name of the job, from which hashed values follow; empty if there are none.
        start_at: No fire time is earlier; an instant or a local time as for ``@at``; empty for no
            limit.
        end_at: No fire time is later, in the same form.
        every: Only every n-th period counts, such as ``2 weeks``, from that with *start_at*; empty
            for every one.
        gap: What a local time that an expression names does if the clock skips it.
        fold: Which occurrences of it fire if the clock repeats it.
    """

    text: str
    timezone: str = "UTC"
    day_or: bool = True
    spread: bool = False
    seed: str = ""
    start_at: str = ""
    end_at: str = ""
    every: str = ""
    gap: Literal["shift", "skip"] = "shift"
    fold: Literal["first", "last", "both"] = "first"


class Excluder(Protocol):
    """What excludes fire times; see `rota.core.timing.calendars.Exclusion`."""

    def why(self, at: Instant) -> str:
        """Return why the fire time *at* is excluded; empty if it is not."""
        raise NotImplementedError

    def ends_at(self, at: Instant) -> Instant | None:
        """Return the end of the excluded stretch that has *at*, or None if it is too long."""
        raise NotImplementedError


class FirePreview(NamedTuple):
    """A coming fire time, for display.

    Attributes:
        instant: The fire time.
        local: The fire time in the schedule's zone, in RFC 3339 with the offset.
        note: The effect of a clock change on the fire time, or ``""``.
        excluded: Why the job does not run at this time, and at none until the next one; or ``""``.
    """

    instant: Instant
    local: str
    note: str
    excluded: str = ""


def parse_schedule(text: str, timezone: str = "UTC", day_or: bool = True) -> Schedule:
    """Return the schedule *text*, fully checked and with normalized white space.

    The forms are: a cron expression of 5 to 7 fields; ``@daily`` and the other macros; ``@every 5m
    phase 30s``; ``@at 2027-01-01T00:00:00Z``, or without offset for a local time; ``@manual``;
    ``@startup``. Each may follow a prefix with its zone, ``TZ=Europe/Paris`` or ``CRON_TZ=``, which
    replaces *timezone* if that is UTC.

    Raises:
        Refused: Code ``invalid_schedule`` or ``unknown_timezone``; the detail states what is valid.
    """
    return checked(Schedule(text=text, timezone=timezone, day_or=day_or))


def checked(schedule: Schedule) -> Schedule:
    """Return *schedule* as `parse_schedule` does; its seed is left out if nothing is hashed.

    Raises:
        Refused: Code ``invalid_schedule`` or ``unknown_timezone``; the detail states what is valid.
    """
    text, timezone = schedule.text, schedule.timezone
    if len(text) > TEXT_LENGTH_MAX:
        raise _refusal(
            f"the schedule has {len(text):,} characters; at most {TEXT_LENGTH_MAX:,} are allowed"
        )
    text = " ".join(text.split())
    if (zone := zone_prefix(text)) is not None:
        load_zone(zone)
        if timezone not in ("UTC", zone):
            raise contradiction(text, timezone)
        timezone, text = zone, text.partition(" ")[2]
    is_hashed = schedule.spread or has_hash(text)
    seed = schedule.seed if is_hashed else ""
    schedule = replace(schedule, text=text, timezone=timezone, seed=seed)
    schedule = replace(schedule, every=" ".join(schedule.every.split()))
    has_limits = bool(schedule.start_at or schedule.end_at)
    if has_limits and next_fire(schedule, Instant(_rule(schedule).start - 1)) is None:
        raise _refusal(f"{quoted(text)} has no fire time {_limits_text(schedule)}")
    _rule(schedule)
    return schedule


def _limits_text(schedule: Schedule) -> str:
    """Return where a schedule without fire times might have some."""
    period = f"in a period of every, {schedule.every}, " if schedule.every else ""
    if schedule.start_at and schedule.end_at:
        return f"{period}between startAt and endAt"
    return f"{period}from startAt on" if schedule.start_at else f"{period}up to endAt"


def zone_prefix(text: str) -> str | None:
    """Return the zone with which *text* begins, as ``TZ=Europe/Paris`` does; None for none."""
    found = _ZONE.match(text)
    return found["zone"] if found else None


def contradiction(text: str, timezone: str) -> Refused:
    """Return the refusal of *text*, whose prefix is another zone than *timezone*."""
    return _refusal(f"{quoted(text)} begins with another zone than {timezone}; remove one of them")


def is_manual(schedule: Schedule) -> bool:
    """Return True if *schedule* never fires by itself."""
    return _rule(schedule).form is _Unscheduled.MANUAL


def is_recurrence(schedule: Schedule) -> bool:
    """Return True if *schedule* is a recurrence rule of iCalendar, such as ``RRULE:FREQ=DAILY``."""
    return schedule.text[: len(PREFIX)].upper() == PREFIX


def is_startup(schedule: Schedule) -> bool:
    """Return True if *schedule* fires when the cluster starts; `next_fire` gives no fire time."""
    # Called for every stored job when the cluster starts, so the text is compared and not parsed.
    return schedule.text.lower() == _Unscheduled.STARTUP.value


def one_shot_at(schedule: Schedule) -> Instant | None:
    """Return the instant of an ``@at``; None for any other schedule.

    Raises:
        Refused: *schedule* cannot be read (see `fault_of`).
    """
    form = _rule(schedule).form
    return form.at if isinstance(form, _At) else None


def has_ended(schedule: Schedule, now: Instant) -> bool:
    """Return True if *schedule* has an end, and no fire time of it is left after *now*.

    Raises:
        Refused: *schedule* cannot be read (see `fault_of`).
    """
    return bool(schedule.end_at) and next_fire(schedule, now) is None


def has_rules(schedule: Schedule) -> bool:
    """Return True if the fire times follow the rules of a time zone, which may change.

    Raises:
        Refused: *schedule* cannot be read (see `fault_of`).
    """
    has_limits = bool(schedule.start_at or schedule.end_at)
    is_local = has_limits or isinstance(_rule(schedule).form, _CronRule | _At)
    return schedule.timezone != "UTC" and is_local


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
    rule = _rule(schedule)
    if after >= rule.end:
        return None
    fire_at = _next_by_form(rule.form, Instant(max(after, rule.start - 1)))
    return fire_at if fire_at is not None and fire_at <= rule.end else None


def _next_by_form(form: "_Form", after: Instant) -> Instant | None:
    match form:
        case _CronRule():
            return form.next_fire(after)
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
    return _latest(lambda at: next_fire(schedule, at), after, until, SECOND)


@lru_cache(maxsize=4096)  # Jobs with the same schedule fire together.
def previous_fire(schedule: Schedule, before: Instant) -> Instant | None:
    """Return the last fire time before *before*, which is a fire time of *schedule*, or None.

    Its ``startAt`` does not count, so the first fire time has a previous one, too.

    Raises:
        Refused: *schedule* cannot be read (see `fault_of`).
    """
    form = _rule(schedule).form
    following = _next_by_form(form, before)
    reach = Duration(following - before) if following is not None else DAY
    return _latest(lambda at: _next_by_form(form, at), Instant(0), Instant(before - 1), reach)


def _latest(
    next_after: Callable[[Instant], Instant | None],
    after: Instant,
    until: Instant,
    reach: Duration,
) -> Instant | None:
    """Return the last fire time in ``(after, until]``, or None.

    Look back *reach*, and twice as far each time until there is a fire, then bisect the rest of the
    range: from any instant before the latest fire, the next one is in range; from any other, it is
    not. Usually few fires are left, which are taken one by one.
    """
    begin = Instant(max(after, until - reach))
    while (fire_at := next_after(begin)) is None or fire_at > until:
        if begin <= after:
            return None
        reach = Duration(2 * reach)
        begin = Instant(max(after, until - reach))
    latest, end = fire_at, until
    for _ in range(_STEPS):
        fire_at = next_after(latest)
        if fire_at is None or fire_at > until:
            return latest
        latest = fire_at
    while latest < end:
        middle = Instant((latest + end) // 2)
        fire_at = next_after(middle)
        if fire_at is None or fire_at > until:
            end = middle
        else:
            latest = fire_at
    return latest


def coming(
    schedules: Sequence[Schedule],
    after: Instant | Sequence[Instant],
    exclusions: Sequence[Excluder | None] = (),
    most: Sequence[int | None] = (),
) -> Iterator[tuple[int, FirePreview]]:
    """Yield the fire times of *schedules* after *after* in order, each with its schedule's number.

    *after* is one instant, or one for each schedule; *exclusions* are what excludes times of each
    schedule, if anything does. Of the fire times in an excluded stretch, only the first is given.
    *most* are the most fire times of each schedule that are not excluded; None for no limit.

    Each step computes one fire time; the first step computes one for each schedule. A schedule that
    cannot be read is left out (see `fault_of`).
    """
    found = (
        _numbered(
            number,
            schedule,
            after if isinstance(after, int) else after[number],
            exclusions[number] if exclusions else None,
            most[number] if most else None,
        )
        for number, schedule in enumerate(schedules)
        if not fault_of(schedule)
    )
    for _, number, preview in heapq.merge(*found):
        yield number, preview


def _numbered(
    number: int, schedule: Schedule, after: Instant, exclusion: Excluder | None, left: int | None
) -> Iterator[tuple[Instant, int, FirePreview]]:
    form, zone = _rule(schedule).form, load_zone(schedule.timezone)
    before, fire_at = max(after, Instant(0)), next_fire(schedule, after)
    while fire_at is not None and left != 0:
        wall = to_datetime(fire_at).astimezone(zone)
        why = exclusion.why(fire_at) if exclusion else ""
        notes = (_note(form, wall), _note_of_gap(form, before, fire_at))
        note = "; ".join(each for each in notes if each)
        yield fire_at, number, FirePreview(fire_at, wall.isoformat(), note, why)
        before = fire_at
        left = left if left is None or why else left - 1
        if exclusion is not None and why:
            end = exclusion.ends_at(fire_at)
            if end is None:
                return
            fire_at = Instant(end - MICROSECOND)
        fire_at = next_fire(schedule, fire_at)


def preview(schedule: Schedule, after: Instant, count: int) -> list[FirePreview]:
    """Return the next *count* fire times after *after*, with notes on clock changes."""
    return [fire for _, fire in islice(coming([schedule], after), count)]


def matches_either_day(schedule: Schedule) -> bool:
    """Return True if *schedule* restricts both day fields, of which one has to match."""
    form = _rule(schedule).form
    fields = schedule.text.split()
    if not isinstance(form, _CronRule) or len(fields) < 5 or not schedule.day_or:
        return False
    day, weekday = (fields[2], fields[4]) if len(fields) == 5 else (fields[3], fields[5])
    return not any(field.startswith(("*", "?")) for field in (day, weekday))


def clock_notes(schedule: Schedule, after: Instant) -> list[str]:
    """Return the notes of fires that the clock shifts or skips within a year, with their times."""
    form, zone = _rule(schedule).form, load_zone(schedule.timezone)
    if not isinstance(form, _CronRule) or form.cron.has_all_hours:
        return []
    notes: list[str] = []
    for change in changes_after(zone, after):
        if not change.skips_local_times:
            continue
        begin = Instant(change.at - _HOURS_BEFORE)
        for _, fire in islice(coming([schedule], begin), _FIRES_AROUND):
            if fire.instant > change.at + _HOURS_BEFORE:
                break
            if fire.note:
                notes.append(f"{fire.note} ({fire.local})")
                break
    return notes


def _note(form: "_Form", wall: datetime) -> str:
    if _is_shifted(form, wall.replace(tzinfo=None, fold=0)):
        return "shifted out of a DST gap"
    if wall.utcoffset() == wall.replace(fold=1 - wall.fold).utcoffset():
        return ""
    return "second of a repeated hour" if wall.fold else "first of a repeated hour"


def _note_of_gap(form: "_Form", before: Instant, fire_at: Instant) -> str:
    """Return which local times between two fires the clock skips, and with what effect.

    Nothing is said of a single one that only shifts *fire_at*, nor if each hour has fires.
    """
    if not isinstance(form, _CronRule) or form.cron.has_all_hours:
        return ""
    change = forward_between(form.zone, before, fire_at)
    if change is None:
        return ""
    begin, end = wall_of(change.at, change.before), wall_of(change.at, change.after)
    found = list(islice(_matches(form.cron, begin - TICK, end), _SKIPPED_MAX + 1))
    if not found:
        return ""
    shown = " and ".join(f"{each:%H:%M}" for each in found[:_SKIPPED_MAX])
    more = " and others" if len(found) > _SKIPPED_MAX else ""
    if form.cron.has_open_hours or form.skips_gaps or fire_at != change.at:
        return f"no fire at {shown}{more}, which the clock skips"
    if len(found) == 1 and not form.cron.matches(end):
        return ""
    return f"also for {shown}{more}, which the clock skips"


def _matches(
    cron: Cron | PeriodicCron | RecurringTimes, after: datetime, until: datetime
) -> Iterator[datetime]:
    wall = cron.next_after(after)
    while wall is not None and wall < until:
        yield wall
        wall = cron.next_after(wall)


def _is_shifted(form: "_Form", shown: datetime) -> bool:
    match form:
        case _CronRule():
            return not form.cron.matches(shown)
        case _At():
            return form.is_shifted
        case _Every():
            return False
        case _Unscheduled():
            return False


# --- parsing of a text -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _CronRule:
    cron: Cron | PeriodicCron | RecurringTimes
    zone: tzinfo
    skips_gaps: bool = False
    fold: Literal["first", "last", "both"] = "first"

    def next_fire(self, after: Instant) -> Instant | None:
        if self.cron.has_open_hours:
            return _next_matching_instant(self.cron, self.zone, after)
        named = _next_named_time(self, after)
        if self.fold != "both":
            return named
        matching = _next_matching_instant(self.cron, self.zone, after)
        return min((at for at in (named, matching) if at is not None), default=None)


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


_Form = _CronRule | _Every | _At | _Unscheduled


@dataclass(frozen=True, slots=True)
class _Rule:
    """A form that fires from *start* to *end* only."""

    form: _Form
    start: Instant
    end: Instant


_MACROS = {
    "@yearly": ("0 0 1 1 *", "H H H H *"),
    "@annually": ("0 0 1 1 *", "H H H H *"),
    "@semiannually": ("0 0 1 1,7 *", "H H H H/6 *"),
    "@quarterly": ("0 0 1 1,4,7,10 *", "H H H H/3 *"),
    "@monthly": ("0 0 1 * *", "H H H * *"),
    "@weekly": ("0 0 * * 0", "H H * * H"),
    "@daily": ("0 0 * * *", "H H * * *"),
    "@midnight": ("0 0 * * *", "H H(0-2) * * *"),
    "@noon": ("0 12 * * *", "H 12 * * *"),
    "@hourly": ("0 * * * *", "H * * * *"),
    "@minutely": ("* * * * *", "H * * * * *"),
    "@every_minute": ("* * * * *", "H * * * * *"),
}
"""The expression of each macro, and that with `Schedule.spread`."""
_PLAIN_FORMS = {form.value: form for form in _Unscheduled}
_FORMS = (*_MACROS, "@every", "@at", *_PLAIN_FORMS)
_FIRE_RANGE = "schedules fire from 1970 to the end of 9998, UTC"
_AT_FORMS = (
    "write a time as 2027-01-01T09:00:00Z, with an offset as 2027-01-01T09:00+01:00, or as "
    "2027-01-01T09:00 for a local time in the schedule's timezone"
)
_SYNONYMS = {"@reboot": "@startup", "@once": "@at", "@never": "@manual"}

_OFFSET = re.compile(r"(?:UTC|GMT)(?P<sign>[+-])(?P<hours>0?\d|1[0-2])(?::?00)?")
_ZONE = re.compile(r"\s*(?:CRON_)?TZ=(?P<zone>\S*)")
_LOCAL_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?", re.ASCII)


@lru_cache(maxsize=4096)
def _rule(schedule: Schedule) -> _Rule:
    zone = load_zone(schedule.timezone)
    form: _Form = _form_of(schedule, zone)
    start, end = Instant(0), LATEST_FIRE
    if schedule.start_at:
        start = _limit("startAt", schedule.start_at, zone)
    if schedule.end_at:
        end = _limit("endAt", schedule.end_at, zone)
    is_limited = bool(schedule.start_at or schedule.end_at)
    if is_limited and isinstance(form, _At | _Unscheduled):
        raise _refusal(f"{quoted(schedule.text)} has neither startAt nor endAt; remove them")
    if start > end:
        detail = f"endAt {quoted(schedule.end_at)} is before startAt {quoted(schedule.start_at)}"
        raise invalid("invalid_schedule", detail, Problem("/endAt", detail))
    if schedule.every:
        form = _periodic(schedule, form, start)
    if schedule.gap != "shift" or schedule.fold != "first":
        form = _with_changes(schedule, form)
    return _Rule(form, start, end)


def _with_changes(schedule: Schedule, form: _Form) -> _CronRule:
    if not isinstance(form, _CronRule) or form.cron.has_open_hours:
        raise _refusal(
            f"{quoted(schedule.text)} is no cron expression that names hours, which gap and fold "
            "are for; remove them"
        )
    return _CronRule(form.cron, form.zone, schedule.gap == "skip", schedule.fold)


def _periodic(schedule: Schedule, form: _Form, start: Instant) -> _CronRule:
    try:
        if not isinstance(form, _CronRule) or not isinstance(form.cron, Cron):
            raise ValueError(f"{quoted(schedule.text)} has no such field; remove it")
        if not schedule.start_at:
            raise ValueError("the periods are counted from startAt; add it")
        anchor = to_datetime(start).astimezone(form.zone).date()
        return _CronRule(in_periods(form.cron, schedule.every, anchor), form.zone)
    except ValueError as error:
        detail = f"every: {error}"
        raise invalid("invalid_schedule", detail, Problem("/every", detail)) from error


def _limit(field: str, text: str, zone: tzinfo) -> Instant:
    """Return the instant of *text*, which is the value of *field*."""
    try:
        return _at_of(text, zone).at
    except ValueError as error:
        detail = f"{field} {quoted(text)}: {error}"
        raise invalid("invalid_schedule", detail, Problem(f"/{field}", detail)) from error


def _form_of(schedule: Schedule, zone: tzinfo) -> _Form:
    form, _, argument = schedule.text.partition(" ")
    # Not str.lower alone, which turns the Kelvin sign into an ASCII k.
    form = form.lower() if form.isascii() else form
    if form.startswith("@") and form not in _FORMS:
        raise _refusal(f"there is no schedule {shortened(form)}{_did_you_mean(form, _FORMS)}")
    if schedule.spread and form not in _MACROS:
        raise _refusal(
            f"{quoted(schedule.text)} cannot be spread; spread is for @daily and other macros, in "
            "a cron expression write H"
        )
    if is_recurrence(schedule):
        return _recurring(schedule, zone)
    if not form.startswith("@"):
        return _CronRule(parse_cron(schedule.text, schedule.day_or, schedule.seed), zone)
    if form == "@every":
        return _parse_every(argument)
    if form == "@at":
        return _parse_at(argument, zone)
    if argument:
        raise _refusal(f"{form} has no arguments; remove {quoted(argument)}")
    if form in _PLAIN_FORMS:
        return _PLAIN_FORMS[form]
    return _CronRule(parse_cron(_MACROS[form][schedule.spread], seed=schedule.seed), zone)


def _recurring(schedule: Schedule, zone: tzinfo) -> _CronRule:
    text = quoted(schedule.text)
    if not schedule.start_at:
        raise _refusal(f"{text} needs startAt, from which its periods are counted")
    start = to_datetime(_limit("startAt", schedule.start_at, zone)).astimezone(zone)
    try:
        times = recurring_times(schedule.text[len(PREFIX) :], start.replace(tzinfo=None))
    except ValueError as error:
        raise _refusal(f"{text} {error}") from error
    return _CronRule(times, zone)


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
        return _at_of(argument, zone)
    except ValueError as error:
        raise _refusal(f"{quoted(f'@at {argument}')}: {error}") from error


def _at_of(text: str, zone: tzinfo) -> _At:
    """Return the instant that *text* is, or that it is as a local time in *zone*.

    Raises:
        ValueError: It is neither, or out of range.
    """
    if not _LOCAL_TIME.fullmatch(text):
        if not is_instant(text):
            raise ValueError(_AT_FORMS)
        found = _At(_parsed_instant(text), is_shifted=False)
    else:
        wall = datetime.fromisoformat(text.upper())
        if not 1969 <= wall.year < 9999:
            # A zone has no offsets for the first and the last years.
            raise ValueError(f"out of range; {_FIRE_RANGE}")
        change = change_at(zone, wall)
        is_shifted = change is not None and change.skips_local_times
        found = _At(first_instant(zone, wall), is_shifted=is_shifted)
    if not 0 <= found.at <= LATEST_FIRE:
        raise ValueError(f"out of range; {_FIRE_RANGE}")
    return found


def _parsed_instant(text: str) -> Instant:
    try:
        return parse_instant(text)
    except OverflowError as error:
        raise ValueError(f"out of range; {_FIRE_RANGE}") from error


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
    if offset := _OFFSET.fullmatch(word):
        # In names such as Etc/GMT-2, the sign is that of POSIX.
        sign = "-" if offset["sign"] == "+" else "+"
        return f"; did you mean Etc/GMT{sign}{int(offset['hours'])}, which has this offset?"
    if len(word) > QUOTED_MAX:
        return "."
    lowered = {name.lower(): name for name in sorted(known)}
    wanted = word.lower().replace(" ", "_")
    # "new york" and "Berlin" should find their zone, so the last part of a name is enough.
    close = [name for key, name in lowered.items() if wanted in (key, key.rpartition("/")[2])]
    if not close:
        close = [lowered[key] for key in difflib.get_close_matches(wanted, lowered)]
    return f"; did you mean {' or '.join(close)}?" if close else "."


# --- searches for local times -----------------------------------------------------------------


def _next_named_time(rule: _CronRule, after: Instant) -> Instant | None:
    """Return the first instant after *after* of a local time that *rule* names.

    Of a local time that is repeated, only one occurrence counts: the second one for ``last``.
    """
    cron, zone = rule.cron, rule.zone
    wall = to_datetime(after).astimezone(zone)
    reached = wall.replace(tzinfo=None, fold=0)
    is_last = rule.fold == "last"
    if is_last and not wall.fold and (change := change_at(zone, reached)) is not None:
        # In the first pass, no local time of the second pass has fired yet.
        reached = wall_of(change.at, change.after) - TICK
    if wall.fold and not is_last:
        # In the second pass, all local times up to the end of the first pass have fired already.
        change = change_at(zone, reached)
        assert change is not None
        reached = wall_of(change.at, change.before) - TICK
    named = cron.next_after(reached)
    if not is_last and not rule.skips_gaps:
        return None if named is None else first_instant(zone, named)
    while named is not None:
        change = change_at(zone, named)
        if change is None or not change.skips_local_times:
            return instant_of(named, offsets_at(zone, named)[is_last])
        if not rule.skips_gaps:
            return change.at
        named = cron.next_after(wall_of(change.at, change.after) - TICK)
    return None


def _next_matching_instant(
    cron: Cron | PeriodicCron | RecurringTimes, zone: tzinfo, after: Instant
) -> Instant | None:
    """Return the first instant after *after* at which the local time matches *cron*."""
    wall = to_datetime(after).astimezone(zone)
    shown = wall.replace(tzinfo=None, fold=0)
    match = cron.next_after(shown)
    change = change_at(zone, shown)
    if change is not None and not wall.fold:
        # In the first pass, the rest of this pass comes first, then all of the second pass.
        if match is not None and instant_of(match, change.before) < change.at:
            return instant_of(match, change.before)
        match = cron.next_after(wall_of(change.at, change.after) - TICK)
    while match is not None:
        change = change_at(zone, match)
        if change is None:
            return instant_of(match, offsets_at(zone, match)[0])
        if not change.skips_local_times:
            first = instant_of(match, change.before)
            return first if first > after else instant_of(match, change.after)
        match = cron.next_after(wall_of(change.at, change.after) - TICK)
    return None
