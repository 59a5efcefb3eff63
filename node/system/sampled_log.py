"""Log lines of one kind, whose number in a period is limited.

They are for events that any machine in the network can cause, such as malformed requests and
refused connections.
"""

import logging
from collections.abc import Callable

from rota.core.timing.instants import SECOND, Duration, Instant


class SampledLog:
    """Lines of one event: at most *limit* in each period, and the number of omitted lines.

    The first line after the period has that number in the field ``suppressed``. If no other event
    follows, `report` writes a separate line.

    Args:
        logger: The logger of the lines.
        event: The event of all lines, a constant phrase.
        now: Returns a time that only increases (`Clock.elapsed`).
        level: The level of all lines.
        limit: The most lines in one period.
        period: The length of a period, which begins with its first line.

    Attributes:
        suppressed: The number of omitted lines that is not yet reported.
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

    def write(self, **facts: object) -> bool:
        """Write a line with *facts*; return False if it was omitted because of the limit."""
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
        """Write the number of omitted lines if the period is over; call this periodically."""
        if self.suppressed and self._now() >= self._ends_at:
            self.write()
