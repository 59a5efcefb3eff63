"""A node's own copy of a shard: its journal, what of it is durable, what of it is committed.

Both roles have one. It decides nothing; it keeps what PROTOCOL I4 demands: epoch, committed and
durable never go back while the copy lives, and nothing committed is ever cut away.
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
"""Entries kept in memory beyond those not yet committed; older ones are read from the storage.

As many as may be on their way to a backup, so that one which missed a few costs no reading.
"""


# -- what the storage is asked to do, in this order ------------------------------------------------


class AppendEntry(msgspec.Struct, frozen=True):
    """Store an entry."""

    index: Index
    value: bytes


@dataclass(frozen=True, slots=True)
class CutAfter:
    """Remove all entries after *index*: they were never committed."""

    index: Index


@dataclass(frozen=True, slots=True)
class Clear:
    """Remove everything of the shard: another copy begins."""


@dataclass(frozen=True, slots=True)
class PutRows:
    """Store rows of a snapshot; keys are without the shard."""

    rows: tuple[tuple[bytes, bytes], ...]


class PutHeader(msgspec.Struct, frozen=True):
    """Store what the copy is.

    Attributes:
        epoch: The highest promised.
        allocation: None while the copy is not whole.
        base: Given when the copy has just become whole: the entry that its journal follows, and
            up to which its rows are.
    """

    epoch: Epoch
    allocation: AllocationId | None
    base: Base | None = None


class PutSeen(msgspec.Struct, frozen=True):
    """Store the newest configuration of the shard that the coordinator was seen to have."""

    configuration: Configuration


Write = AppendEntry | CutAfter | Clear | PutRows | PutHeader | PutSeen


@dataclass(frozen=True, slots=True)
class Rows:
    """A piece of a shard's rows.

    Attributes:
        rows: Keys, without the shard, and values, in order of key.
        is_last: Whether there are none after them.
    """

    rows: tuple[tuple[bytes, bytes], ...]
    is_last: bool


class Storage(Protocol):
    """What a replica reads of its node's store: all that `Ready.writes` had so far."""

    @property
    def applied(self) -> Index:
        """Index of the last entry whose changes the rows have; it may be behind the commit."""
        ...

    def entry(self, index: Index) -> bytes:
        """Return a stored entry, encoded."""
        ...

    def rows(self, after: bytes | None, size_max: int) -> Rows:
        """Return rows whose keys come after *after*, about *size_max* bytes and at least one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What a copy finds of itself when its node starts.

    Attributes:
        before_first: The entry before the oldest one that is kept.
        tip: Where its journal ends.
        committed: Up to where its rows are, and so certainly committed.
        seen: The newest configuration that the coordinator was seen to have; None if it had none.
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
    """The primary has another entry in the place of one that is committed here (R8).

    One of the two copies was set back, or etcd was, and which of them clients were answered from
    cannot be known here: the node ends, and its data stays as it is.
    """

    code = "copy_diverged"

    def __init__(self, index: Index, committed: Index) -> None:
        super().__init__(
            f"the primary has another entry {index} than this copy, which knows all up to "
            f"{committed} to be committed: a disk or etcd was set back. Keep the data directories "
            "of all nodes as they are, and see docs/how-to/operate.md, Copies that differ"
        )


@dataclass(slots=True)
class _Written:
    """What is durable once batch *number* is."""

    number: int
    index: Index
    epoch: Epoch


class LocalCopy:
    """A node's copy of a shard.

    Args:
        stored: What is there already.
        storage: For what is no longer in memory.

    Attributes:
        epoch: The highest promised: no message of a lower one is obeyed (R2).
        allocation: None while there is no whole copy.
        tip: Where the journal ends.
        committed: Index up to which entries are known to be committed.
        durable: Index up to which the journal survives a power loss.
        durable_epoch: The promised epoch that does.
        taken_number: Counts the batches of writes taken.
        durable_number: Up to which of them all is durable.
        seen: The newest configuration that the coordinator was seen to have, also in earlier lives
            and while there is no copy; None if it had none.
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
        """Return the entry *index*, encoded; it is neither before `first` nor after the tip."""
        offset = index - (self.tip.index - len(self._tail) + 1)
        return self._tail[offset] if offset >= 0 else self._storage.entry(index)

    def hash_at(self, index: Index) -> bytes | None:
        """Return the hash of the entry *index*, or None if it is not known any more or yet."""
        if index == self.tip.index:
            return self.tip.hash
        if index == self._before_first.index:
            return self._before_first.hash
        return hash_of(self.entry(index)) if self.first <= index < self.tip.index else None

    def base(self) -> Base:
        """Return the last entry that the rows have, for a snapshot of them to begin with."""
        tip = self._tip_at(self._storage.applied)
        return Base(tip.epoch, tip.index, tip.at, tip.hash)

    def rows(self, after: bytes | None, size_max: int) -> Rows:
        """Return rows as applied by now, which is at or after `base`."""
        return self._storage.rows(after, size_max)

    @property
    def position(self) -> Token:
        """Where an entry of one's own would stand next."""
        return Token(self.epoch, Index(self.tip.index + 1))

    def check_committed(self, index: Index, its_hash: bytes) -> None:
        """Compare a primary's entry with the one here, if that is committed and still known.

        Raises:
            Diverged: They differ.
        """
        if index <= self.committed and self.hash_at(index) not in (None, its_hash):
            raise Diverged(index, self.committed)

    def shard_time(self, wall: Instant) -> Instant:
        """Return the instant of a decision made now: later than every one before (R7)."""
        return max(wall, Instant(self.tip.at + MICROSECOND))

    # -- writing --------------------------------------------------------------------------------

    def promise(self, epoch: Epoch) -> None:
        """Obey no lower epoch from now on (R2)."""
        assert epoch >= self.epoch, (epoch, self.epoch)
        if epoch > self.epoch:
            self.epoch = epoch
            self._writes.append(PutHeader(epoch, self.allocation))

    def see(self, configuration: Configuration) -> None:
        """Note that the coordinator has *configuration*; older ones change nothing.

        It is written before any promise under it, so a promise that is durable here implies that
        its configuration is, unless the promise is of a version that kept none.
        """
        if self.seen is None or configuration.epoch > self.seen.epoch:
            self.seen = configuration
            self._writes.append(PutSeen(configuration))

    def append(self, body: bytes, at: Instant, kind: EntryKind) -> int:
        """Add an entry of one's own as a primary, stamped with the epoch; return its size (R7)."""
        index = Index(self.tip.index + 1)
        value = encode_entry(Entry(kind, self.epoch, index, at, self.tip.hash, body))
        self._add(value, Tip(self.epoch, index, at, hash_of(value)))
        return len(value)

    def accept(self, value: bytes) -> None:
        """Add the primary's next entry, which must follow the tip.

        Raises:
            DamagedEntry: It does not.
        """
        _, tip = follow(self.tip, value)
        self._add(value, tip)

    def cut_after(self, index: Index) -> None:
        """Remove what comes after *index*, which an earlier primary never committed (R8)."""
        assert index >= self.committed, f"entry {index + 1} is committed, and was to be cut away"
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
        """Give up what is here: a copy from a snapshot comes in its place."""
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
        """Be the copy *allocation* from now on, made by a snapshot that began at *base*."""
        self.allocation = allocation
        self.tip = self._before_first = Tip(base.epoch, base.index, base.at, base.hash)
        self.committed = base.index
        self._writes.append(PutHeader(self.epoch, allocation, base))

    def commit(self, index: Index) -> None:
        """Note that all up to *index* is committed."""
        assert self.committed <= index <= self.tip.index, (self.committed, index, self.tip.index)
        self.committed = index

    def trimmed(self, before_first: Tip) -> None:
        """Note that the storage dropped all entries up to *before_first*, which are applied."""
        assert self._before_first.index <= before_first.index <= self.committed
        self._before_first = before_first

    # -- durability -----------------------------------------------------------------------------

    @property
    def next_number(self) -> int:
        """The batch after which all that was written until now is durable."""
        return self.taken_number + bool(self._writes)

    def take_writes(self) -> tuple[Write, ...]:
        """Return what is to be written since the last call, in order: one batch."""
        # What is returned here is applied before it is written, so it stays until the next call.
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
        """Note that the batches up to *number* survive a power loss now."""
        self.durable_number = max(self.durable_number, number)
        while self._written and self._written[0].number <= number:
            written = self._written.popleft()
            self.durable, self.durable_epoch = written.index, written.epoch

    @property
    def has_applied_all(self) -> bool:
        """Whether the rows have all that is committed."""
        return self._storage.applied == self.committed

    @property
    def is_durable(self) -> bool:
        """Whether all that was written is durable."""
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
