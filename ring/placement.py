"""From a slot to the shard that owns it.

A shard is a range of slots, and their number a power of two: the top bits of a slot are its shard,
and twice as many shards would split each in two.
"""

from rota.core.model.ids import SLOT_BITS, ShardId, Slot

SHARD_COUNT_MAX = 1 << 14


def shard_of(slot: Slot, shard_count: int) -> ShardId:
    """Return the shard of *slot* among *shard_count*, a power of two up to `SHARD_COUNT_MAX`."""
    return ShardId(slot * shard_count >> SLOT_BITS)
