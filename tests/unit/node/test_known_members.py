"""Member records of a node, and reads of the view when copies may move."""

from collections.abc import Mapping

import msgspec
import pytest

from rota.core.model.ids import NodeId, ShardId
from rota.node.cluster.known_members import KnownMembers
from rota.node.cluster.swap_queue import SwapQueue
from rota.node.coordination.coordinator import Member

A, B = NodeId("a"), NodeId("b")
SHARD = ShardId(3)
OLD = Member(node_id=A, store_id="store", address="http://a:1", key=b"first")


def placement(members: Mapping[NodeId, Member], shard: ShardId) -> tuple[NodeId, ...]:
    """Place every shard on all members."""
    del shard
    return tuple(sorted(members))


@pytest.mark.parametrize(
    ("change", "targets", "is_wanted"),
    [
        ({B: msgspec.structs.replace(OLD, node_id=B)}, (A, B), True),
        ({A: None}, (), True),
        ({A: msgspec.structs.replace(OLD, weight=2.0)}, (A,), True),
        ({A: msgspec.structs.replace(OLD, key=b"second")}, (A,), False),
    ],
    ids=["a node joins", "a node is removed", "a weight changes", "a process starts again"],
)
async def test_the_view_is_read_for_shards_without_a_copy_if_targets_may_change(
    change: dict[NodeId, Member | None], targets: tuple[NodeId, ...], is_wanted: bool
) -> None:
    requests, published = SwapQueue(), list[set[NodeId]]()
    known = KnownMembers(placement, lambda members: published.append(set(members)), requests)
    known.replace({A: OLD})
    assert known.targets_of(SHARD) == (A,)

    known.change(change)

    assert requests.view_wanted.is_set() is is_wanted
    assert known.targets_of(SHARD) == targets
    assert published == [set(targets)]
