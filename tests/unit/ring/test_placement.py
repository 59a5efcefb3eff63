"""Mapping of hash slots to shards."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rota.core.model.ids import Slot
from rota.ring.placement import SHARD_COUNT_MAX, shard_of


@given(slot=st.integers(0, 2**16 - 1), bits=st.integers(0, 14))
@settings(max_examples=100, deadline=None)
def test_twice_as_many_shards_split_each_one_in_two(slot: int, bits: int) -> None:
    count = min(1 << bits, SHARD_COUNT_MAX // 2)

    shard, half = shard_of(Slot(slot), count), shard_of(Slot(slot), 2 * count)

    assert 0 <= shard < count
    assert half // 2 == shard
