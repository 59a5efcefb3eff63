"""A node that is about to stop gives away what it holds, so that nobody waits for it (R24, R27).

It tells the others that it leaves. What it is primary of it hands over, to whoever is first in line
for it; the primaries of the other shards take its copies from those that count, as long as enough
remain: else every write would wait until it has been silent for long enough. It goes on meanwhile:
decides, answers, forwards. When it comes back it is behind by what it missed, and counts again as
soon as it has that.

What nobody can take it keeps: it stops as one that is killed does, and no later.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.primary import Copies
from rota.core.timing.instants import MILLISECOND
from rota.core.vocabulary.shard_configuration import Configuration
from rota.node.shards.local_shards import Shards
from rota.node.system.clock import Clock

log = logging.getLogger(__name__)

WITHIN_S = 5.0
"""A hundred shards take less than one; after so long something is in the way."""
LOOK_S = 0.01


@dataclass(frozen=True, slots=True)
class HeldShards:
    """What a node still holds, and others could take from it.

    Attributes:
        primaries: Shards that it decides for.
        backups: Shards that have another primary, which counts its copy.
    """

    primaries: int
    backups: int

    def __bool__(self) -> bool:
        return bool(self.primaries or self.backups)


class Drain:
    """How this node leaves.

    Args:
        shards: Of this node.
        liveness: Of this node; that it leaves is noted there.
        copies: How many there are to be.
        clock: Measures how long it takes.
        tell: Has everybody hear of it soon.
    """

    def __init__(
        self,
        shards: Shards,
        liveness: Liveness,
        copies: Copies,
        clock: Clock,
        tell: Callable[[], None],
    ) -> None:
        self._shards = shards
        self._liveness = liveness
        self._copies = copies
        self._clock = clock
        self._tell = tell

    async def leave(self, is_over: Callable[[], bool]) -> bool:
        """Return when others have all that they can take, *is_over*, or it takes too long.

        Returns:
            False if it took too long.
        """
        log.info("node leaving")
        began_at = self._clock.elapsed()
        self._liveness.begin_leaving(began_at)
        for node_id in self._liveness.sessions:
            self._shards.linked(node_id)  # Asks at once: an heir has to answer that.
        self._tell()
        try:
            async with asyncio.timeout(WITHIN_S):
                while self.held and not is_over():  # noqa: ASYNC110 - of many shards
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            held = self.held
            counts = {"primaries": held.primaries, "backups": held.backups}
            log.warning("shards not handed over", extra=counts)
            return False
        took = self._clock.elapsed() - began_at
        log.info("shards handed over", extra={"took_ms": took // MILLISECOND})
        return True

    @property
    def held(self) -> HeldShards:
        """What is still to be given away."""
        known = [each.replica.newest for each in self._shards if each.replica.newest]
        return HeldShards(
            primaries=sum(map(self._has_heir, known)),
            backups=sum(map(self._is_counted_needlessly, known)),
        )

    def _has_heir(self, configuration: Configuration) -> bool:
        is_mine = configuration.primary == self._liveness.node_id
        return is_mine and any(map(self._liveness.is_able, configuration.members))

    def _is_counted_needlessly(self, configuration: Configuration) -> bool:
        """Tell whether another node is primary, and may, and can, go on without this copy."""
        liveness, members = self._liveness, configuration.members
        is_led = configuration.primary != liveness.node_id and (
            configuration.primary in liveness.sessions and liveness.reaches_coordinator
        )
        return is_led and liveness.node_id in members and len(members) > self._copies.least
