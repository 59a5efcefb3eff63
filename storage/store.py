"""The seam to what a node keeps on disk: ordered bytes in families, and when they are durable.

A store knows nothing of jobs. The rules that every implementation keeps:

- Keys of a family are ordered as raw bytes; ranges are half-open, ``[start, end)``.
- A batch is atomic: after any crash all of it is there, or none of it.
- A written batch is visible at once and survives the death of the process; it survives power
  loss only once a `Store.sync` that began after it has returned. Batches are lost from the newest
  backwards: what remains is what was written up to some ticket, with no hole.
- Reading and writing belong to one thread, the event loop's; only `Store.sync` may be called
  from another, and it may run at the same time.
- After any error but `StoreStalled` the store is finished: every later call raises `StoreFailed`
  until it is opened anew. A database whose fsync failed once no longer knows what is on disk
  (PROTOCOL R25).
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import NewType, Protocol

from rota.core.errors import RotaError

Ticket = NewType("Ticket", int)
"""How much has been written: grows with every batch; a sync covers all tickets up to one."""


class Family(IntEnum):
    """A key space of its own within a store.

    An integer, so that it indexes a list on the hot path; what is on disk is the name.
    """

    JOURNAL = 0
    STATE = 1
    TIMER = 2
    HIST = 3
    META = 4


class StoreError(RotaError):
    """The store cannot do what was asked; ``str`` says what, where and what to do."""

    code = "store_error"


class StoreFull(StoreError):
    """There is no space left for the store."""

    code = "store_full"


class StoreFailed(StoreError):
    """A write or sync failed, or the store failed or was closed before; do not use it again."""

    code = "store_failed"


class StoreStalled(StoreError):
    """The disk is behind with what was written before; the store is well, and nothing was written.

    Only a bulk writer outruns a disk: it waits and makes its batch anew. Elsewhere it is a sign of
    a failing disk, and as good a reason to give up as any other error.
    """

    code = "store_stalled"


class StoreDamaged(StoreError):
    """What is on disk is not what was written."""

    code = "store_damaged"


class StoreLocked(StoreError):
    """Another process uses it."""

    code = "store_locked"


class StoreTooNew(StoreError):
    """A newer rota wrote it."""

    code = "store_too_new"


class StoreMismatch(StoreError):
    """It holds something else than was asked for."""

    code = "store_mismatch"


class Batch(Protocol):
    """Changes that happen together. Later ones win over earlier ones in the same batch.

    Made by `Store.batch` and written once, by the store that made it; never reused.
    """

    def put(self, family: Family, key: bytes, value: bytes) -> None:
        """Set *key* to *value*; either may be empty."""
        ...

    def delete(self, family: Family, key: bytes) -> None:
        """Remove *key*, if it is there."""
        ...

    def delete_range(self, family: Family, start: bytes, end: bytes) -> None:
        """Remove every key in ``[start, end)``; *start* is not after *end*."""
        ...


class Store(Protocol):
    """Ordered bytes that survive; see the module for the rules."""

    def batch(self) -> Batch:
        """Return a new empty batch for this store."""
        ...

    def get(self, family: Family, key: bytes) -> bytes | None:
        """Return the value of *key*, or None.

        Raises:
            StoreDamaged: it cannot be read back as it was written.
        """
        ...

    def scan(
        self,
        family: Family,
        start: bytes,
        end: bytes,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[tuple[bytes, bytes]]:
        """Return the pairs with keys in ``[start, end)`` as they are now, at most *limit*.

        Ascending, or descending from the last one before *end* if *reverse*. Later writes do not
        change what an open scan yields. It holds on to old data (and to the lock of a closed
        store) until it is exhausted or dropped, so only a `rota.storage.row_scan.RowScan`, which
        is closed before the store, keeps one across an await.

        A range whose front was deleted is slow to scan from that front, because every deleted
        key is passed over again: start at the first key known to be there.

        Raises:
            StoreDamaged: while iterating: never does a scan end early without a word.
        """
        ...

    def write(self, batch: Batch) -> Ticket:
        """Make *batch* visible, atomically, and return its ticket; it is not durable yet.

        An empty batch returns the ticket of the one before. Never waits for the disk.

        Raises:
            StoreStalled: the disk is too far behind; the only error a store survives.
            StoreFull: no space left.
            StoreFailed: the disk refused. As with the others, nothing of *batch* is visible.
        """
        ...

    def sync(self) -> Ticket:
        """Make everything written before this call durable; return the newest ticket covered.

        Blocks for as long as the disk takes, so it is called in a thread of its own. One sync at
        a time.

        Raises:
            StoreFailed: what is durable is unknown now.
        """
        ...

    def close(self) -> None:
        """Sync, unless the store has failed, and release it. Idempotent; raises as `sync` does."""
        ...

    def size_bytes(self) -> int:
        """Return roughly how much the store holds, in bytes; cheap enough for a metric."""
        ...
