"""A shard in a store: full check of the journal, and single application of committed entries."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rota.core.model.ids import AllocationId, Epoch, Index, JobId, NodeId, Session, ShardId
from rota.core.replication.coordinator_continuity import CoordinatorContinuity
from rota.core.replication.local_copy import Clear, LocalCopy, PutSeen, Write
from rota.core.timing.instants import Instant
from rota.core.vocabulary.changes import Change, Name, Table
from rota.core.vocabulary.codec import RawChange, encode_body, encode_change
from rota.core.vocabulary.journal import ORIGIN, EntryKind
from rota.core.vocabulary.shard_configuration import Configuration, Copy
from rota.storage.continuity import put_continuity, stored_continuity
from rota.storage.memory import MemoryStore
from rota.storage.rocks import RocksStore
from rota.storage.shards import JOURNAL_KEPT, ShardFile, shard_prefix
from rota.storage.store import Family, Store, StoreDamaged

SHARD = ShardId(7)


class Writer:
    """Appends entries that each name one job, as a primary does."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.file = ShardFile(store, SHARD)
        self.copy = LocalCopy(self.file.stored(), self.file)
        self.copy.promise(Epoch(max(1, self.copy.epoch)))

    def append(
        self, name: str, *, is_applied: bool = True, needed_from: Index | None = None
    ) -> None:
        """Append an entry, and apply it too unless the crash comes first."""
        changes: tuple[RawChange, ...] = (
            encode_change(Change(Table.NAME, name, Name(JobId(name)))),
        )
        now = Instant(self.copy.tip.at + 1)
        self.copy.append(encode_body(["test"], changes), now, EntryKind.CHANGES)
        batch = self.store.batch()
        self.file.write(batch, self.copy.take_writes())
        self.store.write(batch)
        if is_applied:
            batch = self.store.batch()
            self.file.apply(batch, self.copy.tip.index, changes, needed_from)
            self.store.write(batch)


def names(store: Store) -> list[str]:
    return [change.key for change in ShardFile(store, SHARD).changes()]


def journal_key(index: int) -> bytes:
    return shard_prefix(SHARD) + index.to_bytes(8, "big")


def spoil(store: Store, index: int, how: Callable[[bytes], bytes]) -> None:
    value = store.get(Family.JOURNAL, journal_key(index))
    assert value is not None
    batch = store.batch()
    batch.put(Family.JOURNAL, journal_key(index), how(value))
    store.write(batch)


CONFIGURATION = Configuration(
    epoch=Epoch(9),
    primary=NodeId("a"),
    primary_session=Session("life"),
    sync=(Copy(NodeId("a"), AllocationId("copy")),),
)


@pytest.mark.parametrize("last", [PutSeen(CONFIGURATION), Clear()])
def test_the_configuration_seen_last_is_there_after_a_restart_with_and_without_a_copy(
    last: Write,
) -> None:
    store = MemoryStore()
    batch = store.batch()
    ShardFile(store, SHARD).write(batch, [PutSeen(CONFIGURATION), last])
    store.write(batch)

    assert ShardFile(store, SHARD).stored().seen == CONFIGURATION
    assert ShardFile(store, ShardId(8)).stored().seen is None


def test_a_seen_configuration_that_cannot_be_read_is_refused() -> None:
    store = MemoryStore()
    batch = store.batch()
    batch.put(Family.META, b"c:" + shard_prefix(SHARD), b"spoilt")
    store.write(batch)

    with pytest.raises(StoreDamaged, match="shard 7: the configuration seen last"):
        ShardFile(store, SHARD).stored()


def test_what_is_known_of_the_coordinators_past_is_there_after_a_restart() -> None:
    store = MemoryStore()
    assert stored_continuity(store) == CoordinatorContinuity()
    batch = store.batch()
    put_continuity(batch, CoordinatorContinuity(lost=3, revision=17))
    store.write(batch)

    assert stored_continuity(store) == CoordinatorContinuity(lost=3, revision=17)


def test_a_damaged_record_of_the_coordinators_past_is_refused() -> None:
    store = MemoryStore()
    batch = store.batch()
    batch.put(Family.META, b"continuity", b"spoilt")
    store.write(batch)

    with pytest.raises(StoreDamaged, match="coordinator's past"):
        stored_continuity(store)


def test_entries_that_were_not_committed_are_kept_and_not_applied() -> None:
    store = MemoryStore()
    writer = Writer(store)
    writer.append("a")
    writer.append("b", is_applied=False)
    writer.append("c", is_applied=False)

    stored = ShardFile(store, SHARD).stored()

    assert names(store) == ["a"]
    assert (stored.committed, stored.tip) == (1, writer.copy.tip)


def test_a_journal_continues_after_its_last_entry() -> None:
    store = MemoryStore()
    Writer(store).append("a")

    Writer(store).append("b")

    assert ShardFile(store, SHARD).tip.index == 2


@pytest.mark.parametrize("offset", [0, 1, 5, 15, 20, 30, 36, 40, -1])
def test_a_flipped_byte_is_refused_and_located(offset: int) -> None:
    store = MemoryStore()
    writer = Writer(store)
    for name in "abcde":
        writer.append(name)

    def flip(value: bytes) -> bytes:
        spoilt = bytearray(value)
        spoilt[offset] ^= 1
        return bytes(spoilt)

    spoil(store, 3, flip)

    with pytest.raises(StoreDamaged, match="shard 7: journal entry 3 "):
        ShardFile(store, SHARD)


def test_an_entry_of_another_history_is_refused() -> None:
    store, other = MemoryStore(), MemoryStore()
    writer, stranger = Writer(store), Writer(other)
    for name in "abcde":
        writer.append(name)
        stranger.append(name.upper())
    foreign = other.get(Family.JOURNAL, journal_key(3))
    assert foreign is not None

    spoil(store, 3, lambda _: foreign)

    with pytest.raises(StoreDamaged, match=r"journal entry 3 does not follow .* \(chain hash\)"):
        ShardFile(store, SHARD)


def test_a_missing_entry_is_refused() -> None:
    store = MemoryStore()
    writer = Writer(store)
    for name in "abcde":
        writer.append(name)
    batch = store.batch()
    batch.delete(Family.JOURNAL, journal_key(3))
    store.write(batch)

    with pytest.raises(StoreDamaged, match="is entry 4 instead of entry 3"):
        ShardFile(store, SHARD)


def test_a_header_that_cannot_be_read_is_refused() -> None:
    store = MemoryStore()
    Writer(store).append("a")
    batch = store.batch()
    batch.put(Family.META, b"s:" + shard_prefix(SHARD), b"\xc1")
    store.write(batch)

    with pytest.raises(StoreDamaged, match="shard 7: its header cannot be read"):
        ShardFile(store, SHARD)


def test_a_journal_shorter_than_what_was_applied_is_refused() -> None:
    store = MemoryStore()
    writer = Writer(store)
    for name in "abc":
        writer.append(name)
    batch = store.batch()
    batch.delete(Family.JOURNAL, journal_key(3))
    store.write(batch)

    with pytest.raises(StoreDamaged, match="ends at entry 2, but entries up to 3 were applied"):
        ShardFile(store, SHARD)


def test_a_cleared_copy_leaves_nothing_and_the_shards_beside_it_are_as_they_were() -> None:
    store = MemoryStore()
    beside = (ShardId(SHARD - 1), ShardId(SHARD + 1))
    of_a_copy = (Family.JOURNAL, Family.STATE, Family.HIST)
    batch = store.batch()
    for shard in (*beside, SHARD):
        for family in of_a_copy:
            for key in (b"", b"\x00", b"\xff" * 9):
                batch.put(family, shard_prefix(shard) + key, b"row")
    store.write(batch)
    file = ShardFile(MemoryStore(), SHARD)

    batch = store.batch()
    file.write(batch, (Clear(),))
    store.write(batch)

    left = {key[:2] for family in of_a_copy for key, _ in store.scan(family, b"", b"\xff" * 12)}
    assert left == {shard_prefix(shard) for shard in beside}
    assert file.stored().allocation is None


def test_a_copy_that_was_cleared_before_a_crash_is_empty_after_it() -> None:
    store = MemoryStore()
    writer = Writer(store)
    for name in ("a", "b", "c"):
        writer.append(name)
    promised = writer.copy.epoch

    writer.copy.clear()
    batch = store.batch()
    writer.file.write(batch, writer.copy.take_writes())
    store.write(batch)

    stored = ShardFile(store, SHARD).stored()
    assert (stored.tip, stored.before_first, stored.committed) == (ORIGIN, ORIGIN, 0)
    assert (stored.allocation, stored.epoch) == (None, promised)


def test_entries_that_another_copy_needs_are_not_trimmed() -> None:
    store = MemoryStore()
    writer = Writer(store)

    for number in range(3 * JOURNAL_KEPT):
        writer.append(f"{number:05}", needed_from=Index(5))

    assert next(index for index, _ in ShardFile(store, SHARD).journal()) == 5


def test_the_journal_is_trimmed_and_still_checked() -> None:
    store = MemoryStore()
    writer = Writer(store)
    for number in range(2 * JOURNAL_KEPT + 10):
        writer.append(f"{number:05}")

    kept = [index for index, _ in ShardFile(store, SHARD).journal()]
    spoil(store, kept[0], lambda value: value[:-1] + b"?")

    assert JOURNAL_KEPT <= len(kept) <= JOURNAL_KEPT + 11
    with pytest.raises(StoreDamaged, match=f"journal entry {kept[0]} "):
        ShardFile(store, SHARD)


def test_a_torn_last_entry_is_dropped_and_the_rest_is_there(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "db")
    writer = Writer(store)
    for name in "abc":
        writer.append(name)
    store.sync()
    writer.append("torn", is_applied=False)
    # A copy is what a crash leaves: the store itself would write everything at its close.
    crashed = tmp_path / "crashed"
    shutil.copytree(tmp_path / "db", crashed)
    store.close()
    log = max(crashed.glob("*.log"))
    log.write_bytes(log.read_bytes()[:-5])

    again = RocksStore(crashed)

    assert names(again) == ["a", "b", "c"]
    assert ShardFile(again, SHARD).tip.index == 3
    Writer(again).append("d")
    assert names(again) == ["a", "b", "c", "d"]
    again.close()
