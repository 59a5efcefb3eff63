"""A simulated node's clocks and its randomness."""

from collections.abc import Callable
from random import Random

from rota.core.timing.instants import Duration, Instant, parse_instant

BEGINNING = parse_instant("2027-03-01T12:00:00Z")
"""Instant of a true wall clock when a world begins."""


class SkewedClock:
    """The two clocks of a machine, both wrong.

    Args:
        true_time: Microseconds since the world began.
        ahead: Uptime of the machine by then.
        drift_ppm: How much faster than true time the monotonic clock runs.

    Attributes:
        wall_clock_error: How much the wall clock is ahead, in microseconds.
    """

    def __init__(self, true_time: Callable[[], int], *, ahead: Duration, drift_ppm: int) -> None:
        self._true_time = true_time
        self._ahead = ahead
        self._drift_ppm = drift_ppm
        self.wall_clock_error = 0

    def now(self) -> Instant:
        """Return the instant of the wall clock."""
        return Instant(BEGINNING + self._true_time() + self.wall_clock_error)

    def elapsed(self) -> Instant:
        """Return the instant of the monotonic clock."""
        true = self._true_time()
        return Instant(self._ahead + true + true * self._drift_ppm // 1_000_000)

    def reboot(self) -> None:
        """Set the monotonic clock to 0, as on a machine that was just started."""
        self._ahead = Duration(self._ahead - self.elapsed())


class SeededEntropy:
    """Randomness that a seed repeats."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)

    def draw(self) -> int:
        """Return 64 random bits."""
        return self._chance.getrandbits(64)
