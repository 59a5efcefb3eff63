"""Configurations: the primary and the counting copies of a shard, changed by compare-and-set alone.

A configuration is stored in the coordinator and shared by all nodes. It names a primary, with its
session, and the copies that count: every entry reported as committed is on all of them. Each change
is a new configuration with the next epoch, so epochs order all configurations of a shard (R1).

The upper bits of an epoch are its *generation*. A change stays within the generation. Only the
recovery of a coordinator that lost its state begins a new generation, above every known one. So no
epoch is used twice, not even one that only an unreachable node has seen.
"""

from typing import Annotated

import msgspec

from rota.core.model.checked_fields import (
    CheckedAllocation,
    CheckedEpoch,
    CheckedNodeId,
    CheckedSession,
)
from rota.core.model.ids import AllocationId, Epoch, NodeId, Session, ShardId

COPIES_MAX = 64
"""The maximum number of copies in a configuration, more than any cluster uses."""
NO_SESSION = Session("")
"""The session of a primary that resigned: any in-sync backup may take over (PROTOCOL R5)."""
GENERATION_BITS = 40
"""The bits of an epoch within its generation: enough for a change every millisecond for 34 years.

They leave room for 4 million generations.
"""


def generation_of(epoch: Epoch) -> int:
    """Return the generation of an epoch, from 0."""
    return epoch >> GENERATION_BITS


def first_epoch(generation: int) -> Epoch:
    """Return the first epoch of a generation; that of generation 0 is 1."""
    return Epoch((generation << GENERATION_BITS) + 1)


class Copy(msgspec.Struct, frozen=True, array_like=True):
    """One copy of a shard; its allocation distinguishes it from earlier copies on the same node."""

    node_id: CheckedNodeId
    allocation: CheckedAllocation


class Configuration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The primary and the counting copies of a shard under an epoch.

    The stored form is compared byte by byte. A field added later must have a default, which is not
    stored. So a version with the field still writes old values unchanged, and a version without the
    field cannot replace a value that has it, which would lose the field.

    Attributes:
        epoch: 1 for the first configuration; each later one has the next epoch.
        primary: The node that decides for the shard.
        primary_session: The session of that node; `NO_SESSION` after it resigned.
        sync: The copies that count, the primary's among them, in order of node.
    """

    epoch: CheckedEpoch
    primary: CheckedNodeId
    primary_session: CheckedSession
    sync: Annotated[tuple[Copy, ...], msgspec.Meta(max_length=COPIES_MAX)] = ()

    def allocation_of(self, node_id: NodeId) -> AllocationId | None:
        """Return the allocation under which *node_id* counts, or None if it does not."""
        for copy in self.sync:
            if copy.node_id == node_id:
                return copy.allocation
        return None

    @property
    def members(self) -> tuple[NodeId, ...]:
        """The nodes whose copies count."""
        # From a list: for three copies, a generator would take twice as long.
        return tuple([copy.node_id for copy in self.sync])


class Swap(msgspec.Struct, frozen=True, kw_only=True):
    """A compare-and-set that replaces *expected* by *fresh* under three conditions (PROTOCOL R3).

    Attributes:
        expected: The configuration to be replaced, which must be the current one; None if the shard
            has none yet.
        by: The requesting node, whose session must be *session*.
        gone: For a takeover: a node and its session, which must no longer be alive.
        is_repair: Whether an operator requests the swap, to raise the epoch above promises of
            epochs that the coordinator never issued; only a repair may skip epochs.
    """

    shard: ShardId
    expected: Configuration | None
    fresh: Configuration
    by: NodeId
    session: Session
    gone: tuple[NodeId, Session] | None = None
    is_repair: bool = False

    def may_happen(self, newest: Configuration) -> bool:
        """Return True if the swap may still be carried out after the configuration *newest*."""
        return self.expected is not None and self.expected.epoch >= newest.epoch


class Swapped(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a swap: whether it was carried out, and the configuration after it."""

    is_done: bool
    current: Configuration | None
