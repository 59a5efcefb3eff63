"""Changes of the clock of a zone, and the instants of its local times.

All of it relies on PEP 495: the two folds of a local time have different offsets exactly if the
clock skips or repeats it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from itertools import pairwise

from rota.core.timing.instants import DAY, Duration, Instant, later, to_datetime

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - of the clock on the wall
TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Change:
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
        """Whether the clock is put forward."""
        return self.after > self.before


def change_at(zone: tzinfo, wall: datetime) -> Change | None:
    """Return the clock change that skips or repeats the naive local time *wall*, or None."""
    before, after = offsets_at(zone, wall)
    if before == after:
        return None
    # The change is between the two instants that the offsets give.
    low, high = sorted((instant_of(wall, before), instant_of(wall, after)))
    return between(zone, low, high, before, after)


def offsets_at(zone: tzinfo, wall: datetime) -> tuple[timedelta, timedelta]:
    """Return the offsets of both folds of *wall*: before and after a change if they differ."""
    first = zone.utcoffset(wall)
    second = zone.utcoffset(wall.replace(fold=1))
    assert first is not None
    assert second is not None  # zones from the tz database always know their offset
    return first, second


def instant_of(wall: datetime, offset: timedelta) -> Instant:
    """Return the instant at which a clock with *offset* shows the naive *wall*."""
    return Instant((wall - offset - _EPOCH) // TICK)


def wall_of(instant: Instant, offset: timedelta) -> datetime:
    """Return what a clock with *offset* shows at *instant*, naive."""
    return _EPOCH + timedelta(microseconds=instant) + offset


def first_instant(zone: tzinfo, wall: datetime) -> Instant:
    """Return the first instant at which the clock shows *wall* or later.

    A later local time has a later instant or the same one, so fires stay in order whatever the
    changes of a zone.
    """
    change = change_at(zone, wall)
    if change is None:
        return instant_of(wall, offsets_at(zone, wall)[0])
    if change.skips_local_times:
        return change.at
    return instant_of(wall, change.before)


def instants_at(zone: tzinfo, wall: datetime) -> tuple[Instant, ...]:
    """Return the instants around which the clock begins to show *wall* or later times.

    There are several if the clock shows *wall* twice or never: the change of the clock is one.
    """
    change = change_at(zone, wall)
    if change is None:
        return (instant_of(wall, offsets_at(zone, wall)[0]),)
    return (instant_of(wall, change.before), instant_of(wall, change.after), change.at)


def forward_between(zone: tzinfo, low: Instant, high: Instant) -> Change | None:
    """Return the change that put the clock forward between two instants; None for none."""
    before, after = (to_datetime(at).astimezone(zone).utcoffset() for at in (low, high))
    assert before is not None
    assert after is not None
    return between(zone, low, high, before, after) if after > before else None


def between(
    zone: tzinfo, low: Instant, high: Instant, before: timedelta, after: timedelta
) -> Change:
    """Return the change of the clock between two instants, to the microsecond."""
    while high - low > 1:
        middle = Instant((low + high) // 2)
        if to_datetime(middle).astimezone(zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return Change(high, before, after)


def changes_after(zone: tzinfo, after: Instant) -> Iterator[Change]:
    """Yield the changes of the clock of *zone* within a year, as far as days show them."""
    moments = [later(after, Duration(days * DAY)) for days in range(367)]
    offsets = [to_datetime(each).astimezone(zone).utcoffset() for each in moments]
    for number, (before, new) in enumerate(pairwise(offsets)):
        assert before is not None
        assert new is not None
        if before != new:
            yield between(zone, moments[number], moments[number + 1], before, new)
