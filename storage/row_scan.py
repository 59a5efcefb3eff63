"""All rows of a shard as they were at one moment, read piece by piece while others are written."""

from collections.abc import Iterator
from itertools import chain, islice

from rota.core.model.ids import ShardId
from rota.storage.shards import shard_prefix
from rota.storage.store import Family, Store

Row = tuple[bytes, bytes]


class RowScan:
    """The rows of STATE and HIST of a shard as they are when this is made.

    The one scan that may be kept across an await: close it before the store. Until then the store
    keeps the old data that the scan may still read. Belongs to the event loop's thread.

    Args:
        store: Where the rows are.
        shard: Whose.
    """

    def __init__(self, store: Store, shard: ShardId) -> None:
        start = shard_prefix(shard)
        end = start + b"\xff"  # No table has that number.
        # A list, because a chain of generators would make the second scan only when it is needed.
        scans = [store.scan(family, start, end) for family in (Family.STATE, Family.HIST)]
        self._rows: Iterator[Row] = chain(*scans)

    def piece(self, count_max: int, size_max: int) -> list[Row]:
        """Return the next rows in the order of their keys; none are left if there are none.

        Args:
            count_max: At most so many rows.
            size_max: No more rows after so many bytes of keys and values.

        Raises:
            StoreDamaged: Rows cannot be read back as they were written.
            StoreFailed: The store failed, or was closed before this.
        """
        rows: list[Row] = []
        size = 0
        for key, value in islice(self._rows, count_max):
            rows.append((key[2:], value))
            size += len(key) + len(value)
            if size >= size_max:
                break
        return rows

    def close(self) -> None:
        """Let go of the store; idempotent."""
        self._rows = iter(())
