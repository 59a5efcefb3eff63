"""What nodes have of shards, as they answer when a coordinator is to be recovered."""

from collections.abc import Mapping
from dataclasses import dataclass

from rota.core.model.ids import AllocationId, Epoch, Index, ShardId
from rota.core.timing.instants import Instant
from rota.core.vocabulary.journal import ORIGIN_HASH
from rota.core.vocabulary.shard_configuration import Configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldCopy:
    """What a node has of a shard.

    Attributes:
        seen: The newest configuration that the coordinator was seen to have; None if none was.
        promised: The highest epoch that the node promised to obey.
        allocation: Of the node's whole copy; None without one.
        before: Index of the entry before the oldest one that the copy keeps; 0 if it keeps all.
        committed: Index up to which the copy's entries are known to be committed: at least
            *before*. More may have been acknowledged, above all by a node that was restarted.
        tip: Epoch and index of the copy's last entry.
        tip_hash: Of that entry.
        tip_at: Shard time of that entry.
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
    """What a node has.

    Attributes:
        lost: The generation up to which the coordinator lost what it had; None: nothing is lost,
            as far as the node has learned.
        shards: By number; those of which the node has nothing are left out.
    """

    lost: int | None
    shards: Mapping[ShardId, HeldCopy]

    def of(self, shard: ShardId) -> HeldCopy:
        """Return what the node has of a shard."""
        return self.shards.get(shard, NOTHING_HELD)
