"""A timer wheel: the timers due next, at a cost independent of the number of timers.

One turn of the wheel is `SLOTS` buckets of `TICK`, so a timer's bucket is a division and a
remainder; a bit set of the buckets in use finds the next one at the speed of integer arithmetic.
After Varghese and Lauck, "Hashed and Hierarchical Timing Wheels" (1987), scheme 6, with two
differences: timers beyond the horizon are refused (they wait on disk), and a bucket has the exact
instants, so no timer is due early by a part of a tick.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

from rota.core.timing.instants import MILLISECOND, Duration, Instant

TICK = Duration(32 * MILLISECOND)
SLOTS = 4096
HORIZON = Duration(TICK * (SLOTS - 1))
"""The time, 131 s, by which a timer may be due after the wheel's own time."""

K = TypeVar("K", bound=Hashable)


class TimerWheel(Generic[K]):
    """Timers due within the horizon.

    A timer is a pair of an instant and a key; a pair that is added twice is one timer. Adding and
    removing cost O(1); taking the due timers costs O(k log k) for the k timers in their buckets.

    Args:
        now: The initial time of the wheel.
    """

    def __init__(self, now: Instant) -> None:
        self._tick = now // TICK
        self._slots: list[dict[tuple[Instant, K], None]] = [{} for _ in range(SLOTS)]
        self._used = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def horizon(self) -> Instant:
        """The first instant that is too far ahead to be added."""
        return Instant((self._tick + SLOTS) * TICK)

    def add(self, due: Instant, key: K) -> bool:
        """Add a timer; return False if it is beyond the horizon.

        The next `take_due` returns an overdue timer.
        """
        if due >= self.horizon:
            return False
        number = max(due // TICK, self._tick) % SLOTS
        slot = self._slots[number]
        if (due, key) not in slot:
            slot[due, key] = None
            self._used |= 1 << number
            self._count += 1
        return True

    def remove(self, due: Instant, key: K) -> bool:
        """Remove a timer; return True if it was found.

        A timer that was overdue when it was added may not be found; it fires without harm.
        """
        number = due // TICK % SLOTS
        slot = self._slots[number]
        if (due, key) not in slot:
            return False
        del slot[due, key]
        self._count -= 1
        if not slot:
            self._used &= ~(1 << number)
        return True

    def next_due(self) -> Instant | None:
        """Return the instant of the earliest timer, or None if there is none."""
        number = self._next_used()
        return None if number is None else min(due for due, _ in self._slots[number])

    def take_due(self, now: Instant, limit: int) -> list[tuple[Instant, K]]:
        """Remove and return the timers due at or before *now*, earliest first, at most *limit*.

        The wheel's time, and with it the horizon, moves towards *now*. If *now* is before the
        wheel's own time, only the timers due by *now* are returned.
        """
        taken: list[tuple[Instant, K]] = []
        while len(taken) < limit and (number := self._next_used()) is not None:
            slot = self._slots[number]
            due = sorted((timer for timer in slot if timer[0] <= now), key=_instant)
            due = due[: limit - len(taken)]
            for timer in due:
                del slot[timer]
            taken += due
            if slot:
                break
            self._used &= ~(1 << number)
            self._turn_to(number, now)
        self._count -= len(taken)
        if len(taken) < limit:
            self._idle_to(now)
        return taken

    def take_all(self) -> list[tuple[Instant, K]]:
        """Remove and return all timers, in no particular order."""
        taken = [timer for slot in self._slots for timer in slot]
        for slot in self._slots:
            slot.clear()
        self._used = self._count = 0
        return taken

    def _next_used(self) -> int | None:
        """Return the number of the first bucket in use, counted from the wheel's time."""
        if not self._used:
            return None
        here = self._tick % SLOTS
        ahead = self._used >> here
        if ahead:
            return here + _lowest_bit(ahead)
        return _lowest_bit(self._used)

    def _turn_to(self, number: int, now: Instant) -> None:
        """Advance to bucket *number*, which has become empty, but not beyond *now*."""
        steps = (number - self._tick) % SLOTS
        self._tick = max(self._tick, min(self._tick + steps, now // TICK))

    def _idle_to(self, now: Instant) -> None:
        """Advance to *now*, but not past a bucket with timers."""
        number = self._next_used()
        tick = now // TICK
        if number is not None:
            tick = min(tick, self._tick + (number - self._tick) % SLOTS)
        self._tick = max(self._tick, tick)


def _instant(timer: tuple[Instant, object]) -> Instant:
    return timer[0]


def _lowest_bit(bits: int) -> int:
    return (bits & -bits).bit_length() - 1
