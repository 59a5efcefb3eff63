"""One shard on a node: the entries behind its rows."""

from rota.core.model.ids import AllocationId, Epoch, Index, NodeId, Session, ShardId
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.coordinator_continuity import CoordinatorContinuity
from rota.core.replication.messages import Append
from rota.core.replication.primary import Copies
from rota.core.replication.quiet_beats import QuietBeats
from rota.core.replication.timeouts import Timing
from rota.core.replication.transfer_limits import TransferLimits
from rota.core.timing.instants import HOUR, SECOND, Instant
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.codec import RawChange, encode_body
from rota.core.vocabulary.journal import Entry as JournalEntry
from rota.core.vocabulary.journal import EntryKind, encode_entry
from rota.core.vocabulary.shard_configuration import Configuration, Copy, Swap, Swapped
from rota.node.shards.shard import Entry, Shard
from rota.storage.memory import MemoryStore

ME, OTHER = NodeId("me"), NodeId("other")
MINE, THEIRS = AllocationId("mine"), AllocationId("theirs")
NOW = Instant(SECOND)


class Disk:
    """A shard on a store of its own, with this node as the only copy."""

    def __init__(self) -> None:
        self._store = MemoryStore()
        liveness = Liveness(ME, born_at=NOW, session=Session("s"), session_end=Instant(HOUR))
        self.shard = Shard(
            self._store,
            ShardId(0),
            liveness=liveness,
            continuity=CoordinatorContinuity(),
            timing=Timing(),
            transfers=TransferLimits(),
            quiet_beats=QuietBeats(liveness, Timing()),
            copies=Copies(wanted=1, least=1),
        )
        replica = self.shard.replica
        replica.found(MINE)
        self.write()
        replica.tick(NOW, 0)
        swap = self.write()
        assert swap is not None
        replica.answered(swap, Swapped(is_done=True, current=swap.fresh), NOW)
        self.write()
        self.apply()
        self.shard.open()

    def write(self, *, is_durable: bool = True) -> Swap | None:
        """Write what the replica wants written; return what it wants asked."""
        replica, batch = self.shard.replica, self._store.batch()
        ready = replica.take_ready()
        self.shard.file.write(batch, ready.writes)
        self._store.write(batch)
        if is_durable:
            replica.made_durable(ready.number)
        return ready.swap

    def apply(self) -> None:
        """Apply what is committed."""
        batch = self._store.batch()
        self.shard.apply(batch)
        self._store.write(batch)

    def rows(self) -> tuple[tuple[bytes, bytes], ...]:
        """Return all rows."""
        return self.shard.file.rows(None, 1 << 20).rows


def test_entries_that_are_committed_and_not_released_wait_like_the_others() -> None:
    shard = Disk().shard
    for index, entries in ((1, shard.committed), (2, shard.entries), (3, shard.entries)):
        entries.append(Entry(Index(index), Instant(index), (), ()))

    assert [each.index for each in shard.unreleased_until(Instant(2))] == [1, 2]


def test_an_entry_that_another_primary_put_in_the_place_of_ours_is_the_one_applied() -> None:
    disk = Disk()
    shard, copy = disk.shard, disk.shard.replica.copy
    base = copy.tip
    ours: RawChange = (Table.JOB, "job", b"ours")
    at = copy.shard_time(NOW)
    index = shard.replica.propose(encode_body(["test"], (ours,)), at, NOW)
    shard.entries.append(Entry(index, NOW, (ours,), ()))
    disk.write(is_durable=False)

    # Others have replaced this node and committed entries; their message comes before it notices.
    theirs = encode_body(["test"], ((Table.JOB, "job", b"theirs"),))
    entry = JournalEntry(EntryKind.CHANGES, Epoch(2), index, at, base.hash, theirs)
    message = Append(
        configuration=Configuration(
            epoch=Epoch(2),
            primary=OTHER,
            primary_session=Session("t"),
            sync=(Copy(ME, MINE), Copy(OTHER, THEIRS)),
        ),
        allocation=MINE,
        previous=Index(index - 1),
        previous_hash=base.hash,
        entries=(encode_entry(entry),),
        committed=index,
        sent_at=NOW,
    )
    shard.replica.learn(message.configuration, NOW)
    shard.replica.receive(message, OTHER, NOW)
    disk.write()
    disk.apply()

    assert disk.rows() == ((bytes((Table.JOB,)) + b"job", b"theirs"),)
    assert [each.index for each in shard.close()] == [index]
