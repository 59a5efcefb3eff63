"""Log lines of one kind, limited in number for each period.

For events that anyone in the network can cause: a malformed request, a refused connection.
"""

import logging
from collections.abc import Callable

from rota.core.timing.instants import SECOND, Duration, Instant


class SampledLog:
    """Lines of one event: at most *limit* in each period, and the number of those left out.

    That number stands as ``suppressed`` in the first line after the period, or in a line of its own
    that `report` writes if no other event follows.

    Args:
        logger: Where the lines go.
        event: The event of all lines, a constant phrase.
        now: Returns a time that only increases (`Clock.elapsed`).
        level: Of all lines.
        limit: Lines in one period.
        period: From the first line in it.
    """

    def __init__(
        self,
        logger: logging.Logger,
        event: str,
        *,
        now: Callable[[], Instant],
        level: int = logging.WARNING,
        limit: int = 10,
        period: Duration = Duration(10 * SECOND),
    ) -> None:
        self._logger = logger
        self._event = event
        self._now = now
        self._level = level
        self._limit = limit
        self._period = period
        self._ends_at = Instant(0)
        self._count = 0
        self.suppressed = 0
        """Lines left out and not yet reported."""

    def write(self, **facts: object) -> bool:
        """Write a line with *facts*, and return True if it was within the limit."""
        now = self._now()
        if now >= self._ends_at:
            self._ends_at, self._count = Instant(now + self._period), 0
        if self._count >= self._limit:
            self.suppressed += 1
            return False
        self._count += 1
        if self.suppressed:
            facts["suppressed"], self.suppressed = self.suppressed, 0
        self._logger.log(self._level, self._event, extra=facts)
        return True

    def report(self) -> None:
        """Write the number of lines left out if the period is over; call it from time to time."""
        if self.suppressed and self._now() >= self._ends_at:
            self.write()
