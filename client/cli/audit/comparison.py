"""Expected fire times compared with a ledger: each has exactly one entry, and each entry has one.

Both come in order and are merged, so memory does not grow with the range. An entry of several fire
times stays open until its last one has passed.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

import msgspec

from rota.core.timing.instants import Instant, format_instant, parse_instant
from rota.wire.documents import ExecutionView, LedgerEntryView


class Expected(NamedTuple):
    """A fire time that a schedule has.

    Attributes:
        at: The fire time.
        schedule: The number of the schedule.
        is_required: Whether it needs an outcome. At a change of the schedule it may have one.
    """

    at: Instant
    schedule: int
    is_required: bool = True


class Fault(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A difference between the expected fire times and the records.

    Attributes:
        job: The ``namespace/name`` of the job.
        kind: ``missing``: no entry; ``extra``: no fire time; ``doubled``: several entries;
            ``count``: an entry with a wrong number of fire times; ``execution``: an entry without
            its execution, or an execution without its entry; ``outcome``: a calendar contradicts.
        schedule: The number of the schedule.
        fire_time: The fire time, or the first of several.
        until: The last of them.
        count: The number of the fire times.
        reason: What is wrong, in a sentence.
    """

    job: str = ""
    kind: str
    schedule: int
    fire_time: str
    until: str
    count: int = 1
    reason: str


Check = Callable[[Expected, LedgerEntryView], str]
"""Returns what is wrong with the outcome of a fire time; empty for nothing."""


@dataclass
class _Open:
    entry: LedgerEntryView
    first: Instant
    last: Instant
    seen: list[Instant] = field(default_factory=list[Instant])
    """The first and the last of the expected fire times in it."""
    count: int = 0
    is_judged: bool = False

    def may_continue(self, at: Instant) -> bool:
        """Return True if further fire times are expected in it; an entry may be absurdly long."""
        return self.last >= at and self.count <= self.entry.count


def compare(
    expected: Iterable[Expected],
    entries: Iterable[LedgerEntryView],
    since: Instant,
    until: Instant,
    check: Check = lambda _fire, _entry: "",
) -> Iterator[Fault]:
    """Yield the faults of the ledger in ``[since, until)``.

    Args:
        expected: Fire times in order, which may begin before *since* and continue after *until*, so
            that entries across the ends are counted.
        entries: Those that begin before *until*, in order.
        since: The begin of the range.
        until: The end of the range.
        check: Judges outcomes.
    """
    run = _Comparison(entries, check)
    for fire in _each_once(expected):
        yield from run.advance(fire.at)
        if fire.at >= until and not any(each.may_continue(fire.at) for each in run.opened):
            break
        yield from run.judge(fire, is_in_range=since <= fire.at < until)
    yield from run.advance(None)


class _Comparison:
    def __init__(self, entries: Iterable[LedgerEntryView], check: Check) -> None:
        self.opened: list[_Open] = []
        self._entries = iter(entries)
        self._next = self._read()
        self._check = check
        self._missing: dict[int, Fault] = {}

    def advance(self, at: Instant | None) -> Iterator[Fault]:
        """Open the entries that begin by *at*, and close those that end before; all for None."""
        while self._next is not None and (at is None or self._next.first <= at):
            self.opened.append(self._next)
            self._next = self._read()
            yield from self._close(at if at is None else self.opened[-1].first)
        yield from self._close(at)
        if at is None:
            yield from self._missing.values()

    def judge(self, fire: Expected, *, is_in_range: bool) -> Iterator[Fault]:
        """Count an expected fire time in the entries that have it."""
        covering = [
            each
            for each in self.opened
            if each.entry.schedule == fire.schedule and each.first <= fire.at <= each.last
        ]
        for each in covering:
            each.count += 1
            each.seen = [*each.seen[:1], fire.at]
            if not each.is_judged and is_in_range and (why := self._check(fire, each.entry)):
                each.is_judged = True
                yield _fault("outcome", fire, why)
        if len(covering) > 1 and is_in_range:
            yield _fault("doubled", fire, f"{len(covering)} entries have this fire time")
        if covering or not is_in_range:
            if fire.schedule in self._missing:
                yield self._missing.pop(fire.schedule)
        elif fire.is_required:
            first = self._missing.get(fire.schedule)
            fault = _fault("missing", fire, "no ledger entry has this fire time")
            if first is not None:
                fault = msgspec.structs.replace(
                    first,
                    until=fault.until,
                    count=first.count + 1,
                    reason="no ledger entry has these fire times",
                )
            self._missing[fire.schedule] = fault

    def _read(self) -> _Open | None:
        entry = next(self._entries, None)
        if entry is None:
            return None
        return _Open(entry, parse_instant(entry.fire_time), parse_instant(entry.until))

    def _close(self, at: Instant | None) -> Iterator[Fault]:
        # With equal ends, the fire time at the end may still come.
        closed = [each for each in self.opened if at is None or each.last < at]
        self.opened = [each for each in self.opened if at is not None and each.last >= at]
        for each in closed:
            if fault := _fault_of(each):
                yield fault


def _fault_of(closed: _Open) -> Fault | None:
    """Return what is wrong with an entry, of which all expected fire times are counted."""
    entry = closed.entry
    if entry.broken:
        kind, reason = "extra", f"its record cannot be read: {entry.broken}"
    elif not closed.count:
        kind, reason = (
            "extra",
            f"the schedule has no such fire time; the outcome is {entry.outcome}",
        )
    elif closed.count != entry.count:
        kind, reason = "count", f"the entry counts {entry.count}; it has {closed.count}"
    elif (closed.seen[0], closed.seen[-1]) != (closed.first, closed.last):
        kind, reason = "extra", "the entry begins or ends at no fire time of the schedule"
    else:
        return None
    return Fault(
        kind=kind,
        schedule=entry.schedule,
        fire_time=entry.fire_time,
        until=entry.until,
        count=entry.count,
        reason=reason,
    )


def _fault(kind: str, fire: Expected, reason: str) -> Fault:
    at = format_instant(fire.at)
    return Fault(kind=kind, schedule=fire.schedule, fire_time=at, until=at, reason=reason)


def _each_once(expected: Iterable[Expected]) -> Iterator[Expected]:
    """Yield each fire time once; it is required if one of the versions that have it requires it."""
    for _, same in groupby(expected, lambda fire: (fire.at, fire.schedule)):
        found = list(same)
        yield next((each for each in found if each.is_required), found[0])


# -- executions ------------------------------------------------------------------------------------


def unpaired(
    entries: Iterable[LedgerEntryView], executions: Iterable[ExecutionView]
) -> Iterator[tuple[LedgerEntryView | None, ExecutionView | None]]:
    """Yield entries that fired without an execution, and executions of schedules without an entry.

    Args:
        entries: Entries, latest fire time first.
        executions: Executions, latest fire time first.
    """
    fired = (each for each in entries if each.outcome == "fired")
    begun = (each for each in executions if each.trigger == "schedule" and not each.rerun_of)
    both = heapq.merge(
        ((parse_instant(each.fire_time), each, None) for each in fired),
        ((parse_instant(each.fire_time), None, each) for each in begun),
        key=lambda found: -found[0],
    )
    for _, same in groupby(both, lambda found: found[0]):
        found = list(same)
        of_entries = {entry.execution_id: entry for _, entry, _ in found if entry}
        ids = {execution.execution_id: execution for _, _, execution in found if execution}
        yield from ((entry, None) for name, entry in of_entries.items() if name not in ids)
        yield from ((None, each) for name, each in ids.items() if name not in of_entries)
