"""Loss of the coordinator's state, reported to the other members (PROTOCOL R31)."""

from collections.abc import Collection

from rota.core.model.ids import NodeId
from rota.core.replication.coordinator_continuity import CoordinatorContinuity
from rota.core.timing.instants import SECOND, Duration, Instant
from rota.node.cluster.known_members import KnownMembers
from rota.node.peers.messages import CoordinationLost
from rota.node.peers.network import Network
from rota.node.shards.local_shards import Shards
from rota.node.system.clock import Clock

REPEAT_EVERY = Duration(SECOND)
"""The period in which a loss is reported again, for members that missed an earlier report and whose
link is not a new one."""


class LossNotices:
    """The reports of this node that the coordinator lost its state.

    Args:
        node_id: This node.
        known_members: The receivers of the reports.
        network: Sends the reports.
        shards: The shards of this node, which store the loss for its next process.
        continuity: This node's record of the coordinator's past states.
        clock: The clock of this node.
    """

    def __init__(
        self,
        node_id: NodeId,
        known_members: KnownMembers,
        network: Network,
        *,
        shards: Shards,
        continuity: CoordinatorContinuity,
        clock: Clock,
    ) -> None:
        self._node_id = node_id
        self._known_members = known_members
        self._network = network
        self._shards = shards
        self._continuity = continuity
        self._sent_at = clock.elapsed()
        self._sent = continuity.lost

    def update(self) -> None:
        """Store a newly detected loss, and report it to all other members at once."""
        if self._continuity.lost != self._sent:
            self._sent = self._continuity.lost
            self._shards.keep_continuity()
            self._send(self._known_members.by_id)

    def repeat(self, now: Instant) -> None:
        """Report a loss again if a report is due and the loss still keeps shards frozen."""
        is_due = now - self._sent_at >= REPEAT_EVERY
        if is_due and self._continuity.lost is not None and self._shards.frozen_count:
            self._sent_at = now
            self._send(self._known_members.by_id)

    def linked(self, node_id: NodeId) -> None:
        """Report a known loss to a node to which there is a new link."""
        if self._continuity.lost is not None:
            self._send([node_id])

    def _send(self, members: Collection[NodeId]) -> None:
        assert self._continuity.lost is not None
        for node_id in members:
            if node_id != self._node_id:
                lost = CoordinationLost(generation=self._continuity.lost)
                self._network.send(node_id, None, lost)
