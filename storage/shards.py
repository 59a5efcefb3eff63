"""One shard in a store: its journal, its state, its history, and how they are found again.

    META     s:shard                    header: where the journal begins, what is applied
    JOURNAL  shard index                an entry (rota.core.journal)
    STATE    shard table key            a record
    HIST     shard table key            a record of a table from Table.HISTORY on
    TIMER    shard due command          a timer too far away for the wheel

Shards are two bytes, tables one, indices and instants eight, all big-endian, so keys sort as what
they mean. An entry is appended, made durable by the group commit, and only then applied: state
and header go in one batch, and what was not yet applied at a crash is applied again from the
journal.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from rota.core.changes import Change, Table
from rota.core.codec import RawChange, decode_body, decode_record
from rota.core.ids import Epoch, Index, ShardId
from rota.core.instants import Instant
from rota.core.journal import ORIGIN, DamagedEntry, Tip, decode_entry, follow, hash_of
from rota.storage.store import Batch, Family, Store, StoreDamaged

JOURNAL_KEPT = 1_000
"""Entries that stay after they are applied: what a replica that was away briefly may need."""


class Header(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Where a shard's journal begins, and how far the state has come.

    Attributes:
        first: Index of the oldest entry kept.
        before_first: The tip before it, for the chain to begin with: epoch, instant, hash.
        applied: Index of the last entry that is part of the state.
    """

    first: Index
    before_first: tuple[Epoch, Instant, bytes]
    applied: Index


_EMPTY = Header(first=Index(1), before_first=(Epoch(0), Instant(0), ORIGIN.hash), applied=Index(0))
_header_decoder = msgspec.msgpack.Decoder(Header)


@dataclass(slots=True)
class _Entries:
    tip: Tip
    unapplied: list[tuple[Index, tuple[RawChange, ...]]]


class ShardFile:
    """One shard of a store.

    Raises:
        StoreDamaged: At construction, if the journal is not whole; it says where.
    """

    def __init__(self, store: Store, shard: ShardId) -> None:
        self.shard = shard
        self._store = store
        self._prefix = shard_prefix(shard)
        self._header_key = b"s:" + self._prefix
        value = store.get(Family.META, self._header_key)
        self._header = _EMPTY if value is None else _header_decoder.decode(value)
        entries = self._read_journal()
        self.tip = entries.tip
        """Where the journal ended when it was opened."""
        self._apply_again(entries)

    def append(self, batch: Batch, index: Index, value: bytes) -> None:
        """Add an encoded entry to *batch*."""
        batch.put(Family.JOURNAL, self._journal_key(index), value)

    def apply(self, batch: Batch, index: Index, changes: Iterable[RawChange]) -> None:
        """Add to *batch* what the committed entry *index* changes, and trim the journal."""
        for number, key, value in changes:
            family = Family.STATE if number < Table.HISTORY else Family.HIST
            full_key = self._prefix + bytes((number,)) + key.encode()
            if value is None:
                batch.delete(family, full_key)
            else:
                batch.put(family, full_key, value)
        self._header = msgspec.structs.replace(self._header, applied=index)
        if index - self._header.first >= 2 * JOURNAL_KEPT:
            self._trim(batch, Index(index - JOURNAL_KEPT))
        batch.put(Family.META, self._header_key, msgspec.msgpack.encode(self._header))

    def changes(self) -> Iterator[Change]:
        """Yield the state as the changes that make it, table by table."""
        for table in Table:
            if table < Table.HISTORY:
                yield from self._records(table)

    def journal(self) -> Iterator[tuple[Index, bytes]]:
        """Yield the entries that are kept, oldest first, as stored."""
        # From the remembered first index: iterating over trimmed entries costs their tombstones.
        start, end = self._journal_key(self._header.first), _after(self._prefix)
        for key, value in self._store.scan(Family.JOURNAL, start, end):
            yield Index(int.from_bytes(key[2:], "big")), value

    def _records(self, table: Table) -> Iterator[Change]:
        prefix = self._prefix + bytes((table,))
        for key, value in self._store.scan(Family.STATE, prefix, _after(prefix)):
            yield Change(table, key[len(prefix) :].decode(), decode_record(table, value))

    def _read_journal(self) -> _Entries:
        header = self._header
        epoch, at, before = header.before_first
        found = _Entries(Tip(epoch, Index(header.first - 1), at, before), [])
        for index, value in self.journal():
            try:
                entry, found.tip = follow(found.tip, value)
            except DamagedEntry as error:
                raise self._damaged(f"journal entry {index} {error}") from error
            if index > header.applied:
                found.unapplied.append((index, decode_body(entry.body)[1]))
        if found.tip.index < header.applied:
            raise self._damaged(
                f"the journal ends at entry {found.tip.index}, but entries up to {header.applied} "
                "were applied"
            )
        return found

    def _apply_again(self, entries: _Entries) -> None:
        if not entries.unapplied:
            return
        batch = self._store.batch()
        for index, changes in entries.unapplied:
            self.apply(batch, index, changes)
        self._store.write(batch)

    def _trim(self, batch: Batch, first: Index) -> None:
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


def shard_prefix(shard: ShardId) -> bytes:
    """Return what every key of *shard* begins with."""
    return shard.to_bytes(2, "big")


def _after(prefix: bytes) -> bytes:
    """Return the first key that sorts after every key with *prefix*."""
    return (int.from_bytes(prefix, "big") + 1).to_bytes(len(prefix), "big")
