"""The shard of a hash slot.

A shard is a range of hash slots, and the number of shards is a power of two: the top bits of a hash
slot are its shard, and doubling the number of shards splits each into two.
"""

from rota.core.model.ids import SLOT_BITS, ShardId, Slot

SHARD_COUNT_MAX = 1 << 14


def shard_of(slot: Slot, shard_count: int) -> ShardId:
    """Return the shard of *slot* among *shard_count*, a power of two up to `SHARD_COUNT_MAX`."""
    return ShardId(slot * shard_count >> SLOT_BITS)
