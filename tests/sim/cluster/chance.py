"""A node's clocks and its randomness, as a world gives them."""

from collections.abc import Callable
from random import Random

from rota.core.timing.instants import Duration, Instant, parse_instant

BEGINNING = parse_instant("2027-03-01T12:00:00Z")
"""What true calendars show when a world begins."""


class SkewedClock:
    """The two clocks of a machine, both wrong.

    Args:
        true_time: Microseconds since the world began.
        ahead: How much the machine had been up by then.
        drift_ppm: How much faster the passing time is counted than it passes.

    Attributes:
        calendar_error: How much the calendar is ahead.
    """

    def __init__(self, true_time: Callable[[], int], *, ahead: Duration, drift_ppm: int) -> None:
        self._true_time = true_time
        self._ahead = ahead
        self._drift_ppm = drift_ppm
        self.calendar_error = 0

    def now(self) -> Instant:
        """Return what the calendar shows."""
        return Instant(BEGINNING + self._true_time() + self.calendar_error)

    def elapsed(self) -> Instant:
        """Return a time that only ever passes."""
        true = self._true_time()
        return Instant(self._ahead + true + true * self._drift_ppm // 1_000_000)

    def reboot(self) -> None:
        """Begin the passing time again at 0, as that of a machine that was just started."""
        self._ahead = Duration(self._ahead - self.elapsed())


class SeededEntropy:
    """Randomness that a seed repeats."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)

    def draw(self) -> int:
        """Return 64 random bits."""
        return self._chance.getrandbits(64)
