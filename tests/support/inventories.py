"""Inventories of replicas for the plan of a recovery."""

from collections.abc import Callable, Iterator, Mapping

from rota.core.model.ids import Index, NodeId, ShardId
from rota.core.replication.replica import Replica
from rota.node.recovery.configuration_lineage import EntryOf, Hashes
from rota.node.recovery.inventory import HeldCopy


def held(replica: Replica) -> HeldCopy:
    """Return the entry of a replica in its node's inventory."""
    copy = replica.copy
    return HeldCopy(
        seen=replica.seen,
        promised=replica.epoch,
        allocation=copy.allocation,
        before=Index(copy.first - 1),
        committed=copy.committed,
        tip=(copy.tip.epoch, copy.tip.index),
        tip_hash=copy.tip.hash,
        tip_at=copy.tip.at,
    )


class _Journals(Mapping[EntryOf, bytes]):
    """The hashes of all entries that replicas keep, read on access."""

    def __init__(self, replica_of: Callable[[NodeId, ShardId], Replica]) -> None:
        self._replica_of = replica_of

    def __getitem__(self, entry: EntryOf) -> bytes:
        found = self._replica_of(entry.node_id, entry.shard).copy.hash_at(entry.number)
        if found is None:
            raise KeyError(entry)
        return found

    def __iter__(self) -> Iterator[EntryOf]:
        raise AssertionError("hashes are looked up, never listed")

    def __len__(self) -> int:
        raise AssertionError("hashes are looked up, never listed")


def hashes_of(replica_of: Callable[[NodeId, ShardId], Replica]) -> Hashes:
    """Return the hashes of the replicas' entries, all available without a request."""
    return Hashes(_Journals(replica_of))
