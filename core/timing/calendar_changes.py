"""What a change of calendars does to fire times: which go, and which come.

Two exclusions, before and after the change, differ only in some stretches between their edges.
These are found once, for all schedules with the same exclusions; then a schedule is searched in
the stretches alone, however dense it is. A fire time that can be made up for (`Deferral`) starts
or not by what comes before the next one, so the last one before each stretch is examined, too.
"""

import heapq
from collections.abc import Generator, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from rota.core.timing.calendars import Exclusion
from rota.core.timing.instants import MICROSECOND, Instant
from rota.core.timing.schedule import Schedule, latest_fire, next_fire

DEFERRED_COST = 20
"""The steps that the examination of a fire time takes that can be made up for."""


class Stretch(NamedTuple):
    """A range of time in which a change excludes fire times, or permits them.

    Attributes:
        start: Its first instant.
        end: The first instant after it.
        is_permitted: True if fire times come; False if they go.
    """

    start: Instant
    end: Instant
    is_permitted: bool


class Allowance:
    """The steps that one search, or several together, may still make."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def take(self, steps: int = 1) -> bool:
        """Return True if as many steps are left, and count them."""
        self.left -= steps
        return self.left >= 0

    @property
    def is_used_up(self) -> bool:
        """Whether a step was refused."""
        return self.left < 0


class Searched(NamedTuple):
    """A schedule, which can be read, with the stretches in which a change matters.

    Attributes:
        stretches: Those in which the exclusions differ, whatever can be made up for.
        deferrals: What excludes fire times for good, before and after; None if that is all that is
            excluded.
    """

    schedule: Schedule
    stretches: Sequence[Stretch]
    deferrals: tuple[Exclusion | None, Exclusion | None] | None = None


class ChangedFires(NamedTuple):
    """The fire times of a job that a change affects.

    Attributes:
        dropped: The first ones that go, in order.
        added: The first ones that come, in order.
        is_whole: False if there may be more.
    """

    dropped: Sequence[Instant]
    added: Sequence[Instant]
    is_whole: bool


def changed_stretches(
    before: Exclusion | None,
    after: Exclusion | None,
    since: Instant,
    until: Instant,
    allowance: Allowance,
) -> Generator[None, None, list[Stretch]]:
    """Return the stretches of ``(since, until]`` in which the exclusions differ, in order.

    It yields after each edge, of which each takes one step of *allowance*; what is later than the
    last step is left out.
    """
    start, found = Instant(since + MICROSECOND), list[Stretch]()
    if until < start:
        return found
    ends = [each.edges_until(start, until) for each in (before, after) if each]
    for end in chain(heapq.merge(*ends), [Instant(until + MICROSECOND)]):
        if end <= start:  # Both exclusions may have the edge.
            continue
        if not allowance.take():
            break
        was_excluded = bool(before and before.why(start))
        is_excluded = bool(after and after.why(start))
        if was_excluded != is_excluded:
            _extend(found, Stretch(start, end, was_excluded))
        start = end
        yield
    return found


def _extend(found: list[Stretch], new: Stretch) -> None:
    """Add a stretch; one that continues the last one is joined to it."""
    last = found[-1] if found else None
    if last and last.end == new.start and last.is_permitted == new.is_permitted:
        found[-1] = last._replace(end=new.end)
    else:
        found.append(new)


def changed_fires(
    searched: Sequence[Searched], since: Instant, most: int, allowance: Allowance
) -> ChangedFires:
    """Return the fire times of the schedules of a job that go and come.

    Args:
        searched: The schedules.
        since: The instant after which the stretches begin.
        most: The most times that go, and the most that come, of the result.
        allowance: Each search for a fire time takes one step of it.
    """
    times: dict[bool, set[Instant]] = {False: set(), True: set()}
    for schedule, stretches, deferrals in searched:
        if deferrals is not None:
            for at, is_permitted in _changed_starts(
                schedule, stretches, deferrals, since, allowance
            ):
                times[is_permitted].add(at)
                if min(map(len, times.values())) > most:
                    break
            continue
        for is_permitted in times:
            chosen = [each for each in stretches if each.is_permitted is is_permitted]
            times[is_permitted].update(_fires_in(schedule, chosen, most + 1, allowance))
    dropped, added = (sorted(times[each]) for each in (False, True))
    is_whole = max(len(dropped), len(added)) <= most and not allowance.is_used_up
    return ChangedFires(dropped[:most], added[:most], is_whole)


def _changed_starts(
    schedule: Schedule,
    stretches: Sequence[Stretch],
    deferrals: tuple[Exclusion | None, Exclusion | None],
    since: Instant,
    allowance: Allowance,
) -> Iterator[tuple[Instant, bool]]:
    """Yield the fire times that start after the change only (True), or before it only (False)."""
    before, after = deferrals
    examined = since
    for stretch in stretches:
        last = latest_fire(schedule, examined, Instant(stretch.start - MICROSECOND))
        at = last or next_fire(schedule, max(examined, Instant(stretch.start - MICROSECOND)))
        while at is not None and at < stretch.end and allowance.take(DEFERRED_COST):
            started = not (before and before.why(at))
            starts = not (after and after.why(at))
            if started != starts:
                yield at, starts
            examined = at
            at = next_fire(schedule, at)


def _fires_in(
    schedule: Schedule, stretches: Sequence[Stretch], most: int, allowance: Allowance
) -> list[Instant]:
    """Return the first *most* fire times in *stretches*."""
    found: list[Instant] = []
    fire_at: Instant | None = Instant(0)
    for stretch in stretches:
        if fire_at is None or len(found) >= most:
            break
        if fire_at >= stretch.end:
            continue
        if fire_at < stretch.start:
            if not allowance.take():
                break
            fire_at = next_fire(schedule, Instant(stretch.start - MICROSECOND))
        while fire_at is not None and fire_at < stretch.end and len(found) < most:
            found.append(fire_at)
            if not allowance.take():
                return found
            fire_at = next_fire(schedule, fire_at)
    return found
