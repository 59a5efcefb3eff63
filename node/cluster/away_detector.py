"""Detection of nodes that stay away, whose copies are then rebuilt on other nodes (PROTOCOL R29).

A node that restarts still has its data, so copying all of the data elsewhere and back would be a
waste. For `repair_delay`, the copies of a missing node only stop counting (R24), and the node
keeps its place on the ring. After that, any node in whose view the missing node has had no session
for that time may mark it as *away* at the coordinator. The mark moves the share of the missing
node for all nodes alike, whatever view each of them has had. The missing node removes the mark
when it is back.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress

from msgspec.structs import replace

from rota.core.model.ids import NodeId
from rota.core.timing.instants import Duration, Instant
from rota.node.cluster.membership import Membership
from rota.node.coordination.coordinator import ACTIVE, AWAY, Coordinator, Member
from rota.node.coordination.coordinator_errors import CoordinatorUnavailable, OutcomeUnknown
from rota.node.system.clock import Clock

log = logging.getLogger(__name__)

LOOK_S = 1.0


class AwayDetector:
    """Detector of nodes that stay away.

    Args:
        membership: The members, and which of them are alive, in the view of this node.
        coordinator: The coordinator, read again before a node is marked as away there.
        copies: The wanted number of copies of each shard.
        delay: The duration of an absence after which the absent node is marked as away.
        clock: The clock of this node, which measures absences.
    """

    def __init__(
        self,
        membership: Membership,
        coordinator: Coordinator,
        *,
        copies: int,
        delay: Duration,
        clock: Clock,
    ) -> None:
        self._membership = membership
        self._coordinator = coordinator
        self._copies = copies
        self._delay = delay
        self._clock = clock
        self._missed_since: dict[NodeId, Instant] = {}

    async def run(self) -> None:
        """Detect and mark nodes that stay away, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            missed = list(self.missed_too_long())
            if missed:
                with suppress(CoordinatorUnavailable, OutcomeUnknown):
                    await self._mark_away(missed)

    def missed_too_long(self) -> Iterator[NodeId]:
        """Yield the nodes to be marked; none while fewer active nodes live than copies are wanted.

        A node is marked if it has been absent from this node's view for longer than *delay*.
        """
        membership, now = self._membership, self._clock.elapsed()
        active = [each for each in membership.members.values() if each.state == ACTIVE]
        missing = {each.node_id for each in active if each.node_id not in membership.sessions}
        self._missed_since = {each: self._missed_since.get(each, now) for each in missing}
        if len(active) - len(missing) >= self._copies:
            yield from (each for each in missing if now - self._missed_since[each] > self._delay)

    async def _mark_away(self, missed: list[NodeId]) -> None:
        view = await self._coordinator.view()
        for node_id in missed:
            member = view.members.get(node_id)
            if member is None or member.state != ACTIVE or node_id in view.lives:
                continue
            if await self._coordinator.change(member, _away(member)):
                log.warning("node away", extra={"node": node_id})


def _away(member: Member) -> Member:
    return replace(member, state=AWAY)
