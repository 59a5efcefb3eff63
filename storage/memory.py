"""A store in memory that loses unsynced writes in a crash, for tests and for the simulation.

The store has two images: the data that readers see, and the data that a loss of power would leave.
`MemoryStore.crash` returns a new store with the second image. A test requests faults one at a time;
a fault makes the store unusable, as a fault of a real disk does.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from threading import Lock
from typing import Self

from rota.storage.store import (
    Batch,
    Family,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreStalled,
    Ticket,
)

_Operation = tuple[Family, bytes, bytes | None, bytes | None]
"""Family, key, value (None to delete the key) and, for a range, its end."""

_FIRST_TICKET = Ticket(0)


class MemoryBatch:
    """The batch of a `MemoryStore`: its operations in order."""

    __slots__ = ("operations",)

    def __init__(self) -> None:
        self.operations: list[_Operation] = []

    def put(self, family: Family, key: bytes, value: bytes) -> None:
        """Set *key* to *value*."""
        self.operations.append((family, key, value, None))

    def delete(self, family: Family, key: bytes) -> None:
        """Remove *key*, if it is there."""
        self.operations.append((family, key, None, None))

    def delete_range(self, family: Family, start: bytes, end: bytes) -> None:
        """Remove every key in ``[start, end)``."""
        assert start <= end, (start, end)
        if start < end:
            self.operations.append((family, start, None, end))


class _Image:
    """Sorted keys and their values, for every family."""

    def __init__(self) -> None:
        self.keys: list[list[bytes]] = [[] for _ in Family]
        self.values: list[dict[bytes, bytes]] = [{} for _ in Family]

    def copy(self) -> Self:
        image = type(self)()
        image.keys = [keys.copy() for keys in self.keys]
        image.values = [values.copy() for values in self.values]
        return image

    def apply(self, operations: list[_Operation]) -> None:
        for family, key, value, end in operations:
            if value is not None:
                self._put(family, key, value)
            else:
                self._delete_range(family, key, key + b"\0" if end is None else end)

    def range(self, family: Family, start: bytes, end: bytes) -> list[bytes]:
        keys = self.keys[family]
        return keys[bisect_left(keys, start) : bisect_left(keys, end)]

    def _put(self, family: Family, key: bytes, value: bytes) -> None:
        values = self.values[family]
        if key not in values:
            insort(self.keys[family], key)
        values[key] = value

    def _delete_range(self, family: Family, start: bytes, end: bytes) -> None:
        keys = self.keys[family]
        low, high = bisect_left(keys, start), bisect_left(keys, end)
        for key in keys[low:high]:
            del self.values[family][key]
        del keys[low:high]


class MemoryStore:
    """A `Store` in memory, whose crashes and faults are chosen by the test.

    Attributes:
        is_full: Whether the next write raises `StoreFull`; set by the test.
    """

    def __init__(self, *, image: _Image | None = None, ticket: Ticket = _FIRST_TICKET) -> None:
        self.is_full = False
        self._durable = image or _Image()
        self._visible = self._durable.copy()
        self._unsynced: list[list[_Operation]] = []
        self._ticket = ticket
        self._write_fault: StoreError | None = None
        self._sync_fault: StoreError | None = None
        self._failure: StoreError | None = None
        self._lock = Lock()  # sync may run in another thread while the loop writes.

    # --- the interface ---

    def batch(self) -> MemoryBatch:
        """Return a new empty batch."""
        return MemoryBatch()

    def get(self, family: Family, key: bytes) -> bytes | None:
        """Return the value of *key*, or None."""
        self._check_usable()
        return self._visible.values[family].get(key)

    def scan(
        self,
        family: Family,
        start: bytes,
        end: bytes,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[tuple[bytes, bytes]]:
        """Return the pairs in ``[start, end)`` as they are now; costs O(keys in the range)."""
        self._check_usable()
        keys = self._visible.range(family, start, end)
        if reverse:
            keys.reverse()
        values = self._visible.values[family]
        return self._rows([(key, values[key]) for key in keys[:limit]])

    def write(self, batch: Batch) -> Ticket:
        """Make *batch* visible and return its ticket."""
        assert isinstance(batch, MemoryBatch), f"a {type(batch).__name__} of another store"
        self._check_usable()
        if self.is_full:
            raise self._fail(StoreFull("no space left in the memory store, as the test requested"))
        if self._write_fault:
            fault, self._write_fault = self._write_fault, None
            raise self._fail(fault)
        if batch.operations:
            with self._lock:
                self._visible.apply(batch.operations)
                self._unsynced.append(batch.operations)
                self._ticket = Ticket(self._ticket + 1)
        return self._ticket

    def sync(self) -> Ticket:
        """Move everything written into the image that survives."""
        self._check_usable()
        if self._sync_fault:
            raise self._fail(self._sync_fault)
        with self._lock:
            for operations in self._unsynced:
                self._durable.apply(operations)
            self._unsynced.clear()
            return self._ticket

    def close(self) -> None:
        """Sync, unless the store has failed, and refuse further use."""
        if not self._failure:
            self.sync()
            self._fail(StoreFailed("the memory store is closed"))

    def size_bytes(self) -> int:
        """Return the length of all keys and values in bytes; costs O(number of keys)."""
        self._check_usable()
        return sum(
            len(key) + len(value)
            for values in self._visible.values
            for key, value in values.items()
        )

    # --- for tests only ---

    @property
    def unsynced_count(self) -> int:
        """The number of written batches that a power loss could remove."""
        return len(self._unsynced)

    def crash(self, *, keep: int = 0) -> "MemoryStore":
        """Return the store as it is after a power loss; this one becomes unusable.

        The new store has all synced batches, and the first *keep* of the others: a disk may have
        stored some of them by itself, but never a later one without the earlier ones.
        """
        self._fail(StoreFailed("the memory store crashed, as the test requested"))
        with self._lock:
            image = self._durable.copy()
            for operations in self._unsynced[:keep]:
                image.apply(operations)
            lost_count = len(self._unsynced[keep:])
            return MemoryStore(image=image, ticket=Ticket(self._ticket - lost_count))

    def fail_next_write(self, error: StoreError) -> None:
        """Make the next write raise *error*; unless it is `StoreStalled`, the store then fails."""
        self._write_fault = error

    def fail_next_sync(self, error: StoreError) -> None:
        """Make the next sync raise *error*, and the store fail.

        Unsynced batches stay unsynced: `crash` then chooses how many of them the disk stored.
        """
        self._sync_fault = error

    def _rows(self, pairs: list[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        for pair in pairs:
            yield pair
            self._check_usable()

    def _check_usable(self) -> None:
        if self._failure:
            raise StoreFailed(
                f"the memory store is unusable: {self._failure}; open it again"
            ) from self._failure

    def _fail(self, error: StoreError) -> StoreError:
        if not isinstance(error, StoreStalled):
            self._failure = self._failure or error
        return error
