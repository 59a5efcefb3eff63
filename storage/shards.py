"""One shard in a store: the keys and values of its journal, state and history.

    META     s:shard                    header: identity of the copy, start of its journal
    META     c:shard                    newest configuration read from the coordinator
    JOURNAL  shard index                an entry (rota.core.vocabulary.journal)
    STATE    shard table key            a record
    HIST     shard table key            a record of a table from Table.HISTORY on
    TIMER    shard due command          a timer too far away for the wheel

Shards are two bytes, tables one, indices and instants eight, all big-endian, so keys sort by these
values. A row is an item of STATE or HIST: a table, a key and a record. An entry is appended and
made durable by the group commit. Only after it is committed are its changes applied to the rows, in
one batch with the header. So after a crash the rows are those after the entry that the header
names.
"""

from collections.abc import Iterable, Iterator

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.model.ids import AllocationId, Epoch, Index, ShardId
from rota.core.replication.local_copy import (
    AppendEntry,
    Clear,
    CutAfter,
    PutHeader,
    PutRows,
    PutSeen,
    Rows,
    Stored,
    Write,
)
from rota.core.timing.instants import Instant
from rota.core.vocabulary.changes import Change, Record, Table
from rota.core.vocabulary.codec import RawChange, Undecodable, decode_record
from rota.core.vocabulary.journal import ORIGIN, DamagedEntry, Tip, decode_entry, follow, hash_of
from rota.core.vocabulary.shard_configuration import Configuration
from rota.storage.store import Batch, Family, Store, StoreDamaged

JOURNAL_KEPT = 1_000
"""The number of entries kept after they are applied, for a replica that was briefly unreachable."""


_HEADER = b"s:"
_SEEN = b"c:"


class ShardHeader(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The header of a shard's copy: identity, start of the journal, progress of the rows.

    Attributes:
        first: Index of the oldest entry kept.
        before_first: Epoch, instant and hash of the entry before *first*, where the chain begins.
        applied: Index of the last entry whose changes are in the rows.
        epoch: The highest promised epoch (PROTOCOL R2).
        allocation: Identifies the copy; empty while it is incomplete.
    """

    first: Index
    before_first: tuple[Epoch, Instant, bytes]
    applied: Index
    epoch: Epoch = Epoch(0)
    allocation: AllocationId = AllocationId("")


_EMPTY = ShardHeader(
    first=Index(1), before_first=(Epoch(0), Instant(0), ORIGIN.hash), applied=Index(0)
)
_header_decoder = msgspec.msgpack.Decoder(ShardHeader)
_seen_decoder = msgspec.msgpack.Decoder(Configuration)


class ShardFile:
    """One shard of a store; a `rota.core.replication.local_copy.Storage`.

    Attributes:
        tip: The end of the journal when it was opened.

    Raises:
        StoreDamaged: The header or the journal is damaged. `stored` raises it if the configuration
            is damaged.
    """

    def __init__(self, store: Store, shard: ShardId) -> None:
        self.shard = shard
        self._store = store
        self._prefix = shard_prefix(shard)
        self._header_key = _HEADER + self._prefix
        value = store.get(Family.META, self._header_key)
        self._header = _EMPTY if value is None else self._decoded(value)
        self._seen_key = _SEEN + self._prefix
        self.tip = self._read_journal()

    # -- reads of a replica ---------------------------------------------------------------------

    def stored(self) -> Stored:
        """Return the stored form of the copy at the time of opening."""
        return Stored(
            # The promised epoch is at least that of the last entry.
            epoch=max(self._header.epoch, self.tip.epoch),
            allocation=self._header.allocation or None,
            before_first=self.before_first,
            tip=self.tip,
            committed=self._header.applied,
            seen=self._read_seen(),
        )

    @property
    def before_first(self) -> Tip:
        """The entry before the oldest one kept."""
        epoch, at, before = self._header.before_first
        return Tip(epoch, Index(self._header.first - 1), at, before)

    @property
    def applied(self) -> Index:
        """Index of the last entry whose changes are in the rows."""
        return self._header.applied

    def entry(self, index: Index) -> bytes:
        """Return an entry as it is stored; the journal must contain an entry with *index*."""
        value = self._store.get(Family.JOURNAL, self._journal_key(index))
        assert value is not None, (self.shard, index, self._header)
        return value

    def rows(self, after: bytes | None, size_max: int) -> Rows:
        """Return rows with keys after *after*, about *size_max* bytes and at least one row."""
        rows: list[tuple[bytes, bytes]] = []
        size = 0
        start = self._prefix if after is None else self._prefix + after + b"\0"
        for family in (Family.STATE, Family.HIST):
            # The tables of HIST follow those of STATE, so both are one range of keys.
            for key, value in self._store.scan(family, start, _after(self._prefix)):
                if size >= size_max:
                    return Rows(tuple(rows), is_last=False)
                rows.append((key[2:], value))
                size += len(key) + len(value)
        return Rows(tuple(rows), is_last=True)

    # -- writes of a replica --------------------------------------------------------------------

    def write(self, batch: Batch, writes: Iterable[Write]) -> int:
        """Add the writes of a replica to *batch*; return their size in bytes."""
        size = 0
        for write in writes:
            match write:
                case AppendEntry(index=index, value=value):
                    size += len(value)
                    batch.put(Family.JOURNAL, self._journal_key(index), value)
                case CutAfter(index=index):
                    start = self._journal_key(Index(index + 1))
                    batch.delete_range(Family.JOURNAL, start, _after(self._prefix))
                case Clear():
                    for family in (Family.JOURNAL, Family.STATE, Family.HIST):
                        batch.delete_range(family, self._prefix, _after(self._prefix))
                    self._header = _EMPTY
                case PutRows(rows=rows):
                    for key, value in rows:
                        size += len(key) + len(value)
                        batch.put(_family_of(key[0]), self._prefix + key, value)
                case PutHeader():
                    self._put_header(batch, write)
                case PutSeen(configuration=configuration):
                    value = msgspec.msgpack.encode(configuration)
                    batch.put(Family.META, self._seen_key, value)
        return size

    def apply(
        self,
        batch: Batch,
        index: Index,
        changes: Iterable[RawChange],
        needed_from: Index | None = None,
    ) -> None:
        """Add the changes of the committed entry *index* to *batch*, and trim the journal.

        Args:
            batch: The batch, to be written at once.
            index: The index after `applied`.
            changes: The changes of the entry.
            needed_from: The first entry that another copy may still need; it and all later ones are
                kept.
        """
        for number, key, value in changes:
            full_key = self._prefix + bytes((number,)) + key.encode()
            if value is None:
                batch.delete(_family_of(number), full_key)
            else:
                batch.put(_family_of(number), full_key, value)
        self._header = msgspec.structs.replace(self._header, applied=index)
        if index - self._header.first >= 2 * JOURNAL_KEPT:
            first = Index(index - JOURNAL_KEPT)
            self._trim(batch, first if needed_from is None else min(first, needed_from))
        batch.put(Family.META, self._header_key, msgspec.msgpack.encode(self._header))

    def changes(self) -> Iterator[Change]:
        """Yield the state as changes, table by table."""
        for table in Table:
            if table < Table.HISTORY:
                yield from self.records(table)

    def journal(self) -> Iterator[tuple[Index, bytes]]:
        """Yield the kept entries, oldest first, as stored."""
        # Start at the first index of the header: a scan of trimmed entries would read tombstones.
        start, end = self._journal_key(self._header.first), _after(self._prefix)
        for key, value in self._store.scan(Family.JOURNAL, start, end):
            yield Index(int.from_bytes(key[2:], "big")), value

    def record(self, table: Table, key: str) -> Record | None:
        """Return a record of the state, as applied; None if there is none."""
        value = self._store.get(Family.STATE, self._prefix + bytes((table,)) + key.encode())
        return None if value is None else decode_record(table, value)

    def records(self, table: Table) -> Iterator[Change]:
        """Yield the records of a table of the state, as applied, in the order of their keys.

        Raises:
            Undecodable: A record cannot be read; the error has its key.
        """
        prefix = self._prefix + bytes((table,))
        for full_key, value in self._store.scan(Family.STATE, prefix, _after(prefix)):
            key = full_key[len(prefix) :].decode()
            try:
                record = decode_record(table, value)
            except Undecodable as error:
                raise Undecodable(f"shard {self.shard}, {key}: {error}") from error
            yield Change(table, key, record)

    def _decoded(self, header: bytes) -> ShardHeader:
        try:
            return _header_decoder.decode(header)
        except UNDECODABLE as error:
            raise self._damaged(f"its header cannot be read: {error}") from error

    def _read_seen(self) -> Configuration | None:
        value = self._store.get(Family.META, self._seen_key)
        if value is None:
            return None
        try:
            return _seen_decoder.decode(value)
        except UNDECODABLE as error:
            raise self._damaged(f"the configuration seen last cannot be read: {error}") from error

    def _read_journal(self) -> Tip:
        tip = self.before_first
        for index, value in self.journal():
            try:
                _, tip = follow(tip, value)
            except DamagedEntry as error:
                raise self._damaged(f"journal entry {index} {error}") from error
        if tip.index < self._header.applied:
            raise self._damaged(
                f"the journal ends at entry {tip.index}, but entries up to {self._header.applied} "
                "were applied"
            )
        return tip

    def _put_header(self, batch: Batch, write: PutHeader) -> None:
        self._header = msgspec.structs.replace(
            self._header, epoch=write.epoch, allocation=write.allocation or AllocationId("")
        )
        if write.base is not None:
            base = write.base
            self._header = msgspec.structs.replace(
                self._header,
                first=Index(base.index + 1),
                before_first=(base.epoch, base.at, base.hash),
                applied=base.index,
            )
        batch.put(Family.META, self._header_key, msgspec.msgpack.encode(self._header))

    def _trim(self, batch: Batch, first: Index) -> None:
        if first <= self._header.first:
            return
        before = self._store.get(Family.JOURNAL, self._journal_key(Index(first - 1)))
        assert before is not None, (self.shard, first)
        entry = decode_entry(before)
        batch.delete_range(
            Family.JOURNAL, self._journal_key(self._header.first), self._journal_key(first)
        )
        before_first = (entry.epoch, entry.at, hash_of(before))
        self._header = msgspec.structs.replace(self._header, first=first, before_first=before_first)

    def _journal_key(self, index: Index) -> bytes:
        return self._prefix + index.to_bytes(8, "big")

    def _damaged(self, what: str) -> StoreDamaged:
        return StoreDamaged(
            f"shard {self.shard}: {what}. The data directory cannot be trusted: restore it from a "
            "backup, or move it away to begin with an empty one"
        )


def stored_shards(store: Store, first: ShardId) -> list[ShardId]:
    """Return the numbers of the shards that have data in *store*, from *first* upwards."""
    start, end = _HEADER + shard_prefix(first), _after(_HEADER)
    return [
        ShardId(int.from_bytes(key[len(_HEADER) :], "big"))
        for key, _ in store.scan(Family.META, start, end)
    ]


def shard_prefix(shard: ShardId) -> bytes:
    """Return the prefix of every key of *shard*."""
    return shard.to_bytes(2, "big")


def _family_of(table: int) -> Family:
    return Family.STATE if table < Table.HISTORY else Family.HIST


def _after(prefix: bytes) -> bytes:
    """Return the first key that sorts after every key with *prefix*."""
    return (int.from_bytes(prefix, "big") + 1).to_bytes(len(prefix), "big")
