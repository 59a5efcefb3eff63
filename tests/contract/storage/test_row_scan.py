"""The rows of a shard as they were at one moment, whatever is written while they are read."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.core.model.ids import SHARDS_MAX, ShardId
from rota.storage.memory import MemoryStore
from rota.storage.rocks import RocksStore
from rota.storage.row_scan import Row, RowScan
from rota.storage.shards import shard_prefix
from rota.storage.store import Family, Store, StoreFailed

SHARD = ShardId(7)
ROWS = [(bytes((table, number)), b"value") for table in (1, 40) for number in range(5)]


@pytest.fixture(params=["memory", "rocks"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store of each kind."""
    store: Store = MemoryStore() if request.param == "memory" else RocksStore(tmp_path / "s")
    yield store
    store.close()


def put(store: Store, shard: ShardId, rows: list[Row]) -> None:
    """Write rows; tables from 40 on are history here."""
    batch = store.batch()
    for key, value in rows:
        family = Family.STATE if key[0] < 40 else Family.HIST
        batch.put(family, shard_prefix(shard) + key, value)
    store.write(batch)


def all_of(scan: RowScan, count_max: int = 3) -> list[Row]:
    """Return all rows that are left, read so many at once."""
    return [row for piece in iter(lambda: scan.piece(count_max, 1 << 20), []) for row in piece]


@pytest.mark.parametrize("shard", [SHARD, ShardId(SHARDS_MAX - 1)])
def test_a_scan_has_the_rows_of_state_and_history_of_its_shard_alone(
    store: Store, shard: ShardId
) -> None:
    put(store, ShardId(shard - 1), ROWS)
    put(store, ShardId((shard + 1) % SHARDS_MAX), ROWS)
    put(store, shard, ROWS)

    assert all_of(RowScan(store, shard)) == ROWS


def test_a_scan_has_the_rows_of_its_beginning_whatever_is_written_meanwhile(store: Store) -> None:
    put(store, SHARD, ROWS)
    scan = RowScan(store, SHARD)
    begun = scan.piece(3, 1 << 20)

    put(store, SHARD, [(key, b"another") for key, _ in ROWS])
    put(store, SHARD, [(b"\x01\x80", b"new"), (b"\x28\x80", b"new")])

    assert begun + all_of(scan) == ROWS


def test_a_piece_ends_with_the_row_that_fills_it(store: Store) -> None:
    put(store, SHARD, ROWS)

    assert RowScan(store, SHARD).piece(100, 17) == ROWS[:2]


def test_a_scan_that_is_closed_holds_the_store_no_more(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "s")
    put(store, SHARD, ROWS)
    scan = RowScan(store, SHARD)
    scan.piece(1, 1)

    scan.close()
    store.close()

    RocksStore(tmp_path / "s").close()
    assert scan.piece(1, 1) == []


def test_a_scan_of_a_store_that_was_closed_raises(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "s")
    put(store, SHARD, ROWS)
    scan = RowScan(store, SHARD)
    store.close()

    with pytest.raises(StoreFailed):
        all_of(scan)
