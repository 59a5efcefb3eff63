"""Who holds a shard: the one small truth that all nodes share, changed by compare-and-set alone.

A configuration names a primary, in one of its lives, and the copies that count: every entry that
anyone was told is committed is on all of them. Each change is a new configuration with the next
epoch, so epochs order all that ever held a shard (PROTOCOL R1).

The upper bits of an epoch are its *generation*. Changes stay in their generation. Only the recovery
of a coordinator that lost its state begins another one, above every generation known, so that no
epoch is used twice: not even one that only a node out of reach has seen.
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
"""More than any cluster wants of one shard."""
NOBODY = Session("")
"""The session of a primary that resigned: any in-sync backup may take over (PROTOCOL R5)."""
GENERATION_BITS = 40
"""A generation has room for a change every millisecond for 34 years; there are 4 million."""


def generation_of(epoch: Epoch) -> int:
    """Return the generation of an epoch, from 0."""
    return epoch >> GENERATION_BITS


def first_epoch(generation: int) -> Epoch:
    """Return the first epoch of a generation; that of generation 0 is 1."""
    return Epoch((generation << GENERATION_BITS) + 1)


class Copy(msgspec.Struct, frozen=True, array_like=True):
    """One copy of a shard, told from every earlier one on the same node by its allocation."""

    node_id: CheckedNodeId
    allocation: CheckedAllocation


class Configuration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who holds a shard under an epoch.

    It is compared byte by byte in its stored form. A field added later must have a default, which
    is not stored: so a version that knows the field still writes old values as they are, and one
    that does not cannot replace, and thereby lose, a value that has it.

    Attributes:
        epoch: 1 for the first one; each that replaces another has the next.
        primary: The node that decides.
        primary_session: The life of that node which does; `NOBODY` after it resigned.
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
        # Of a list, for tuples of three: from a generator it takes twice as long.
        return tuple([copy.node_id for copy in self.sync])


class Swap(msgspec.Struct, frozen=True, kw_only=True):
    """A compare-and-set: *fresh* replaces *expected*, if three things hold (PROTOCOL R3).

    Attributes:
        expected: The configuration to be replaced, whole; None if there is none yet.
        by: The node that asks, which must be in *session*.
        gone: For a takeover: a node and the session of it that must no longer be alive.
        is_repair: An operator has it, to raise the epoch above promises that no coordinator gave
            cause for; it alone may skip epochs.
    """

    shard: ShardId
    expected: Configuration | None
    fresh: Configuration
    by: NodeId
    session: Session
    gone: tuple[NodeId, Session] | None = None
    is_repair: bool = False


class Swapped(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a swap: whether it was done, and the configuration after it."""

    is_done: bool
    current: Configuration | None
