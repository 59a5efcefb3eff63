"""Permitted senders of each kind of message between nodes (PROTOCOL R42).

    MEMBER    a node with a record at the coordinator
    COPY      a member whose copy of the message's shard counts
    PRIMARY   the shard's primary

The role follows from the newest state that this node has read from the coordinator, never from a
statement of the sender. A message of a primary whose configuration this node has not seen yet is
dropped; the sender repeats it until it gets a response. For messages that only the primary of a
certain epoch may send, the replica checks the epoch too, and keeps messages of later epochs
(`rota.core.replication.primary_claims`). A response is ignored unless it is from a copy that got
the request.
"""

from collections.abc import Collection, Mapping
from enum import IntEnum

from rota.core.model.ids import NodeId
from rota.core.replication.messages import (
    Append,
    Appended,
    Fenced,
    Holding,
    Mismatch,
    Part,
    PartTaken,
    Query,
    QuietBeat,
    QuietResponse,
    Succeed,
)
from rota.core.vocabulary.shard_configuration import Configuration
from rota.node.peers.messages import (
    AskDigest,
    AskLease,
    AskList,
    AskSlots,
    CoordinationLost,
    Deliver,
    DeliveryReceipt,
    Dispatch,
    GiveDigest,
    GiveLease,
    LendSlots,
    ReportUse,
    ReturnSlots,
    Sent,
    Served,
    StandIn,
)


class Role(IntEnum):
    """The role of a node for a shard; each role has the rights of those before it."""

    STRANGER = 0
    MEMBER = 1
    COPY = 2
    PRIMARY = 3


LEAST: Mapping[type[Sent], Role] = {
    # The replica checks the epoch of messages of the primary; learners and backups send responses.
    Append: Role.MEMBER,
    Part: Role.MEMBER,
    Query: Role.MEMBER,
    Succeed: Role.MEMBER,
    Appended: Role.MEMBER,
    Mismatch: Role.MEMBER,
    Holding: Role.MEMBER,
    PartTaken: Role.MEMBER,
    Fenced: Role.MEMBER,
    # Any member may have run an attempt of the shard, or have an outbox item for it.
    Deliver: Role.MEMBER,
    AskLease: Role.MEMBER,
    # Only the primary decides starts, leases and commits.
    DeliveryReceipt: Role.PRIMARY,
    GiveLease: Role.PRIMARY,
    AskList: Role.PRIMARY,
    Dispatch: Role.PRIMARY,
    # The replica of each listed shard checks that the sender is its primary.
    QuietBeat: Role.MEMBER,
    QuietResponse: Role.MEMBER,
    # Slots belong to nodes, not to shards.
    AskSlots: Role.MEMBER,
    LendSlots: Role.MEMBER,
    ReturnSlots: Role.MEMBER,
    # Each node reports the use in its own shards.
    ReportUse: Role.MEMBER,
    # A node without a copy may be the only one that detected the loss.
    CoordinationLost: Role.MEMBER,
    # A copy that no longer counts and has not detected that gets `Served`; its message has no other
    # effect (`rota.node.fallback.stand_ins`).
    StandIn: Role.MEMBER,
    Served: Role.COPY,
    # The primary requests a digest of the rows of each copy that counts.
    AskDigest: Role.PRIMARY,
    GiveDigest: Role.COPY,
}
"""The least role that the sender of each kind of message must have."""


def role_of(node_id: NodeId, newest: Configuration | None, members: Collection[NodeId]) -> Role:
    """Return the role of a node for a shard whose newest configuration is *newest*."""
    if node_id not in members:
        return Role.STRANGER
    if newest is None or node_id not in newest.members:
        return Role.MEMBER
    return Role.PRIMARY if node_id == newest.primary else Role.COPY


def may_send(
    kind: type[Sent],
    sender: NodeId,
    newest: Configuration | None,
    members: Collection[NodeId],
) -> bool:
    """Return True if a node may send a message of a kind.

    Args:
        kind: The type of the message.
        sender: The node.
        newest: The newest configuration of the message's shard; None if there is none.
        members: The members of the cluster.
    """
    least = LEAST[kind]
    if least is Role.MEMBER:
        return sender in members  # Needs no configuration; this is the case of nearly all messages.
    return role_of(sender, newest, members) >= least
