"""The clocks of a node: wall clock and elapsed time."""

import time
from math import ceil
from typing import Protocol

from rota.core.timing.instants import MILLISECOND, Instant


class Clock(Protocol):
    """The clocks of a node: those of the system, or of a simulation."""

    def now(self) -> Instant:
        """Return the time of the wall clock, which may be set forward and back."""
        ...

    def elapsed(self) -> Instant:
        """Return a time that only increases, even while the machine sleeps, from any zero."""
        ...


class SystemClock:
    """The clocks of this machine."""

    def now(self) -> Instant:
        """Return CLOCK_REALTIME."""
        return Instant(time.clock_gettime_ns(time.CLOCK_REALTIME) // 1_000)

    def elapsed(self) -> Instant:
        """Return CLOCK_BOOTTIME."""
        return Instant(time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000)


def whole_ms(wait: int) -> float:
    """Return a wait, given in microseconds, in seconds, rounded up to milliseconds.

    Milliseconds are the resolution of the event loop's timers.
    """
    return ceil(wait / MILLISECOND) / 1_000
