"""A signature counts for one head of one shard of one cluster, and only with its key."""

from msgspec.structs import replace

from rota.core.model.ids import ShardId
from rota.core.timing.instants import Instant
from rota.core.vocabulary.change_chain import SignedHead, change_key
from rota.node.secrets.change_signatures import fault_of_signature, sign_head
from support.key_rings import new_key, ring_of

SHARD = ShardId(3)
OLD, NEW = new_key(), new_key()
RING = ring_of(OLD)


def test_a_signature_counts_as_long_as_the_key_ring_has_its_key() -> None:
    head = signed()

    assert fault(head) == ""
    rotated = ring_of(OLD, NEW)
    assert fault_of_signature(head, rotated, cluster="c", shard=SHARD) == ""
    lacking = ring_of(NEW)
    assert "which the key ring of the node lacks" in fault_of_signature(
        head, lacking, cluster="c", shard=SHARD
    )


def test_a_signature_of_anything_else_does_not_count() -> None:
    head = signed()

    for forged in (
        replace(head, hash=b"\x02" * 32),
        replace(head, key=change_key(Instant(1_000), 6)),
        replace(head, at=Instant(3_000)),
        replace(head, mac=b""),
        replace(head, mac=bytes(32)),
    ):
        assert fault(forged).endswith("is wrong")
    assert fault_of_signature(head, RING, cluster="d", shard=SHARD).endswith("is wrong")
    assert fault_of_signature(head, RING, cluster="c", shard=ShardId(4)).endswith("is wrong")


def signed() -> SignedHead:
    key = change_key(Instant(1_000), 5)
    return sign_head(key, b"\x01" * 32, RING, cluster="c", shard=SHARD, at=Instant(2_000))


def fault(head: SignedHead) -> str:
    return fault_of_signature(head, RING, cluster="c", shard=SHARD)
