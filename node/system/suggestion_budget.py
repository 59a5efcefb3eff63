"""Limit on the searches for similar names, for all requests of a node together."""

from rota.core.timing.instants import SECOND, Duration, Instant, later

SEARCHES_MAX = 20
"""The most searches in a period. A search takes up to 2 ms, and programs do not show its result:
``rota apply`` asks for each new job before it creates it."""
PERIOD = Duration(SECOND)


class SuggestionBudget:
    """The searches for similar names that are left in the present period."""

    def __init__(self) -> None:
        self._ends_at = Instant(0)
        self._left = SEARCHES_MAX

    def take(self, now: Instant) -> bool:
        """Use up a search at the elapsed time *now*, and return True if one was left."""
        if now >= self._ends_at:
            self._ends_at, self._left = later(now, PERIOD), SEARCHES_MAX
        self._left -= 1
        return self._left >= 0
