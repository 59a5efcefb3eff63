"""Who may send a message: one table of all that nodes send one another (PROTOCOL R42).

    MEMBER    a node that the coordinator has on record
    COPY      one of them whose copy of the message's shard counts
    PRIMARY   the shard's primary

All of it by what the coordinator told this node last, never by what the sender tells of itself. A
message of a primary of which this node has not heard yet is dropped, and comes again: whoever sends
it repeats it until it is answered. Those that only the primary of a certain epoch may send are
judged more closely by the replica, which also keeps early ones
(`rota.core.replication.primary_claims`); and an answer counts for nothing unless it is of a copy
that was asked.
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
    ReturnSlots,
    Sent,
    Served,
    StandIn,
)


class Role(IntEnum):
    """What a node is to a shard, as far as is known here; each may do what those before it may."""

    STRANGER = 0
    MEMBER = 1
    COPY = 2
    PRIMARY = 3


LEAST: Mapping[type[Sent], Role] = {
    # The primary's, of an epoch that the replica looks at; learners and backups answer.
    Append: Role.MEMBER,
    Part: Role.MEMBER,
    Query: Role.MEMBER,
    Succeed: Role.MEMBER,
    Appended: Role.MEMBER,
    Mismatch: Role.MEMBER,
    Holding: Role.MEMBER,
    PartTaken: Role.MEMBER,
    Fenced: Role.MEMBER,
    # Anyone may have run an attempt of the shard, or have a letter for it.
    Deliver: Role.MEMBER,
    AskLease: Role.MEMBER,
    # What only the primary decides: starts, leases, that something is committed.
    DeliveryReceipt: Role.PRIMARY,
    GiveLease: Role.PRIMARY,
    AskList: Role.PRIMARY,
    Dispatch: Role.PRIMARY,
    # Places are of nodes, not of shards.
    AskSlots: Role.MEMBER,
    LendSlots: Role.MEMBER,
    ReturnSlots: Role.MEMBER,
    # No primary can check it, and a node that has no copy may be the only one that knows.
    CoordinationLost: Role.MEMBER,
    # A copy that counts no more, and has not heard so, is told of the primary; its word is not
    # taken (`rota.node.fallback.stand_ins`).
    StandIn: Role.MEMBER,
    Served: Role.COPY,
    # The primary asks each copy that counts for a digest of its rows.
    AskDigest: Role.PRIMARY,
    GiveDigest: Role.COPY,
}
"""What the sender of each message has to be at least."""


def role_of(node_id: NodeId, newest: Configuration | None, members: Collection[NodeId]) -> Role:
    """Return what a node is to a shard whose newest configuration is *newest*."""
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
    """Return True if a node may send a message of that kind; the rest is as for `role_of`."""
    least = LEAST[kind]
    if least is Role.MEMBER:
        return sender in members  # Nearly all messages; their shard's configuration says no more.
    return role_of(sender, newest, members) >= least
