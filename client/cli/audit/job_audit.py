"""The audit of one job: the schedules of each of its versions, for the time of that version.

A fire is decided up to a second before it is due. For so long after a change of a schedule, fire
times of the old one may have outcomes, but need none.
"""

import heapq
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from zoneinfo import ZoneInfo

import msgspec
from msgspec.structs import replace

from rota.client.cli.audit.calendar_times import NAMED, CalendarTimes
from rota.client.cli.audit.comparison import Expected, Fault, compare
from rota.client.cli.audit.expected_fires import NEVER, NotAudited, fires_from, once_at
from rota.core.timing.instants import (
    MICROSECOND,
    SECOND,
    Duration,
    Instant,
    format_instant,
    parse_instant,
)
from rota.wire.documents import LedgerEntryView, ScheduleView

CHANGE_S = 1
"""Seconds after a change of a schedule in which its old fires may have been decided ahead."""
SPREAD_S = 60
"""Seconds in which a changed calendar reaches all nodes; an outcome of that time is not judged."""


@dataclass(frozen=True)
class Version:
    """A version of a job.

    Attributes:
        number: Its number.
        begin: When it was saved; its fire times are later.
        schedules: Its schedules.
        only: The names of its ``onlyCalendars``.
        unless: The names of its ``exceptCalendars``.
        defers: Whether excluded fire times may start later (``onExcluded``).
        jitter: The longest jitter of its schedules.
        limited: The numbers of the schedules with ``maxExecutions``, whose end the definition does
            not say.
    """

    number: int
    begin: Instant
    schedules: Sequence[ScheduleView]
    only: Sequence[str] = ()
    unless: Sequence[str] = ()
    defers: bool = False
    jitter: Duration = Duration(0)
    limited: Collection[int] = ()


class Unaudited(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of a job that the audit does not cover.

    Attributes:
        job: The ``namespace/name`` of the job.
        schedule: The number of the schedule; null for all.
        reason: What is not audited, and why.
    """

    job: str
    schedule: int | None = None
    reason: str


@dataclass(frozen=True)
class _Part:
    """A schedule for the time in which a job has it, ``(begin, end]``."""

    number: int
    schedule: ScheduleView
    begin: Instant
    end: Instant

    def has(self, entry: LedgerEntryView) -> bool:
        """Return True if *entry* is about this part."""
        at = parse_instant(entry.fire_time)
        return entry.schedule == self.number and self.begin < at <= self.end + CHANGE_S * SECOND


@dataclass
class JobAudit:
    """The audit of the ledger of one job.

    Attributes:
        job: The ``namespace/name`` of the job.
        versions: Its versions, oldest first.
        calendars: All calendars.
        changed: When calendars that are not stored were deleted, by name.
        unaudited: What is not covered; complete after `faults`.
        fire_count: The number of fire times that were compared.
    """

    job: str
    versions: Sequence[Version]
    calendars: CalendarTimes
    changed: dict[str, Instant] = field(default_factory=dict[str, Instant])
    unaudited: list[Unaudited] = field(default_factory=list[Unaudited])
    fire_count: int = 0
    _unjudged: int = 0

    def faults(
        self, entries: Iterable[LedgerEntryView], since: Instant, until: Instant
    ) -> Iterator[Fault]:
        """Yield the faults of the ledger in ``[since, until)``.

        Args:
            entries: The entries that begin before *until*, in order; those that begin before
                *since* contain it.
            since: The begin of the range.
            until: The end of the range.
        """
        computed, foreign = self._parts(since, until)
        judged_from = self._judged_from(since)
        known = (
            each
            for each in entries
            if not any(part.has(each) for part in foreign) and not _is_late(each, computed)
        )
        first, known_in_order = _with_first(known, since)
        expected = heapq.merge(*(_expected(part, first) for part in computed))

        def check(fire: Expected, entry: LedgerEntryView) -> str:
            return self._contradiction(fire, entry, judged_from)

        counted = self._counted(expected, since, until)
        for fault in compare(counted, known_in_order, since, until, check):
            yield replace(fault, job=self.job)
        if self._unjudged:
            self._leave_out(
                None,
                f"{self._unjudged} excluded fire times name calendars that have changed since then",
            )

    def calendar_names(self) -> set[str]:
        """Return the names of all calendars that may exclude fire times of the job."""
        given = [name for each in self.versions for name in (*each.only, *each.unless)]
        return self.calendars.used_by([*given, *self._blackouts()])

    def why_excluded(self, version: Version, at: Instant, zone: ZoneInfo) -> str:
        """Return which calendar excludes *at* from schedules of a zone; empty if none does."""
        for name in version.unless:
            if self.calendars.has(name, at, zone):
                return f"the calendar {name} excludes it"
        if version.only and not any(self.calendars.has(name, at, zone) for name in version.only):
            missing = [name for name in version.only if name not in self.calendars.documents]
            note = f" ({', '.join(missing)} is missing)" if missing else ""
            return f"it is not in the calendar {' or '.join(version.only)}{note}"
        for name in self._blackouts():
            if self.calendars.has(name, at, zone):
                return f"blackout: the calendar {name} excludes it"
        return ""

    def _blackouts(self) -> list[str]:
        return self.calendars.blackouts_of(self.job.partition("/")[0])

    def _counted(
        self, expected: Iterable[Expected], since: Instant, until: Instant
    ) -> Iterator[Expected]:
        for fire in expected:
            self.fire_count += since <= fire.at < until
            yield fire._replace(is_required=fire.is_required and not self._may_wait(fire, until))

    def _may_wait(self, fire: Expected, until: Instant) -> bool:
        """Return True if a fire may have no outcome yet, because it starts later."""
        version = self._version_at(fire.at)
        if version is None or fire.schedule >= len(version.schedules):
            return False
        zone = ZoneInfo(version.schedules[fire.schedule].timezone)
        is_held = version.defers and bool(self.why_excluded(version, fire.at, zone))
        return is_held or fire.at > until - version.jitter

    def _parts(self, since: Instant, until: Instant) -> tuple[list[_Part], list[_Part]]:
        """Return the parts in the range that can be computed, and those that cannot."""
        computed, foreign = list[_Part](), list[_Part]()
        for part in _parts_of(self.versions):
            if part.end < since or part.begin >= until:
                continue
            try:
                if any(part.number in each.limited for each in self.versions):
                    raise NotAudited("maxExecutions ends it after its own count")
                fires_from(part.schedule, since)
                computed.append(part)
            except NotAudited as reason:
                foreign.append(part)
                self._leave_out(part.number, f"{part.schedule.schedule}: {reason}")
        return computed, foreign

    def _leave_out(self, schedule: int | None, reason: str) -> None:
        self.unaudited.append(Unaudited(job=self.job, schedule=schedule, reason=reason))

    def _judged_from(self, since: Instant) -> Instant:
        """Return the instant from which outcomes are compared with the present calendars."""
        documents = self.calendars.documents
        changes = [
            (parse_instant(documents[name].changed_at), name)
            if name in documents
            else (self.changed.get(name, Instant(0)), name)
            for name in self.calendar_names()
        ]
        at, name = max(changes, default=(Instant(0), ""))
        if not at:
            return at
        judged_from = Instant(at + SPREAD_S * SECOND)
        if judged_from > max(since, self.versions[0].begin):
            until, when = format_instant(judged_from), format_instant(at)
            self._leave_out(
                None, f"exclusions before {until}: the calendar {name} was changed at {when}"
            )
        return judged_from

    def _contradiction(self, fire: Expected, entry: LedgerEntryView, judged_from: Instant) -> str:
        """Return how a calendar contradicts the outcome of a fire time; empty if none does."""
        if entry.outcome == "paused" or entry.broken or entry.reason.startswith("disk_full"):
            return ""  # These are decided before calendars.
        recorded_at = parse_instant(entry.recorded_at)
        version = self._version_at(recorded_at)
        is_excluded = entry.outcome == "excluded"
        if recorded_at < judged_from:
            return ""
        if version is None or fire.schedule >= len(version.schedules):
            return ""  # An outcome of the time of a change, of the schedule before it.
        zone = ZoneInfo(version.schedules[fire.schedule].timezone)
        why = self.why_excluded(version, fire.at, zone)
        if bool(why) == is_excluded:
            return ""
        if not is_excluded:
            return "" if version.defers else f"{entry.outcome}, but {why}"
        for found in NAMED.finditer(entry.reason):
            document = self.calendars.documents.get(found["name"])
            if document is None or document.version != int(found["version"]):
                self._unjudged += 1
                return ""
        return f"excluded ({entry.reason}), but no calendar excludes it"

    def _version_at(self, at: Instant) -> Version | None:
        number = bisect_left([each.begin for each in self.versions], at)
        return self.versions[number - 1] if number else None


def _parts_of(versions: Sequence[Version]) -> list[_Part]:
    """Return each schedule with its time; versions with the same schedule are one part."""
    ends = [*(each.begin for each in versions[1:]), NEVER]
    found: list[_Part] = []
    lists = [each.schedules for each in versions]
    for number, schedules in enumerate(zip_longest(*lists)):
        open_part: _Part | None = None
        for version, schedule, end in zip(versions, _rules(schedules), ends, strict=True):
            if schedule is None:
                open_part = None
                continue
            if open_part is not None and open_part.schedule == schedule:
                found.remove(open_part)
                begin = open_part.begin
            else:
                begin = version.begin
            open_part = _Part(number, schedule, begin, end)
            found.append(open_part)
    return found


def _rules(schedules: Iterable[ScheduleView | None]) -> Iterator[ScheduleView | None]:
    for each in schedules:
        yield replace(each, next_fire_at=None) if each is not None else None


def _is_late(entry: LedgerEntryView, parts: Sequence[_Part]) -> bool:
    """Return True if *entry* is that of an ``@at`` that had passed when the job was saved.

    The policy for late fires decides it. It may be in the middle of entries of the schedule that
    had the number before. If that has the fire time, too, the entry is that of both.
    """
    at, recorded_at = parse_instant(entry.fire_time), parse_instant(entry.recorded_at)
    return (
        entry.count == 1
        and any(
            each.number == entry.schedule
            and at <= each.begin <= recorded_at + CHANGE_S * SECOND
            and once_at(each.schedule) == at
            for each in parts
        )
        and not any(
            each.has(entry) and next(fires_from(each.schedule, at), None) == at for each in parts
        )
    )


def _expected(part: _Part, first: Instant) -> Iterator[Expected]:
    for at in fires_from(part.schedule, max(first, Instant(part.begin + MICROSECOND))):
        if at > part.end + CHANGE_S * SECOND:
            return
        yield Expected(at, part.number, is_required=at <= part.end)


def _with_first(
    entries: Iterable[LedgerEntryView], since: Instant
) -> tuple[Instant, Iterator[LedgerEntryView]]:
    """Return the instant from which fire times are expected, and all entries."""
    rest = iter(entries)
    for entry in rest:
        first = min(since, parse_instant(entry.fire_time))
        return first, _chained(entry, rest)
    return since, rest


def _chained(first: LedgerEntryView, rest: Iterator[LedgerEntryView]) -> Iterator[LedgerEntryView]:
    yield first
    yield from rest
