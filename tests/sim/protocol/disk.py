"""A disk for one replica: what is written is visible at once, and durable after a sync.

A crash leaves what was synced and, by chance, some of what was written after it, in order.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from rota.core.model.ids import AllocationId, Epoch, Index
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
from rota.core.vocabulary.journal import ORIGIN, Tip, decode_entry, hash_of
from rota.core.vocabulary.shard_configuration import Configuration


@dataclass(frozen=True, slots=True)
class Apply:
    """The rows that a committed entry puts or deletes; and up to where entries may be dropped."""

    index: Index
    rows: tuple[tuple[bytes, bytes | None], ...]
    trim_to: Index


Operation = Write | Apply


@dataclass(slots=True)
class Image:
    """The content of a disk."""

    epoch: Epoch = Epoch(0)
    allocation: AllocationId | None = None
    before_first: Tip = ORIGIN
    applied: Index = Index(0)
    entries: dict[int, bytes] = field(default_factory=dict[int, bytes])
    rows: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    seen: Configuration | None = None

    def copy(self) -> "Image":
        """Return an image that changes independently."""
        return Image(
            self.epoch,
            self.allocation,
            self.before_first,
            self.applied,
            dict(self.entries),
            dict(self.rows),
            self.seen,
        )

    @property
    def last(self) -> int:
        """Index of the last entry."""
        return self.before_first.index + len(self.entries)

    def tip(self) -> Tip:
        """Return where the journal ends."""
        return self.tip_at(self.last)

    def tip_at(self, index: int) -> Tip:
        """Return the tip as it was after *index*."""
        if index == self.before_first.index:
            return self.before_first
        value = self.entries[index]
        entry = decode_entry(value)
        return Tip(entry.epoch, entry.index, entry.at, hash_of(value))

    def apply(self, operation: Operation) -> None:
        """Change the content."""
        match operation:
            case AppendEntry(index=index, value=value):
                assert index == self.last + 1, (index, self.last)
                self.entries[index] = value
            case CutAfter(index=index):
                for number in range(index + 1, self.last + 1):
                    del self.entries[number]
            case Clear():
                self.entries.clear()
                self.rows.clear()
                self.before_first, self.applied = ORIGIN, Index(0)
            case PutRows(rows=rows):
                self.rows.update(rows)
            case PutHeader(epoch=epoch, allocation=allocation, base=base):
                self.epoch, self.allocation = epoch, allocation
                if base is not None:
                    self.before_first = Tip(base.epoch, base.index, base.at, base.hash)
                    self.applied = base.index
            case PutSeen(configuration=configuration):
                self.seen = configuration
            case Apply(index=index, rows=changed, trim_to=trim_to):
                for key, row in changed:
                    if row is None:
                        self.rows.pop(key, None)
                    else:
                        self.rows[key] = row
                self.applied = index
                if trim_to > self.before_first.index:
                    tip = self.tip_at(trim_to)
                    for number in range(self.before_first.index + 1, trim_to + 1):
                        del self.entries[number]
                    self.before_first = tip

    def stored(self) -> Stored:
        """Return the copy that a replica loads at its start."""
        return Stored(
            epoch=self.epoch,
            allocation=self.allocation,
            before_first=self.before_first,
            tip=self.tip(),
            committed=self.applied,
            seen=self.seen,
        )


class Disk:
    """One replica's disk; a `rota.core.replication.local_copy.Storage`."""

    def __init__(self) -> None:
        self.now = Image()
        self.durable = Image()
        self._unsynced: list[tuple[Operation, ...]] = []

    def write(self, operations: tuple[Operation, ...]) -> None:
        """Write a batch, visibly but not durably."""
        for operation in operations:
            self.now.apply(operation)
        self._unsynced.append(operations)

    @property
    def written(self) -> int:
        """Number of batches that are not durable yet."""
        return len(self._unsynced)

    def sync(self, count: int) -> None:
        """Make the oldest *count* of these batches durable."""
        for operations in self._unsynced[:count]:
            for operation in operations:
                self.durable.apply(operation)
        del self._unsynced[:count]

    def crash(self, chance: Callable[[int], int]) -> None:
        """Lose the writes that were not synced, except a random prefix."""
        self.sync(chance(len(self._unsynced) + 1))
        self._unsynced.clear()
        self.now = self.durable.copy()

    def wipe(self) -> None:
        """Lose everything."""
        self.now, self.durable = Image(), Image()
        self._unsynced.clear()

    # -- Storage --------------------------------------------------------------------------------

    @property
    def applied(self) -> Index:
        """Index of the last entry whose rows are here."""
        return self.now.applied

    def entry(self, index: Index) -> bytes:
        """Return a stored entry."""
        return self.now.entries[index]

    def rows(self, after: bytes | None, size_max: int) -> Rows:
        """Return few rows at a time, so that snapshots have several parts."""
        del size_max
        keys = sorted(key for key in self.now.rows if after is None or key > after)
        chosen = keys[:3]
        rows = tuple((key, self.now.rows[key]) for key in chosen)
        return Rows(rows, is_last=len(keys) <= 3)
