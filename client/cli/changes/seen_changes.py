"""Changes that a follower has seen, without IO.

Changes of different shards are not committed in the order of their instants, because clocks differ
and a commit takes time. Each look for new changes therefore begins a minute before the newest one.
"""

from rota.core.timing.instants import MINUTE, Instant, format_instant, parse_instant
from rota.wire.documents import ChangeView

OVERLAP = MINUTE
DROP_AT = 1_000
"""The number of changes from which older ones are dropped."""


class SeenChanges:
    """The changes of the last minute that were seen.

    Args:
        since: The time of the first change to be seen.
    """

    def __init__(self, since: str) -> None:
        self._since = self._newest = parse_instant(since)
        self._seen: dict[tuple[int, int], Instant] = {}
        self._drop_at = DROP_AT

    @property
    def count(self) -> int:
        """The number of changes that are remembered."""
        return len(self._seen)

    @property
    def look_from(self) -> str:
        """The instant at which the next look begins."""
        return format_instant(self._first)

    @property
    def _first(self) -> Instant:
        return Instant(max(self._since, self._newest - OVERLAP))

    def add(self, change: ChangeView) -> bool:
        """Return True if *change* is new."""
        key, at = (change.shard, change.number), parse_instant(change.at)
        if key in self._seen:
            return False
        self._seen[key] = at
        self._newest = max(self._newest, at)
        if len(self._seen) >= self._drop_at:
            first = self._first
            self._seen = {each: seen for each, seen in self._seen.items() if seen >= first}
            self._drop_at = max(DROP_AT, 2 * len(self._seen))
        return True
