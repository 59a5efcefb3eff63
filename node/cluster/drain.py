"""Drain of a node that is about to stop, so that no shard waits for the node (PROTOCOL R24, R27).

The node reports to the other nodes that it is leaving. Each shard of which the node is the primary
is handed over to the first candidate. The primaries of the other shards no longer count the copies
on the node, as long as enough other copies remain; otherwise every write would wait until the
silence of the node exceeds its limit. During the drain the node decides, answers and forwards as
usual. After a restart, the copies on the node lack only the entries since the drain, and count
again when they have these entries.

A shard that no other node can take stays on the node. The node then stops as if it were killed,
without a delay because of such a shard.
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
"""The longest drain. The drain of a hundred shards takes less than 1 s, so a longer one means a
fault elsewhere."""
LOOK_S = 0.01


@dataclass(frozen=True, slots=True)
class HeldShards:
    """Numbers of shards that other nodes can still take from a node.

    Attributes:
        primaries: Shards of which the node is primary.
        backups: Shards with another primary, which counts the node's copy.
    """

    primaries: int
    backups: int

    def __bool__(self) -> bool:
        return bool(self.primaries or self.backups)


class Drain:
    """The drain of this node.

    Args:
        shards: The shards of this node.
        liveness: Records that this node is leaving.
        copies: The wanted number and the least number of copies of each shard.
        clock: Measures the duration of the drain.
        report: Sends the health of this node to the other nodes at once.
    """

    def __init__(
        self,
        shards: Shards,
        liveness: Liveness,
        copies: Copies,
        clock: Clock,
        report: Callable[[], None],
    ) -> None:
        self._shards = shards
        self._liveness = liveness
        self._copies = copies
        self._clock = clock
        self._report = report

    async def leave(self, is_over: Callable[[], bool]) -> bool:
        """Leave; return when the other nodes have taken all shards that they can take.

        The drain ends earlier if *is_over* returns True, and at the latest after `WITHIN_S`.

        Returns:
            False after `WITHIN_S`.
        """
        log.info("node leaving")
        began_at = self._clock.elapsed()
        self._liveness.begin_leaving(began_at)
        for node_id in self._liveness.sessions:
            # Queries are sent again at once, since a successor has to answer before the handover.
            self._shards.linked(node_id)
        self._report()
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
        """The numbers of shards that other nodes can still take."""
        known = [each.replica.newest for each in self._shards if each.replica.newest]
        return HeldShards(
            primaries=sum(map(self._has_successor, known)),
            backups=sum(map(self._is_counted_needlessly, known)),
        )

    def _has_successor(self, configuration: Configuration) -> bool:
        is_mine = configuration.primary == self._liveness.node_id
        return is_mine and any(map(self._liveness.is_able, configuration.members))

    def _is_counted_needlessly(self, configuration: Configuration) -> bool:
        """Return True if another node is primary and can commit without this copy."""
        liveness, members = self._liveness, configuration.members
        is_led = configuration.primary != liveness.node_id and (
            configuration.primary in liveness.sessions and liveness.reaches_coordinator
        )
        return is_led and liveness.node_id in members and len(members) > self._copies.least
