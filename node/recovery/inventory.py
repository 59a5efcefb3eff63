"""Inventories: the copies of shards on a node, as the node reports them for a recovery."""

from collections.abc import Mapping
from dataclasses import dataclass

from rota.core.model.ids import AllocationId, Epoch, Index, ShardId
from rota.core.timing.instants import Instant
from rota.core.vocabulary.journal import ORIGIN_HASH
from rota.core.vocabulary.shard_configuration import Configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldCopy:
    """The copy of a shard on a node.

    Attributes:
        seen: The newest configuration that the node has seen at the coordinator; None if it has
            seen none.
        promised: The highest epoch that the node promised to obey.
        allocation: The id of the node's copy if it is complete; otherwise None.
        before: The index of the entry before the oldest one in the copy's journal; 0 if the journal
            has all entries.
        committed: The index up to which the copy's entries are known to be committed, at least
            *before*. Later entries may be acknowledged too, especially after a restart.
        tip: The epoch and index of the copy's last entry.
        tip_hash: The hash of the last entry.
        tip_at: The shard time of the last entry.
    """

    seen: Configuration | None = None
    promised: Epoch = Epoch(0)
    allocation: AllocationId | None = None
    before: Index = Index(0)
    committed: Index = Index(0)
    tip: tuple[Epoch, Index] = (Epoch(0), Index(0))
    tip_hash: bytes = ORIGIN_HASH
    tip_at: Instant = Instant(0)


NOTHING_HELD = HeldCopy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The copies on a node.

    Attributes:
        lost: The generation up to which the coordinator lost its state; None if the node has
            detected no loss.
        shards: The copies, by number of the shard; shards without data on the node are omitted.
    """

    lost: int | None
    shards: Mapping[ShardId, HeldCopy]

    def of(self, shard: ShardId) -> HeldCopy:
        """Return the node's copy of a shard."""
        return self.shards.get(shard, NOTHING_HELD)
