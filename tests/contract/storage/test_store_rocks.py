"""Effects of real disk damage, crashes and second processes on a `RocksStore`."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count, islice
from pathlib import Path
from time import perf_counter_ns
from typing import Any, cast

import pytest
from rocksdict import Rdict

from rota.storage.rocks import RocksStore
from rota.storage.store import (
    Family,
    Store,
    StoreDamaged,
    StoreFailed,
    StoreFull,
    StoreLocked,
    StoreStalled,
)

PAST_ALL = b"\xff" * 8
BATCH_COUNT = 600
SYNCED_COUNT = 400
PUTS = 4
"""Per batch: three journal rows and the number of the batch."""

WRITER = f"""
import os, pathlib, signal, sys
from rota.storage.rocks import RocksStore
from rota.storage.store import Family

store = RocksStore(pathlib.Path(sys.argv[1]))
for number in range(1, {BATCH_COUNT} + 1):
    batch = store.batch()
    for part in range(3):
        batch.put(Family.JOURNAL, b"%06d-%d" % (number, part), os.urandom(100))
    batch.put(Family.META, b"last", b"%d" % number)
    store.write(batch)
    if number == {SYNCED_COUNT}:
        store.sync()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of a process that was killed after 600 batches, 400 of them synced."""
    path = tmp_path_factory.mktemp("killed") / "db"
    search = os.pathsep.join(sys.path)
    run = subprocess.run(
        [sys.executable, "-c", WRITER, str(path)],
        env={**os.environ, "PYTHONPATH": search},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == -9, run.stderr.decode()
    return path


@pytest.fixture
def path(killed: Path, tmp_path: Path) -> Path:
    """A copy of it, for one test to damage."""
    return Path(shutil.copytree(killed, tmp_path / "db"))


@pytest.fixture
def tables(path: Path) -> Path:
    """The same, recovered and closed, so that its rows are in table files."""
    RocksStore(path).close()
    assert list(path.glob("*.sst"))
    return path


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small tmpfs: sudo make test")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder]).returncode:
        pytest.skip("cannot mount a tmpfs; in a container: docker run --cap-add SYS_ADMIN")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def put(store: Store, key: bytes, value: bytes = b"v") -> int:
    batch = store.batch()
    batch.put(Family.STATE, key, value)
    return store.write(batch)


def put_patiently(store: Store, key: bytes, value: bytes) -> int:
    """Return the ticket, after as many syncs as the disk needs to catch up."""
    while True:
        try:
            return put(store, key, value)
        except StoreStalled:
            store.sync()


def batch_count_in(path: Path) -> int:
    """Return how many batches a recovered store holds, all of them whole and without a hole."""
    store = RocksStore(path)
    try:
        last = int(store.get(Family.META, b"last") or b"0")
        rows = [key for key, _ in store.scan(Family.JOURNAL, b"", PAST_ALL)]
        assert rows == [b"%06d-%d" % (n, part) for n in range(1, last + 1) for part in range(3)]
        assert store.write(store.batch()) == last * PUTS
        return last
    finally:
        store.close()


def log_of(path: Path) -> Path:
    (log,) = path.glob("*.log")
    return log


def flip(file: Path, offset: int, *, bit: int = 0) -> None:
    with file.open("r+b") as content:
        content.seek(offset)
        byte = content.read(1)[0]
        content.seek(offset)
        content.write(bytes([byte ^ 1 << bit]))


def log_records(log: Path) -> list[int]:
    """Return the offset of the first fragment of every record, and the end of the last.

    The format is RocksDB's: blocks of 32 KiB; a fragment is crc32c (4), length (2), type (1:
    whole, 2: first, 3: middle, 4: last) and that many bytes; the last 6 of a block may be empty.
    """
    content = log.read_bytes()
    starts: list[int] = []
    offset = 0
    while offset + 7 <= len(content):
        left_in_block = 32768 - offset % 32768
        length = int.from_bytes(content[offset + 4 : offset + 6], "little")
        kind = content[offset + 6]
        if left_in_block < 7:
            offset += left_in_block
            continue
        if kind == 0:
            break
        if kind in (1, 2):
            starts.append(offset)
        offset += 7 + length
    return [*starts, offset]


# --- crashes ---


class Overtaken:
    """A database to which something is written just after its log was flushed."""

    def __init__(self, database: Rdict, write: Callable[[], object]) -> None:
        self._database = database
        self._write = write

    def flush_wal(self, *, sync: bool) -> None:
        """Flush, then have it written to."""
        self._database.flush_wal(sync=sync)
        self._write()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)


def test_a_sync_does_not_cover_what_was_written_while_it_ran(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "db")

    def write(key: bytes) -> int:
        batch = store.batch()
        batch.put(Family.META, key, b"v")
        return store.write(batch)

    before, during = write(b"before"), list[int]()
    database = store._database  # pyright: ignore[reportPrivateUsage]
    store._database = cast(  # pyright: ignore[reportPrivateUsage]
        "Rdict", Overtaken(database, lambda: during.append(write(b"during")))
    )

    covered = store.sync()
    store._database = database  # pyright: ignore[reportPrivateUsage]

    assert covered == before < during[0]
    assert store.sync() == during[0]
    store.close()


def test_a_killed_process_loses_nothing_it_wrote(path: Path) -> None:
    assert batch_count_in(path) == BATCH_COUNT


def test_a_torn_last_batch_is_lost_whole_and_alone(path: Path) -> None:
    log = log_of(path)
    os.truncate(log, log.stat().st_size - 5)

    assert batch_count_in(path) == BATCH_COUNT - 1


def test_an_unsynced_tail_that_never_reached_the_disk_is_dropped(path: Path) -> None:
    # After a power loss a page may read as zeros while a later one is there: unlike a torn end,
    # RocksDB's tolerate_corrupted_tail_records refuses this, and the node would not start.
    log = log_of(path)
    hole = log_records(log)[500] + 20
    with log.open("r+b") as content:
        content.seek(hole)
        content.write(bytes(4096))

    assert batch_count_in(path) == 500


def test_what_remains_after_a_torn_tail_can_be_written_on(path: Path) -> None:
    log = log_of(path)
    os.truncate(log, log.stat().st_size - 5)
    store = RocksStore(path)
    put(store, b"after")
    store.close()

    store = RocksStore(path)

    assert store.get(Family.STATE, b"after") == b"v"
    store.close()


# --- damage ---


def test_a_flip_in_a_synced_part_of_the_log_is_refused_and_named(path: Path) -> None:
    log = log_of(path)
    flip(log, log_records(log)[200] + 50)
    before = log.read_bytes()

    for _ in range(2):
        with pytest.raises(StoreDamaged, match=f"{log.name} .*checksum mismatch"):
            RocksStore(path)

    assert log.read_bytes() == before, "the evidence is left as it was"


@pytest.mark.parametrize("field", ["crc", "length", "type"])
@pytest.mark.parametrize("number", [200, SYNCED_COUNT - 1], ids=["middle", "last synced"])
def test_no_flip_in_a_synced_header_is_taken_for_the_end(
    path: Path, tmp_path: Path, number: int, field: str
) -> None:
    # A flipped length can point past the end of the file, which looks like a torn tail.
    offsets = {"crc": range(4), "length": range(4, 6), "type": range(6, 7)}[field]
    record = log_records(log_of(path))[number]
    spoilt = tmp_path / "spoilt"

    for offset in offsets:
        for bit in range(8):
            shutil.copytree(path, spoilt)
            flip(log_of(spoilt), record + offset, bit=bit)
            with pytest.raises(StoreDamaged):
                RocksStore(spoilt)
            shutil.rmtree(spoilt)


def test_a_log_cut_between_two_synced_records_is_refused(path: Path) -> None:
    # RocksDB accepts such a log; only the mark shows that there was more.
    os.truncate(log_of(path), log_records(log_of(path))[SYNCED_COUNT - 1])

    with pytest.raises(StoreDamaged, match=r"ends at write 1596, but 1600 had been made durable"):
        RocksStore(path)


def test_a_log_cut_behind_the_synced_records_is_not_damage(path: Path) -> None:
    os.truncate(log_of(path), log_records(log_of(path))[SYNCED_COUNT])

    assert batch_count_in(path) == SYNCED_COUNT


def test_a_missing_log_is_refused(path: Path) -> None:
    log_of(path).unlink()

    with pytest.raises(StoreDamaged, match="the end of its log is missing"):
        RocksStore(path)


def test_a_damaged_mark_is_refused_and_named(path: Path) -> None:
    flip(path / "SYNCED", 19)

    with pytest.raises(StoreDamaged, match="SYNCED is damaged"):
        RocksStore(path)


def test_without_a_mark_a_shorter_log_is_accepted(path: Path) -> None:
    (path / "SYNCED").unlink()
    os.truncate(log_of(path), log_records(log_of(path))[100])

    assert batch_count_in(path) == 100


def test_a_flip_in_a_table_is_refused_by_get_and_named(tables: Path) -> None:
    table = max(tables.glob("*.sst"), key=lambda file: file.stat().st_size)
    flip(table, 100)
    store = RocksStore(tables)

    with pytest.raises(StoreDamaged, match=rf"{table.name} is damaged"):
        store.get(Family.JOURNAL, b"000001-0")

    with pytest.raises(StoreFailed, match="unusable"):
        put(store, b"k")
    store.close()


@pytest.mark.parametrize("reverse", [False, True])
def test_a_flip_in_a_table_never_shortens_a_scan(tables: Path, reverse: bool) -> None:
    table = max(tables.glob("*.sst"), key=lambda file: file.stat().st_size)
    flip(table, table.stat().st_size // 2)
    store = RocksStore(tables)

    with pytest.raises(StoreDamaged, match=rf"{table.name} is damaged"):
        list(store.scan(Family.JOURNAL, b"", PAST_ALL, reverse=reverse))

    store.close()


def flip_the_footer(table: Path) -> None:
    flip(table, table.stat().st_size - 20)


def cut_in_half(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def flip_a_record(manifest: Path) -> None:
    flip(manifest, 50)


def flip_the_type_of_a_record(manifest: Path) -> None:
    flip(manifest, 6, bit=2)


@pytest.mark.parametrize(
    ("pattern", "damage"),
    [
        ("*.sst", flip_the_footer),
        ("*.sst", cut_in_half),
        ("*.sst", Path.unlink),
        ("MANIFEST-*", flip_a_record),
        ("MANIFEST-*", flip_the_type_of_a_record),
    ],
)
def test_a_damaged_file_is_named_at_the_start(
    tables: Path, pattern: str, damage: Callable[[Path], None]
) -> None:
    file = max(tables.glob(pattern), key=lambda file: file.stat().st_size)
    damage(file)

    with pytest.raises(StoreDamaged, match=rf"{file.name}.* is damaged"):
        RocksStore(tables)


def test_a_lost_beginning_is_not_taken_for_a_new_store(tables: Path) -> None:
    (tables / "CURRENT").unlink()

    with pytest.raises(StoreDamaged):
        RocksStore(tables)


# --- a full or slow disk ---


def test_a_full_disk_finishes_the_store_and_loses_nothing(small_disk: Path) -> None:
    path = small_disk / "db"
    store = RocksStore(path)
    written = 0
    with pytest.raises(StoreFull, match="Free some space"):  # noqa: PT012  # one of many writes
        for written in count():
            put(store, b"%06d" % written, os.urandom(4000))
    with pytest.raises(StoreFailed, match="no space left"):
        store.sync()
    with pytest.raises(StoreFailed, match="no space left"):
        store.get(Family.STATE, b"000000")
    store.close()

    with pytest.raises(StoreFull):
        RocksStore(path)
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    store = RocksStore(path)

    assert sum(1 for _ in store.scan(Family.STATE, b"", PAST_ALL)) == written
    put(store, b"again")
    store.sync()
    store.close()


def test_a_sync_that_the_disk_refuses_finishes_the_store(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RocksStore(small_disk / "db")
    put(store, b"k")

    def refuse(*_: object) -> int:
        raise OSError(5, "Input/output error")

    # The file beside the log is on the same disk, and is the only one that Python can spoil.
    monkeypatch.setattr("rota.storage.synced_mark.os.pwrite", refuse)
    with pytest.raises(StoreFailed, match="Input/output error"):
        store.sync()

    monkeypatch.undo()
    with pytest.raises(StoreFailed, match="unusable"):
        store.sync()
    store.close()


def test_a_disk_left_behind_refuses_writes_but_the_store_lives(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "db", write_buffer_bytes=64 << 10)
    value = os.urandom(60 << 10)
    with pytest.raises(StoreStalled, match="cannot keep up"):  # noqa: PT012  # one of many writes
        for number in range(5000):
            put(store, b"%06d" % number, value)

    ticket = put_patiently(store, b"later", b"v")

    assert store.sync() == ticket
    store.close()
    store = RocksStore(tmp_path / "db")
    assert store.get(Family.STATE, b"later") == b"v"
    assert store.write(store.batch()) == ticket
    store.close()


# --- the lock, tombstones, tickets ---


def test_a_second_opening_is_refused_until_the_first_is_closed(tmp_path: Path) -> None:
    store = RocksStore(tmp_path)
    batch = store.batch()
    put(store, b"k")
    list(islice(store.scan(Family.STATE, b"", PAST_ALL), 1))

    with pytest.raises(StoreLocked, match="open already"):
        RocksStore(tmp_path)
    store.close()
    again = RocksStore(tmp_path)

    assert again.get(Family.STATE, b"k") == b"v"
    again.close()
    del batch  # Kept until here on purpose: a batch must not hold the lock.


def test_a_trimmed_front_costs_nothing_to_who_starts_behind_it(tmp_path: Path) -> None:
    store = RocksStore(tmp_path)
    trimmed, kept = 100_000, 10
    for first in range(0, trimmed + kept, 1000):
        batch = store.batch()
        for number in range(first, min(first + 1000, trimmed + kept)):
            batch.put(Family.JOURNAL, b"%08d" % number, b"entry")
        store.write(batch)
    one_by_one = store.batch()
    for number in range(trimmed // 2):
        one_by_one.delete(Family.JOURNAL, b"%08d" % number)
    one_by_one.delete_range(Family.JOURNAL, b"%08d" % (trimmed // 2), b"%08d" % trimmed)
    store.write(one_by_one)

    def fastest_ns(start: bytes) -> int:
        def once() -> int:
            began_ns = perf_counter_ns()
            assert sum(1 for _ in store.scan(Family.JOURNAL, start, PAST_ALL)) == kept
            return perf_counter_ns() - began_ns

        return min(once() for _ in range(5))

    from_the_front = fastest_ns(b"")
    from_the_remembered_start = fastest_ns(b"%08d" % trimmed)
    store.close()

    assert from_the_remembered_start * 20 < from_the_front


def test_tickets_survive_the_move_from_the_log_to_tables(tmp_path: Path) -> None:
    store = RocksStore(tmp_path, write_buffer_bytes=64 << 10)
    for number in range(300):
        put_patiently(store, b"%06d" % (number % 50), os.urandom(4000))
    assert list(tmp_path.glob("*.sst"))
    last = store.sync()
    store.close()

    store = RocksStore(tmp_path)

    assert store.write(store.batch()) == last == 300
    store.close()


def test_a_read_among_many_rows_loads_no_more_than_some_blocks(tmp_path: Path) -> None:
    path, rows = tmp_path / "db", 200_000
    with closing(RocksStore(path, write_buffer_bytes=1 << 20)) as store:
        for first in range(0, rows, 1_000):
            batch = store.batch()
            for number in range(first, first + 1_000):
                # In no order, so that tables have to be merged.
                batch.put(Family.HIST, _scattered(number), b"v" * 50)
            store.write(batch)
            store.sync()
    # Without a cache all that is read is seen.
    with closing(RocksStore(path, cache_bytes=0)) as store:
        before = _bytes_read()
        for number in range(0, rows, 1_000):
            assert store.get(Family.HIST, _scattered(number)) == b"v" * 50
        each = (_bytes_read() - before) / (rows / 1_000)

    # The filter of all rows alone has 250 kB. In one piece it would be loaded for every read.
    assert each < 16_000


def _scattered(number: int) -> bytes:
    return (number * 0x9E3779B97F4A7C15 % (1 << 64)).to_bytes(8, "big")


def _bytes_read() -> int:
    """Return what this process has read so far, of files too that are in the page cache."""
    counted = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in counted)["rchar"])
