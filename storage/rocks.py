"""The store of a real node: RocksDB, with one column family for each `Family`.

Results of experiments with rocksdict 0.3.29, each with a test:

- A non-synced write hands its bytes to the kernel before it returns, so ``kill -9`` loses
  nothing. ``write`` and ``get`` hold the GIL for microseconds; only ``flush_wal(True)``, which
  waits for the disk, releases it.
- ``items()`` ends silently at a damaged block; only the status of an iterator shows the error.
- The lock of the database is held until every column family, handle and iterator is dropped.
- A range deletion from a later key to an earlier one is refused only after it was logged.

Recovery. After a power loss the write-ahead log may end in a torn record, and RocksDB cannot
distinguish a flipped bit from it. At such a record RocksDB can refuse to open
(``absolute_consistency``) or keep the records before it (``point_in_time``, which silently drops
everything after a flipped bit in the middle). So the first opening is strict. If it fails, a
read-only opening shows how far a point-in-time recovery would reach. If that is at least the ticket
of `SyncedMark`, only writes that were never acknowledged are lost; otherwise the store is damaged
and left unchanged. ``tolerate_corrupted_tail_records`` is no alternative: it refuses pages of zeros
in a tail that was never synced, and mistakes a flipped length near the end of the file for a torn
record.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from rocksdict import (
    AccessType,
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    ColumnFamily,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    Rdict,
    RdictIter,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from rota.storage.log_check import unreadable_record
from rota.storage.log_space import LogSpace
from rota.storage.store import (
    Batch,
    Family,
    StoreDamaged,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreLocked,
    StoreStalled,
    Ticket,
)
from rota.storage.synced_mark import SyncedMark

CACHE_BYTES = 64 << 20
"""The size of the cache of blocks of table files, for all families together."""

WRITE_BUFFER_BYTES = 32 << 20
"""The data of one family that is gathered in memory before it is written as a table, in bytes."""

_INDEX_BLOCK_BYTES = 4096
_WRITE_BUFFERS_BYTES = 128 << 20  # All families together, so that memory is bounded.
_LOG_BYTES_MAX = 128 << 20  # A restart replays it, at 230 MB/s: half a second.

_FILE = re.compile(r"\d{6,}\.(?:sst|log)")
_DROPPED = re.compile(r"(\d{6,}\.log): dropping (\d+) bytes")
_MANIFEST = re.compile(r"MANIFEST-\d+")


class RocksBatch:
    """The batch of a `RocksStore`.

    Each change goes into RocksDB's own batch at once. In batches of ten this saves 0.5 us of the
    1.7 us that a put and its share of the write cost with a list that is copied at the end.
    """

    __slots__ = ("_handles", "raw")

    def __init__(self, handles: list[ColumnFamily]) -> None:
        self._handles = handles
        self.raw = WriteBatch(raw_mode=True)

    def put(self, family: Family, key: bytes, value: bytes) -> None:
        """Set *key* to *value*."""
        self.raw.put(key, value, self._handles[family])

    def delete(self, family: Family, key: bytes) -> None:
        """Remove *key*, if it is there."""
        self.raw.delete(key, self._handles[family])

    def delete_range(self, family: Family, start: bytes, end: bytes) -> None:
        """Remove every key in ``[start, end)``."""
        # RocksDB logs such a range before it refuses it, and could then never open the database.
        assert start <= end, (start, end)
        if start < end:
            self.raw.delete_range(start, end, self._handles[family])


class RocksStore:
    """A `Store` in the folder *path*, which is created if it is missing.

    Tickets are RocksDB's sequence numbers: they continue to grow after a restart.

    Raises:
        StoreDamaged: Durable data is missing, or is not what was written.
        StoreLocked: The store is open already, here or in another process.
        StoreFull: There is no space left to recover it.
        StoreFailed: The store cannot be opened for another reason.
    """

    def __init__(
        self,
        path: Path,
        *,
        cache_bytes: int = CACHE_BYTES,
        write_buffer_bytes: int = WRITE_BUFFER_BYTES,
    ) -> None:
        self._path = path
        self._cache_bytes = cache_bytes
        self._write_buffer_bytes = write_buffer_bytes
        self._failure: StoreError | None = None
        self._log_space = LogSpace(path)
        self._mark = self._open_mark()
        try:
            self._database = self._open()
        except BaseException:
            self._mark.close()
            raise
        self._families = [self._database.get_column_family(family.name) for family in Family]
        self._handles = [self._database.get_column_family_handle(family.name) for family in Family]
        self._ticket = Ticket(self._database.latest_sequence_number())
        self._write_options = WriteOptions()
        # A stalled write would wait for the disk with the GIL held, which would block the node.
        self._write_options.no_slowdown = True

    def batch(self) -> RocksBatch:
        """Return a new empty batch."""
        return RocksBatch(self._handles)

    def get(self, family: Family, key: bytes) -> bytes | None:
        """Return the value of *key*, or None."""
        self._check_usable()
        try:
            value: bytes | None = self._families[family].get(key)
        except Exception as error:  # rocksdict raises nothing narrower.
            raise self._fail(error) from error
        return value

    def scan(
        self,
        family: Family,
        start: bytes,
        end: bytes,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[tuple[bytes, bytes]]:
        """Return the pairs in ``[start, end)`` as they are now; costs 5 us, and 0.7 us a pair."""
        self._check_usable()
        if start >= end:
            return iter(())
        # Both bounds are checked in _rows: RocksDB keeps a pointer to bounds in the options, and
        # rocksdict frees these while the cursor still runs, which may then end anywhere.
        cursor = self._families[family].iter(ReadOptions())
        if reverse:
            cursor.seek_for_prev(end)
            if cursor.valid() and cursor.key() == end:
                cursor.prev()
        else:
            cursor.seek(start)
        return self._rows(cursor, start, end, reverse=reverse, limit=limit)

    def write(self, batch: Batch) -> Ticket:
        """Make *batch* visible and return its ticket; costs 15 us for ten puts of 200 bytes."""
        assert isinstance(batch, RocksBatch), f"a {type(batch).__name__} of another store"
        self._check_usable()
        try:
            self._database.write(batch.raw, self._write_options)
        except Exception as error:
            raise self._fail(error) from error
        self._ticket = Ticket(self._database.latest_sequence_number())
        return self._ticket

    def sync(self) -> Ticket:
        """Wait, without the GIL, until everything written before is durable."""
        self._check_usable()
        ticket = self._ticket  # Before the sync: the loop may write during it.
        # Space is reserved here because this thread may wait for the disk.
        self._log_space.keep()
        try:
            self._database.flush_wal(sync=True)
            self._mark.record(ticket)
        except Exception as error:
            raise self._fail(error) from error
        return ticket

    def close(self) -> None:
        """Sync, unless the store has failed, and release the lock."""
        try:
            if not self._failure:
                self.sync()
        finally:
            self._release()

    def size_bytes(self) -> int:
        """Return the size of the table files and of the data that is still only in memory."""
        self._check_usable()
        return sum(
            family.property_int_value(name) or 0
            for family in self._families
            for name in ("rocksdb.total-sst-files-size", "rocksdb.cur-size-all-mem-tables")
        )

    def _rows(
        self, cursor: RdictIter, start: bytes, end: bytes, *, reverse: bool, limit: int | None
    ) -> Iterator[tuple[bytes, bytes]]:
        left = -1 if limit is None else limit
        move = cursor.prev if reverse else cursor.next
        while left and cursor.valid():
            key: bytes = cursor.key()
            if not start <= key < end:
                return
            yield key, cursor.value()
            self._check_usable()
            move()
            left -= 1
        try:
            cursor.status()
        except Exception as error:
            raise self._fail(error) from error

    def _check_usable(self) -> None:
        if self._failure:
            raise StoreFailed(
                f"the store in {self._path} is unusable: {self._failure}"
            ) from self._failure

    def _fail(self, error: Exception) -> StoreError:
        failure = _classified(error, self._path)
        if not isinstance(failure, StoreStalled):
            self._failure = self._failure or failure
        return failure

    def _release(self) -> None:
        self._failure = self._failure or StoreFailed(f"the store in {self._path} is closed")
        self._mark.close()
        # Batches share the list of handles, so it is emptied and not only forgotten.
        self._handles.clear()
        for opened in (*self._families, self._database):
            with suppress(Exception):  # A failed one repeats its error, but is closed nevertheless.
                opened.close()
        self._families.clear()

    def _open_mark(self) -> SyncedMark:
        try:
            self._path.mkdir(mode=0o700, exist_ok=True)
            return SyncedMark(self._path)
        except OSError as error:
            raise _classified(error, self._path) from error

    def _open(self) -> Rdict:
        if place := unreadable_record(self._path):
            raise StoreDamaged(f"{place} is damaged: the type of the record is invalid. {_REFILL}")
        try:
            database = self._connect(DBRecoveryMode.absolute_consistency())
        except Exception as error:
            failure = _classified(error, self._path)
            if not isinstance(failure, StoreDamaged) or not self._is_torn_tail():
                raise failure from error
            database = self._recover_until_torn()
        # A log that was cut exactly between two records, or is missing, opens without an error.
        recovered = database.latest_sequence_number()
        if recovered < self._mark.ticket:
            database.close()
            raise StoreDamaged(
                f"the store in {self._path} ends at write {recovered}, but {self._mark.ticket} "
                f"had been made durable: the end of its log is missing. {_REFILL}"
            )
        return database

    def _is_torn_tail(self) -> bool:
        """Return True if all durable data is before the damage; no file is changed."""
        mode = DBRecoveryMode.point_in_time()
        try:
            database = self._connect(mode, AccessType.read_only(error_if_log_file_exist=False))
        except Exception:
            return False  # The damage is not in the log; the strict opening has named it.
        recovered = database.latest_sequence_number()
        database.close()
        return recovered >= self._mark.ticket

    def _recover_until_torn(self) -> Rdict:
        try:
            return self._connect(DBRecoveryMode.point_in_time())
        except Exception as error:
            raise _classified(error, self._path) from error

    def _connect(self, mode: DBRecoveryMode, access: AccessType | None = None) -> Rdict:
        return Rdict(
            str(self._path),
            _database_options(mode),
            _family_options(self._cache_bytes, self._write_buffer_bytes),
            access or AccessType.read_write(),
        )


def _database_options(mode: DBRecoveryMode) -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_wal_recovery_mode(mode)
    options.set_paranoid_checks(True)
    options.set_max_total_wal_size(_LOG_BYTES_MAX)
    options.set_db_write_buffer_size(_WRITE_BUFFERS_BYTES)
    options.set_max_background_jobs(2)
    options.set_max_open_files(512)
    options.set_bytes_per_sync(1 << 20)  # Table files trickle out, not all at once before a sync.
    options.set_keep_log_file_num(4)  # RocksDB's own diagnostics, not the write-ahead log.
    options.set_stats_dump_period_sec(0)
    return options


def _family_options(cache_bytes: int, write_buffer_bytes: int) -> dict[str, Options]:
    blocks = BlockBasedOptions()
    blocks.set_block_cache(Cache(cache_bytes))
    blocks.set_cache_index_and_filter_blocks(True)
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
    blocks.set_bloom_filter(10, False)
    # In one piece, the index or the filter of a table of 70 MB has more than a part of the cache
    # holds, so that every read of that table loads and unpacks a megabyte (decisions/0015).
    blocks.set_index_type(BlockBasedIndexType.two_level_index_search())
    blocks.set_partition_filters(True)
    blocks.set_metadata_block_size(_INDEX_BLOCK_BYTES)
    blocks.set_pin_top_level_index_and_filter(True)
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_write_buffer_size(write_buffer_bytes)
    # Writes are refused, not slowed down (no_slowdown), so the limits for this are high: five full
    # buffers not yet on disk, or 64 tables not yet merged; a backlog of merging has no limit. At
    # 400 MB/s spread over four families, no write is refused; at 500 MB/s into one, after 560 MB.
    options.set_max_write_buffer_number(6)
    options.set_level_zero_file_num_compaction_trigger(4)
    options.set_level_zero_slowdown_writes_trigger(64)
    options.set_level_zero_stop_writes_trigger(128)
    options.set_soft_pending_compaction_bytes_limit(0)
    options.set_hard_pending_compaction_bytes_limit(0)
    return dict.fromkeys((family.name for family in Family), options)


_REFILL = (
    "Do not start the node on it: give the node an empty data directory and let it be filled "
    "from the other replicas, or restore a backup. See docs/reference/data-directory.md"
)


def _classified(error: Exception, path: Path) -> StoreError:
    """Return the error of the store for rocksdict's *error*, whose kind only its text shows."""
    text = str(error).strip()
    if "No space left" in text or "quota exceeded" in text:
        return StoreFull(
            f"no space left for the store in {path}; what was written before is intact. "
            f"Free some space on that file system and restart the node ({text})"
        )
    if "Corruption:" in text:
        return StoreDamaged(f"{_damaged_place(text, path)} is damaged: {text}. {_REFILL}")
    if "LOCK:" in text:
        return StoreLocked(
            f"the store in {path} is open already; stop the process that uses it ({text})"
        )
    if "Write stall" in text:
        return StoreStalled(
            f"the disk of {path} cannot keep up: too much is waiting to be written. Write less, or "
            f"look for a failing or overloaded disk ({text})"
        )
    return StoreFailed(
        f"the store in {path} failed: {text}. Look at the disk and the system's log, then restart "
        "the node"
    )


def _damaged_place(text: str, path: Path) -> str:
    # An error about a damaged table ends with "MANIFEST may be corrupted", so tables come first.
    if named := _FILE.search(text):
        return str(path / named[0])
    if named := _MANIFEST.search(text):
        return str(path / named[0])
    # RocksDB writes the log file and the place only to its own diagnostics.
    with suppress(OSError):
        if dropped := _DROPPED.search((path / "LOG").read_text(errors="replace")):
            return f"{path / dropped[1]} ({dropped[2]} bytes cannot be read)"
    return f"the store in {path}"
