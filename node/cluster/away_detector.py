"""Nodes that stay away: after a while their copies are made anew elsewhere (PROTOCOL R29).

A node that is restarted, or whose machine is, comes back with its data; to copy all of it elsewhere
meanwhile, and back again, would be work for nothing. So its copies are only counted out (R24), and
it stays where the ring wants it, for `repair_delay`. Then whoever has missed it so long says at the
coordinator that it is *away*: that moves its share for all nodes alike, whatever each of them has
seen. It is taken back by the node itself, when it lives again.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress

from msgspec.structs import replace

from rota.core.model.ids import NodeId
from rota.core.timing.instants import Duration, Instant
from rota.node.cluster.membership import Membership
from rota.node.coordination.coordinator import (
    ACTIVE,
    AWAY,
    Coordinator,
    CoordinatorUnavailable,
    Member,
    OutcomeUnknown,
)
from rota.node.system.clock import Clock

log = logging.getLogger(__name__)

LOOK_S = 1.0


class AwayDetector:
    """Says of other nodes that they are away.

    Args:
        membership: Who there is, and who of them lives, as far as is known here.
        coordinator: Where it is said, and looked at once more before that.
        copies: Of each shard that there are to be.
        delay: How long a node is waited for.
        clock: Measures that, from when it was first missed here.
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
        """Look for those who stay away, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            missed = list(self.missed_too_long())
            if missed:
                with suppress(CoordinatorUnavailable, OutcomeUnknown):
                    await self._say_away(missed)

    def missed_too_long(self) -> Iterator[NodeId]:
        """Yield the nodes that are to be away; none while there is nobody to take their share."""
        membership, now = self._membership, self._clock.elapsed()
        active = [each for each in membership.members.values() if each.state == ACTIVE]
        missing = {each.node_id for each in active if each.node_id not in membership.sessions}
        self._missed_since = {each: self._missed_since.get(each, now) for each in missing}
        if len(active) - len(missing) >= self._copies:
            yield from (each for each in missing if now - self._missed_since[each] > self._delay)

    async def _say_away(self, missed: list[NodeId]) -> None:
        view = await self._coordinator.view()
        for node_id in missed:
            member = view.members.get(node_id)
            if member is None or member.state != ACTIVE or node_id in view.lives:
                continue
            if await self._coordinator.change(member, _away(member)):
                log.warning("node away", extra={"node": node_id})


def _away(member: Member) -> Member:
    return replace(member, state=AWAY)
