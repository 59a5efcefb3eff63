"""Log lines about shards that a node opens and closes, at most once per second.

A node that starts, loses its session or leaves opens or closes hundreds of shards within a second
or two.
"""

import logging

from rota.core.model.ids import Epoch, ShardId
from rota.core.timing.instants import MILLISECOND, SECOND, Duration, Instant, later

log = logging.getLogger(__name__)

LOG_EVERY = Duration(SECOND)


class OwnershipLog:
    """The shards that were opened and closed since the last log lines.

    Args:
        now: The present elapsed time (`Clock.elapsed`).
    """

    def __init__(self, now: Instant) -> None:
        self._log_at = now
        self._given_up: list[ShardId] = []
        self._taken_up: list[ShardId] = []
        self._epochs: list[Epoch] = []
        self._took = Duration(0)

    def taken_up(self, shard: ShardId, epoch: Epoch, took: Duration) -> None:
        """Record that this node now decides for a shard, whose opening took *took*."""
        self._taken_up.append(shard)
        self._epochs.append(epoch)
        self._took = Duration(self._took + took)

    def given_up(self, shard: ShardId) -> None:
        """Record that this node no longer decides for a shard."""
        self._given_up.append(shard)

    @property
    def is_waiting(self) -> bool:
        """Whether there are lines to be written."""
        return bool(self._taken_up or self._given_up)

    def write(self, now: Instant) -> None:
        """Write the lines that are due."""
        if now >= self._log_at and self.is_waiting:
            self._log_at = later(now, LOG_EVERY)
            self.write_all()

    def write_all(self) -> None:
        """Write all lines now, even if the last ones were written less than a second ago."""
        if self._taken_up:
            facts = {
                "count": len(self._taken_up),
                "epoch_min": min(self._epochs),
                "epoch_max": max(self._epochs),
                "took_ms": round(self._took / MILLISECOND, 1),
            }
            log.info("shards taken up", extra=facts)
            log.debug("shards taken up, by number", extra={"shards": sorted(self._taken_up)})
        if self._given_up:
            log.info("shards given up", extra={"count": len(self._given_up)})
            log.debug("shards given up, by number", extra={"shards": sorted(self._given_up)})
        self._taken_up.clear()
        self._epochs.clear()
        self._given_up.clear()
        self._took = Duration(0)
