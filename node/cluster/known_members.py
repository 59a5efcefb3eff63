"""Members of the cluster in the view of this node, and the nodes to which copies belong."""

from collections.abc import Callable, Mapping

import msgspec

from rota.core.model.ids import NodeId, ShardId
from rota.node.cluster.swap_queue import SwapQueue
from rota.node.coordination.coordinator import Member

Placement = Callable[[Mapping[NodeId, Member], ShardId], tuple[NodeId, ...]]
"""Returns the nodes among the members that ought to have copies of a shard, the primary first."""
OnMembers = Callable[[Mapping[NodeId, Member]], None]


class KnownMembers:
    """The members of the cluster, whether or not they live.

    Args:
        placement: Returns the nodes of a shard's copies.
        on_members: Called with all members whenever a member has changed.
        requests: The queue in which a read of the view is requested.

    Attributes:
        by_id: The member record of each node.
        placement_number: A number that changes when `targets_of` may return other nodes.
    """

    def __init__(self, placement: Placement, on_members: OnMembers, requests: SwapQueue) -> None:
        self.by_id: dict[NodeId, Member] = {}
        self._placement = placement
        self._on_members = on_members
        self._requests = requests
        self.placement_number = 0
        self._targets: dict[ShardId, tuple[NodeId, ...]] = {}

    def targets_of(self, shard: ShardId) -> tuple[NodeId, ...]:
        """Return the nodes that ought to have copies of *shard*, the primary first."""
        targets = self._targets.get(shard)
        if targets is None:
            targets = self._targets[shard] = self._placement(self.by_id, shard)
        return targets

    def replace(self, members: dict[NodeId, Member]) -> None:
        """Replace all members by those of a view; the caller calls `publish` afterwards."""
        self.by_id = members
        self._forget_targets()

    def _forget_targets(self) -> None:
        self._targets.clear()
        self.placement_number += 1

    def publish(self) -> None:
        """Call *on_members*."""
        self._on_members(self.by_id)

    def change(self, members: Mapping[NodeId, Member | None]) -> None:
        """Apply new, changed and removed records.

        Args:
            members: The new record of each node; None if the record was removed.
        """
        moves = any(map(_moves_copies, map(self.by_id.get, members), members.values()))
        for node_id, member in members.items():
            if member is None:
                self.by_id.pop(node_id, None)
            else:
                self.by_id[node_id] = member
        self._on_members(self.by_id)
        if moves:
            self._forget_targets()
            self._requests.look()  # A shard without copies may now have to be founded here (R23).


def _moves_copies(before: Member | None, after: Member | None) -> bool:
    """Return True if two records of a node differ in more than its keys.

    After a restart of a node, its records differ in those only: all copies stay where they are, and
    no view has to be read.
    """
    if before is None or after is None:
        return before is not after
    return msgspec.structs.replace(before, key=after.key, task_key=after.task_key) != after
