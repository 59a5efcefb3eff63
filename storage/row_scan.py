"""A consistent scan of all rows of a shard, read in pieces while others are written."""

from collections.abc import Iterator
from itertools import chain, islice

from rota.core.model.ids import ShardId
from rota.storage.shards import shard_prefix
from rota.storage.store import Family, Store

Row = tuple[bytes, bytes]


class RowScan:
    """The rows of STATE and HIST of a shard at the time of construction.

    This is the only scan that may be kept across an await; it must be closed before the store.
    Until then, the store keeps old data that the scan may still read. It is used in the event
    loop's thread only.

    Args:
        store: The store of the node.
        shard: The shard.
    """

    def __init__(self, store: Store, shard: ShardId) -> None:
        start = shard_prefix(shard)
        end = start + b"\xff"  # No table has that number.
        # A list, because a chain of generators would begin the second scan only after the first.
        scans = [store.scan(family, start, end) for family in (Family.STATE, Family.HIST)]
        self._rows: Iterator[Row] = chain(*scans)

    def piece(self, count_max: int, size_max: int) -> list[Row]:
        """Return the next rows in the order of their keys; an empty list at the end.

        Args:
            count_max: The largest number of rows.
            size_max: The number of bytes of keys and values after which no further row is added.

        Raises:
            StoreDamaged: The data on disk is not what was written.
            StoreFailed: The store failed, or was closed before this scan.
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
        """Release the store; idempotent."""
        self._rows = iter(())
