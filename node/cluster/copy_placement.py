"""Placement of the copies of each shard: the ring over the member records."""

import logging
from collections.abc import Mapping

from rota.core.model.ids import NodeId, ShardId
from rota.node.coordination.coordinator import Member
from rota.ring.assignment import Assignment, assign
from rota.ring.membership import Member as RingMember
from rota.ring.membership import MemberState, problems_of_members

log = logging.getLogger(__name__)

_STATES = {state.value: state for state in MemberState}


class CopyPlacement:
    """The target nodes of each shard's copies (`rota.node.cluster.known_members.Placement`).

    All nodes compute the same targets from the same members, so they need not agree on the targets.

    Args:
        shard_count: The number of shards of the cluster.
        copies: The wanted number of copies of each shard.
    """

    def __init__(self, shard_count: int, copies: int) -> None:
        self._shard_count = shard_count
        self._copies = copies
        self._members: tuple[RingMember, ...] = ()
        self._assignment: Assignment | None = None

    def __call__(self, members: Mapping[NodeId, Member], shard: ShardId) -> tuple[NodeId, ...]:
        """Return the nodes that ought to have copies of *shard*, the primary first."""
        # Computing `able` takes O(nodes), an assignment takes milliseconds.
        able = tuple(sorted(map(_on_ring, members.values()), key=lambda member: member.id))
        if self._assignment is None or able != self._members:
            self._members = able
            self._assignment = assign(_sound(able), self._shard_count, self._copies)
        return self._assignment.replica_sets[shard]


def _on_ring(member: Member) -> RingMember:
    return RingMember(
        id=member.node_id,
        weight=member.weight,
        zone=member.zone,
        # A node whose state this version does not have gets no further copies.
        state=_STATES.get(member.state, MemberState.DRAINING),
    )


def _sound(members: tuple[RingMember, ...]) -> list[RingMember]:
    """Return the members that the ring accepts; a record edited by hand may be invalid."""
    sound: list[RingMember] = []
    for member in members:
        problems = problems_of_members([member])
        if problems:
            reason = "; ".join(map(str, problems))
            log.error("member not placed", extra={"node": member.id, "reason": reason})
        else:
            sound.append(member)
    return sound
