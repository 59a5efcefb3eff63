"""Member records of the other nodes, for the use of links."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from rota.core.model.ids import NodeId
from rota.node.coordination.coordinator import Member
from rota.node.links.identity_proof import PeerCredentials


@dataclass(slots=True, eq=False)
class KnownPeer:
    """Another member.

    Attributes:
        member: The record of the member.
        has_news: Set when the record has changed since the member was last dialled.
    """

    member: Member
    has_news: asyncio.Event = field(default_factory=asyncio.Event)

    def change(self, member: Member) -> None:
        """Replace the record."""
        self.member = member
        self.has_news.set()


class KnownPeers:
    """The other members.

    Args:
        ours: The identity of this process.

    Attributes:
        by_id: The other members by their ids.
        has_changed: Set when a member was added or removed.
        is_on_record: Set once the members included the record of this process.
    """

    def __init__(self, ours: PeerCredentials) -> None:
        self._ours = ours
        self.by_id: dict[NodeId, KnownPeer] = {}
        self.has_changed = asyncio.Event()
        self.is_on_record = asyncio.Event()

    def set_members(self, members: Mapping[NodeId, Member]) -> None:
        """Update the members; only changed records have an effect."""
        for node_id in self.by_id.keys() - members.keys():
            del self.by_id[node_id]
            self.has_changed.set()
        own = members.get(self._ours.node_id)
        if own is not None and own.key == self._ours.key:
            self.is_on_record.set()
        for node_id, member in members.items():
            if node_id == self._ours.node_id:
                continue
            peer = self.by_id.get(node_id)
            if peer is None:
                self.by_id[node_id] = KnownPeer(member)
                self.has_changed.set()
            elif peer.member != member:
                peer.change(member)

    def member_of(self, node_id: NodeId) -> Member | None:
        """Return the record of a node that may have a link now; None if there is none."""
        peer = self.by_id.get(node_id)
        return peer.member if peer and self.is_on_record.is_set() else None
