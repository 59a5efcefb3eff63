"""A log of events that any client can cause in any number: at most one line of each in a while."""

from collections.abc import Callable

from rota.client.cli.mcp.calls import log

PAUSE_S = 10.0
"""The shortest time in seconds between two lines of an event."""


class SampledLog:
    """Writes lines of events; one thread uses it.

    Args:
        now: A monotonic clock, in seconds.
        write: Writes a line.
    """

    def __init__(self, now: Callable[[], float], write: Callable[..., None] = log) -> None:
        self._write = write
        self._now = now
        self._next_at: dict[str, float] = {}
        self._omitted: dict[str, int] = {}

    def write(self, event: str, **facts: object) -> None:
        """Write a line with the number of those omitted before it, or omit it."""
        now = self._now()
        if now < self._next_at.get(event, now):
            self._omitted[event] = self._omitted.get(event, 0) + 1
            return
        self._next_at[event] = now + PAUSE_S
        omitted = self._omitted.pop(event, 0)
        self._write(event, **facts, **({"omitted": omitted} if omitted else {}))
