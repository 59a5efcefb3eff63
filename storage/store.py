"""The interface of storage: ordered bytes in families, and their durability.

A store does not interpret its data. These are the rules for every implementation:

- Keys of a family are ordered as raw bytes; ranges are half-open, ``[start, end)``.
- A batch is atomic: after any crash, either all of it is there or none.
- A written batch is visible at once and survives the end of the process; it survives power loss
  only once a `Store.sync` that began after it has returned. Batches are lost from the newest
  backwards: all batches up to some ticket remain, without a gap.
- Only the event loop's thread reads and writes; only `Store.sync` may be called from another
  thread, and it may run at the same time.
- After any error but `StoreStalled` the store is unusable: every later call raises `StoreFailed`
  until it is opened again. After a failed fsync it is unknown what is on disk (PROTOCOL R25).
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import NewType, Protocol

from rota.core.errors import RotaError

Ticket = NewType("Ticket", int)
"""A number that grows with every batch; a sync covers all batches up to a ticket."""


class Family(IntEnum):
    """A separate key space within a store.

    It is an integer, so that it can index a list on the hot path; the disk has its name.
    """

    JOURNAL = 0
    STATE = 1
    TIMER = 2
    HIST = 3
    META = 4


class StoreError(RotaError):
    """The store refused an operation; the text states the error, its place and the remedy."""

    code = "store_error"


class StoreFull(StoreError):
    """There is no space left for the store."""

    code = "store_full"


class StoreFailed(StoreError):
    """A write or sync failed, or the store failed or was closed before; it is unusable."""

    code = "store_failed"


class StoreStalled(StoreError):
    """The disk is too slow for the writes so far; nothing was written, and the store is usable.

    A bulk writer may outrun a disk: it waits and builds its batch again. For other writers this is
    a sign of a failing disk, to be treated like any other error.
    """

    code = "store_stalled"


class StoreDamaged(StoreError):
    """The data on disk is not what was written."""

    code = "store_damaged"


class StoreLocked(StoreError):
    """Another process uses the store."""

    code = "store_locked"


class StoreTooNew(StoreError):
    """A newer version of rota wrote the store."""

    code = "store_too_new"


class StoreMismatch(StoreError):
    """The store has other data than was requested."""

    code = "store_mismatch"


class Batch(Protocol):
    """Changes that are applied together; later changes in a batch override earlier ones.

    A batch is created by `Store.batch` and written once, by the store that created it.
    """

    def put(self, family: Family, key: bytes, value: bytes) -> None:
        """Set *key* to *value*; either may be empty."""
        ...

    def delete(self, family: Family, key: bytes) -> None:
        """Delete *key*, if it exists."""
        ...

    def delete_range(self, family: Family, start: bytes, end: bytes) -> None:
        """Delete every key in ``[start, end)``; *start* is not after *end*."""
        ...


class Store(Protocol):
    """Ordered, durable bytes; see the module for the rules."""

    def batch(self) -> Batch:
        """Return a new empty batch for this store."""
        ...

    def get(self, family: Family, key: bytes) -> bytes | None:
        """Return the value of *key*, or None.

        Raises:
            StoreDamaged: The data on disk is not what was written.
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

        The order is ascending or, with *reverse*, descending from the last key before *end*. Later
        writes do not change the result of an open scan. A scan retains old data (and the lock of a
        closed store) until it is exhausted or dropped, so only a `rota.storage.row_scan.RowScan`,
        which is closed before the store, keeps a scan across an await.

        A scan that begins at deleted keys is slow, because it passes each of them again: start at
        the first key known to exist.

        Raises:
            StoreDamaged: The data on disk is not what was written. This is raised while iterating;
                damage never ends a scan early without it.
        """
        ...

    def write(self, batch: Batch) -> Ticket:
        """Make *batch* visible, atomically, and return its ticket; it is not durable yet.

        For an empty batch, this is the ticket of the one before. A write never waits for the disk.

        Raises:
            StoreStalled: The disk is too far behind; the only error that leaves the store usable.
            StoreFull: No space is left.
            StoreFailed: The disk refused the write. After any of these errors, nothing of *batch*
                is visible.
        """
        ...

    def sync(self) -> Ticket:
        """Make everything written before this call durable; return the newest ticket covered.

        This blocks for as long as the disk takes, so it is called in a separate thread. Only one
        sync may run at a time.

        Raises:
            StoreFailed: The sync failed; it is unknown which writes are durable.
        """
        ...

    def close(self) -> None:
        """Sync, unless the store has failed, and release it. Idempotent; raises as `sync` does."""
        ...

    def size_bytes(self) -> int:
        """Return the approximate size of the store in bytes, fast enough for a metric."""
        ...
