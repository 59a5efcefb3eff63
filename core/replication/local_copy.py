"""A node's own copy of a shard: its journal, and how much of it is durable and committed.

Both roles, primary and backup, use this module. It enforces PROTOCOL I4: epoch, committed and
durable never go back while the copy exists, and committed entries are never cut.
"""

from collections import deque
from dataclasses import dataclass
from typing import Protocol

import msgspec

from rota.core.errors import RotaError
from rota.core.model.attempt import Token
from rota.core.model.ids import AllocationId, Epoch, Index
from rota.core.replication.messages import Base
from rota.core.timing.instants import MICROSECOND, Instant
from rota.core.vocabulary.journal import (
    ORIGIN,
    Entry,
    EntryKind,
    Tip,
    decode_entry,
    encode_entry,
    follow,
    hash_of,
)
from rota.core.vocabulary.shard_configuration import Configuration

TAIL_MAX = 256
"""The number of committed entries kept in memory; older ones are read from the storage.

It is the number of entries that may be on their way to a backup, so that lost entries can be sent
again without reading them.
"""


# -- writes to the storage, carried out in their order ---------------------------------------------


class AppendEntry(msgspec.Struct, frozen=True):
    """Store an entry."""

    index: Index
    value: bytes


@dataclass(frozen=True, slots=True)
class CutAfter:
    """Delete all entries after *index*, which were never committed."""

    index: Index


@dataclass(frozen=True, slots=True)
class Clear:
    """Delete all data of the shard, before another copy begins."""


@dataclass(frozen=True, slots=True)
class PutRows:
    """Store rows of a snapshot; keys are without the shard."""

    rows: tuple[tuple[bytes, bytes], ...]


class PutHeader(msgspec.Struct, frozen=True):
    """Store the header of the copy.

    Attributes:
        epoch: The highest promised epoch.
        allocation: The allocation of the copy; None while the copy is incomplete.
        base: Given when the copy has just become complete: the entry that its journal follows and
            up to which its rows have the changes.
    """

    epoch: Epoch
    allocation: AllocationId | None
    base: Base | None = None


class PutSeen(msgspec.Struct, frozen=True):
    """Store the newest configuration of the shard that was read from the coordinator."""

    configuration: Configuration


Write = AppendEntry | CutAfter | Clear | PutRows | PutHeader | PutSeen


@dataclass(frozen=True, slots=True)
class Rows:
    """Some of a shard's rows.

    Attributes:
        rows: Keys, without the shard, and values, in order of key.
        is_last: Whether no rows follow.
    """

    rows: tuple[tuple[bytes, bytes], ...]
    is_last: bool


class Storage(Protocol):
    """Read access of a replica to its node's store, which has all of `Ready.writes` so far."""

    @property
    def applied(self) -> Index:
        """Index of the last entry whose changes are in the rows; at most the committed index."""
        ...

    def entry(self, index: Index) -> bytes:
        """Return a stored entry, encoded."""
        ...

    def rows(self, after: bytes | None, size_max: int) -> Rows:
        """Return rows with keys after *after*, about *size_max* bytes and at least one row."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The stored form of a copy, read when its node starts.

    Attributes:
        epoch: The highest promised epoch.
        allocation: The allocation of the copy; None if there is no complete copy.
        before_first: The entry before the oldest one that is kept.
        tip: The end of the journal.
        committed: Index up to which the rows have the changes, which are therefore committed.
        seen: The newest configuration that was read from the coordinator; None if there was none.
    """

    epoch: Epoch
    allocation: AllocationId | None
    before_first: Tip
    tip: Tip
    committed: Index
    seen: Configuration | None = None


NOTHING = Stored(
    epoch=Epoch(0), allocation=None, before_first=ORIGIN, tip=ORIGIN, committed=Index(0)
)


class Diverged(RotaError):
    """The primary's entry differs from the committed entry of this copy at the same index (R8).

    One of the two copies, or etcd, was set back. This node cannot determine from which copy clients
    were answered, so the node stops and its data stays unchanged.
    """

    code = "copy_diverged"

    def __init__(self, index: Index, committed: Index) -> None:
        super().__init__(
            f"entry {index} of the primary differs from that of this copy, in which all entries up "
            f"to {committed} are committed: a disk or etcd was set back. Keep the data directories "
            "of all nodes as they are, and see docs/how-to/operate.md, Copies that differ"
        )


@dataclass(slots=True)
class _Written:
    """The index and the epoch that are durable once batch *number* is durable."""

    number: int
    index: Index
    epoch: Epoch


class LocalCopy:
    """A node's copy of a shard.

    Args:
        stored: The data on disk.
        storage: Read access to data that is no longer in memory.

    Attributes:
        epoch: The highest promised epoch: no message of a lower epoch is obeyed (R2).
        allocation: The allocation of the copy; None while there is no complete copy.
        tip: The end of the journal.
        committed: Index up to which entries are known to be committed.
        durable: Index up to which the journal survives a power loss.
        durable_epoch: The promised epoch that survives a power loss.
        taken_number: The number of batches of writes taken so far.
        durable_number: The number of the last durable batch.
        seen: The newest configuration that was read from the coordinator, also before a restart and
            while there is no copy; None if there was none.
    """

    def __init__(self, stored: Stored, storage: Storage) -> None:
        self.epoch = self.durable_epoch = stored.epoch
        self.allocation = stored.allocation
        self.tip = stored.tip
        self.committed = stored.committed
        self.seen = stored.seen
        self.durable = stored.tip.index
        self.taken_number = 0
        self.durable_number = 0
        self._storage = storage
        self._before_first = stored.before_first
        self._tail: deque[bytes] = deque()
        self._writes: list[Write] = []
        self._written: deque[_Written] = deque()

    # -- reading --------------------------------------------------------------------------------

    @property
    def first(self) -> Index:
        """Index of the oldest entry that can be read."""
        return Index(self._before_first.index + 1)

    def entry(self, index: Index) -> bytes:
        """Return the entry *index*, encoded; it must not be before `first` or after the tip."""
        offset = index - (self.tip.index - len(self._tail) + 1)
        return self._tail[offset] if offset >= 0 else self._storage.entry(index)

    def hash_at(self, index: Index) -> bytes | None:
        """Return the hash of the entry *index*; None if it was trimmed or does not exist yet."""
        if index == self.tip.index:
            return self.tip.hash
        if index == self._before_first.index:
            return self._before_first.hash
        return hash_of(self.entry(index)) if self.first <= index < self.tip.index else None

    def base(self) -> Base:
        """Return the last entry whose changes are in the rows, as the base of a snapshot."""
        tip = self._tip_at(self._storage.applied)
        return Base(tip.epoch, tip.index, tip.at, tip.hash)

    def rows(self, after: bytes | None, size_max: int) -> Rows:
        """Return rows as they are now, at or after `base`."""
        return self._storage.rows(after, size_max)

    @property
    def position(self) -> Token:
        """The position of the next entry that this copy appends as a primary."""
        return Token(self.epoch, Index(self.tip.index + 1))

    def check_committed(self, index: Index, its_hash: bytes) -> None:
        """Compare the hash of a primary's entry with that of the committed entry here, if kept.

        Raises:
            Diverged: The hashes differ.
        """
        if index <= self.committed and self.hash_at(index) not in (None, its_hash):
            raise Diverged(index, self.committed)

    def shard_time(self, wall: Instant) -> Instant:
        """Return the shard time of a decision made now, later than all earlier ones (R7)."""
        return max(wall, Instant(self.tip.at + MICROSECOND))

    # -- writing --------------------------------------------------------------------------------

    def promise(self, epoch: Epoch) -> None:
        """Obey no lower epoch from now on (R2)."""
        assert epoch >= self.epoch, (epoch, self.epoch)
        if epoch > self.epoch:
            self.epoch = epoch
            self._writes.append(PutHeader(epoch, self.allocation))

    def save_seen(self, configuration: Configuration) -> None:
        """Store a configuration read from the coordinator; an older one changes nothing.

        It is written before any promise under it. So if a promise is durable, its configuration is
        durable too, unless a version of rota without this record wrote the promise.
        """
        if self.seen is None or configuration.epoch > self.seen.epoch:
            self.seen = configuration
            self._writes.append(PutSeen(configuration))

    def append(self, body: bytes, at: Instant, kind: EntryKind) -> int:
        """Append an entry as a primary, under the promised epoch; return its size in bytes (R7)."""
        index = Index(self.tip.index + 1)
        value = encode_entry(Entry(kind, self.epoch, index, at, self.tip.hash, body))
        self._add(value, Tip(self.epoch, index, at, hash_of(value)))
        return len(value)

    def accept(self, value: bytes) -> None:
        """Append the primary's next entry, which must follow the tip.

        Raises:
            DamagedEntry: The entry is damaged or does not follow.
        """
        _, tip = follow(self.tip, value)
        self._add(value, tip)

    def cut_after(self, index: Index) -> None:
        """Delete the entries after *index*, which were never committed (R8)."""
        assert index >= self.committed, f"entry {index + 1} is committed and must not be cut"
        tip = self._tip_at(index)
        kept = max(0, len(self._tail) - (self.tip.index - index))
        while len(self._tail) > kept:
            self._tail.pop()
        self.tip = tip
        self.durable = min(self.durable, index)
        for written in self._written:
            written.index = min(written.index, index)
        self._writes.append(CutAfter(index))

    def clear(self) -> None:
        """Delete all data, before another copy replaces it."""
        self.allocation = None
        self.tip = self._before_first = ORIGIN
        self.committed = self.durable = Index(0)
        self._tail.clear()
        for written in self._written:
            written.index = Index(0)
        self._writes.append(Clear())
        self._writes.append(PutHeader(self.epoch, None))

    def put_rows(self, rows: tuple[tuple[bytes, bytes], ...]) -> None:
        """Add rows of a snapshot."""
        self._writes.append(PutRows(rows))

    def become_whole(self, allocation: AllocationId, base: Base) -> None:
        """Complete the copy *allocation*, made from a snapshot that began at *base*."""
        self.allocation = allocation
        self.tip = self._before_first = Tip(base.epoch, base.index, base.at, base.hash)
        self.committed = base.index
        self._writes.append(PutHeader(self.epoch, allocation, base))

    def commit(self, index: Index) -> None:
        """Record that all entries up to *index* are committed."""
        assert self.committed <= index <= self.tip.index, (self.committed, index, self.tip.index)
        self.committed = index

    def trimmed(self, before_first: Tip) -> None:
        """Record that the storage deleted the entries up to *before_first*, which are applied."""
        assert self._before_first.index <= before_first.index <= self.committed
        self._before_first = before_first

    # -- durability -----------------------------------------------------------------------------

    @property
    def next_number(self) -> int:
        """The number of the batch that makes all writes until now durable."""
        return self.taken_number + bool(self._writes)

    @property
    def has_writes(self) -> bool:
        """Whether `take_writes` would return any writes."""
        return bool(self._writes)

    def take_writes(self) -> tuple[Write, ...]:
        """Return the writes since the last call, in order, as one batch."""
        # Entries returned here are applied before they are stored, so they stay in memory until
        # the next call.
        kept = max(TAIL_MAX, sum(isinstance(write, AppendEntry) for write in self._writes))
        while len(self._tail) > kept and self.tip.index - len(self._tail) < self.committed:
            self._tail.popleft()
        if not self._writes:
            return ()
        writes, self._writes = tuple(self._writes), []
        self.taken_number += 1
        self._written.append(_Written(self.taken_number, self.tip.index, self.epoch))
        return writes

    def made_durable(self, number: int) -> None:
        """Record that the batches up to *number* survive a power loss."""
        self.durable_number = max(self.durable_number, number)
        while self._written and self._written[0].number <= number:
            written = self._written.popleft()
            self.durable, self.durable_epoch = written.index, written.epoch

    @property
    def has_applied_all(self) -> bool:
        """Whether the rows have the changes of all committed entries."""
        return self._storage.applied == self.committed

    @property
    def is_durable(self) -> bool:
        """Whether all writes are durable."""
        return not self._written and not self._writes

    def _add(self, value: bytes, tip: Tip) -> None:
        self._tail.append(value)
        self.tip = tip
        self._writes.append(AppendEntry(tip.index, value))

    def _tip_at(self, index: Index) -> Tip:
        if index == self.tip.index:
            return self.tip
        if index == self._before_first.index:
            return self._before_first
        value = self.entry(index)
        entry = decode_entry(value)
        return Tip(entry.epoch, index, entry.at, hash_of(value))
