"""The journal of a warden: the attempts that it started, and how they ended.

A record is four bytes of length, four bytes of CRC-32, then MessagePack; there are three kinds. The
file is read once, when a warden starts, up to the first incomplete record: a power loss that
destroys the last records also ends their attempts.

The loop writes, which costs no more than a copy into the page cache; a thread syncs within 50 ms.
If the disk refuses a write, no attempt is affected: the records stay in memory and are written
later. After a failed sync, the file may lack records that were written to it, so all records that
are not forgotten are then written to a new file; if that fails too, it is tried again when the
journal has grown.
"""

import asyncio
import logging
import os
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.model.attempt import AttemptKey, Ending, Order
from rota.executor.kernel.one_thread import one_thread

log = logging.getLogger(__name__)

GATHER_S = 0.03
"""The time that a sync waits for further records; with the sync, it is well within 50 ms."""
REWRITE_BYTES = 4 << 20
"""The length above which a journal, mostly of forgotten attempts, is rewritten without them."""


class Started(msgspec.Struct, frozen=True, array_like=True, tag="started"):
    """An attempt is about to be started."""

    group: str
    order: Order


class Ended(msgspec.Struct, frozen=True, array_like=True, tag="ended"):
    """An attempt has ended."""

    key: AttemptKey
    ending: Ending


class Forgotten(msgspec.Struct, frozen=True, array_like=True, tag="forgotten"):
    """The outcome of an attempt is recorded by its shard."""

    key: AttemptKey


Record = Started | Ended | Forgotten


class Kept(msgspec.Struct):
    """The records of one attempt; *ending* is None if it may still run."""

    group: str
    order: Order
    ending: Ending | None = None


class Journal:
    """The journal of one warden, which alone writes to it. Constructed on the loop that uses it.

    Args:
        path: The file, which the constructor reads and rewrites.

    Attributes:
        kept: The attempts in the file that were not forgotten, oldest first.

    Raises:
        OSError: The file cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._new_path = path.with_suffix(".new")
        self._loop = asyncio.get_running_loop()
        self._thread = one_thread("journal")
        self._live: dict[AttemptKey, list[bytes]] = {}
        """The encoded records of attempts that are not forgotten."""
        self._live_size = 0
        self._unwritten = bytearray()
        self._rewrite_above = REWRITE_BYTES
        self._since_rewriting: bytearray | None = None
        self._new_fd = -1
        """The file that is about to replace the other, and gets the same writes; -1 for none."""
        self._new_size = 0
        self._is_sync_planned = False
        self._has_unsynced = False
        """Whether a sync of the journal's file has failed since the last rewriting."""
        self._is_failing = False
        self._is_closed = False
        self.kept = list(_replay(path).values())
        for one in self.kept:
            self.started(one.group, one.order)
            if one.ending is not None:
                self.ended(one.order.key, one.ending)
        self._fd = _write_file(self._new_path, self._unwritten)
        self._size = len(self._unwritten)
        self._unwritten.clear()
        self._new_path.rename(path)
        _sync_folder(path.parent)

    def started(self, group: str, order: Order) -> None:
        """Add the record that an attempt is about to be started."""
        self._add(order.key, Started(group, order))

    def ended(self, key: AttemptKey, ending: Ending) -> None:
        """Add the ending of an attempt."""
        self._add(key, Ended(key, ending))

    def forgotten(self, key: AttemptKey) -> None:
        """Add the record that the outcome of an attempt is recorded by its shard."""
        self._live_size -= sum(map(len, self._live.pop(key, ())))
        self._unwritten += _encoded(Forgotten(key))

    def write(self) -> None:
        """Write the added records, and plan a sync; if the disk refuses them, they stay added."""
        if not self._unwritten or self._is_closed:
            return
        try:
            _write_at(self._fd, self._unwritten, self._size)
            if self._new_fd >= 0:
                _write_at(self._new_fd, self._unwritten, self._new_size)
        except OSError as error:
            self._failed(error)
            return
        self._is_failing = False
        self._size += len(self._unwritten)
        if self._since_rewriting is not None:
            self._since_rewriting += self._unwritten
        elif self._new_fd >= 0:
            self._new_size += len(self._unwritten)
        elif self._has_unsynced or self._size > max(self._rewrite_above, 4 * self._live_size):
            self._rewrite()
        self._unwritten.clear()
        if not self._is_sync_planned:
            self._is_sync_planned = True
            self._submit(self._sync_soon)

    def close(self) -> None:
        """Write and sync the added records, and close the file; blocks until this is done."""
        self.write()
        self._is_closed = True
        self._thread.shutdown(wait=True)
        for fd in (self._fd, self._new_fd):
            if fd >= 0:
                os.close(fd)

    def _add(self, key: AttemptKey, record: Record) -> None:
        encoded = _encoded(record)
        self._live.setdefault(key, []).append(encoded)
        self._live_size += len(encoded)
        self._unwritten += encoded

    def _failed(self, error: OSError) -> None:
        if not self._is_failing:
            log.error("journal not written", extra={"reason": error.strerror})
        self._is_failing = True

    def _submit(self, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
            except OSError as error:
                if not self._is_closed:
                    self._loop.call_soon_threadsafe(self._failed, error)

        self._thread.submit(guarded)

    def _sync_soon(self) -> None:
        if not self._is_closed:
            time.sleep(GATHER_S)
        self._is_sync_planned = False  # Before the sync: later writes may not be covered by it.
        new = self._new_fd  # Read first: the loop may make it `_fd` before the next line.
        try:
            for fd in (new, self._fd):
                if fd >= 0:
                    os.fdatasync(fd)
        except OSError:
            self._has_unsynced = True
            raise

    # -- rewriting ------------------------------------------------------------------------------
    #
    # 1. The loop takes the records that are not forgotten; from then on it also collects new ones.
    # 2. The thread writes the taken records to a new file, and syncs it.
    # 3. The loop adds the collected records, and from then on writes to both files.
    # 4. The thread syncs the new file, renames it over the old one, and syncs its name. A file with
    #    the journal's name thus has every record that was synced, also after a power loss.
    # 5. The loop writes to the new file alone; the thread closes the old one.

    def _rewrite(self) -> None:
        self._since_rewriting, self._has_unsynced = bytearray(), False
        live = b"".join(part for parts in self._live.values() for part in parts)

        def work() -> None:
            try:
                fd = _write_file(self._new_path, live)
            except OSError:
                self._loop.call_soon_threadsafe(self._not_rewritten)
                raise
            self._loop.call_soon_threadsafe(self._rewritten, fd, len(live))

        self._submit(work)

    def _not_rewritten(self) -> None:
        self._since_rewriting = None
        self._rewrite_later()

    def _rewrite_later(self) -> None:
        """Wait until the journal has grown: on a full disk, every try in between would fail."""
        self._rewrite_above = self._size + REWRITE_BYTES

    def _rewritten(self, fd: int, size: int) -> None:
        assert self._since_rewriting is not None, "the journal is not being rewritten"
        since, self._since_rewriting = self._since_rewriting, None
        try:
            if self._is_closed:
                os.close(fd)
                return
            _write_at(fd, since, size)
        except OSError as error:
            os.close(fd)
            self._failed(error)
            self._rewrite_later()
            return
        self._new_fd, self._new_size = fd, size + len(since)
        self._submit(self._replace)

    def _replace(self) -> None:
        try:
            os.fdatasync(self._new_fd)
            self._new_path.rename(self._path)
        except OSError:
            self._loop.call_soon_threadsafe(self._not_replaced)
            raise
        try:
            _sync_folder(self._path.parent)
        finally:
            self._loop.call_soon_threadsafe(self._replaced)

    def _not_replaced(self) -> None:
        fd, self._new_fd = self._new_fd, -1
        self._rewrite_later()
        if not self._is_closed:
            self._submit(lambda: os.close(fd))

    def _replaced(self) -> None:
        old, self._fd, self._size = self._fd, self._new_fd, self._new_size
        self._new_fd, self._rewrite_above = -1, REWRITE_BYTES
        if not self._is_closed:
            self._submit(lambda: os.close(old))


# -- records ---------------------------------------------------------------------------------------

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Record)
_HEAD = 8


def _encoded(record: Record) -> bytes:
    body = _ENCODER.encode(record)
    return b"".join((len(body).to_bytes(4), zlib.crc32(body).to_bytes(4), body))


def _replay(path: Path) -> dict[AttemptKey, Kept]:
    kept: dict[AttemptKey, Kept] = {}
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return kept
    for record in _records(content):
        match record:
            case Started(group=group, order=order):
                kept[order.key] = Kept(group, order)
            case Ended(key=key, ending=ending) if key in kept:
                kept[key].ending = ending
            case Ended():
                pass  # The attempt is forgotten.
            case Forgotten(key=key):
                kept.pop(key, None)
    return kept


def _records(content: bytes) -> Iterator[Record]:
    start = 0
    while len(content) >= start + _HEAD:
        length, checksum = (int.from_bytes(content[at : at + 4]) for at in (start, start + 4))
        body = content[start + _HEAD : start + _HEAD + length]
        if not length or zlib.crc32(body) != checksum:
            break  # A power loss may leave zeros, so the length may be 0.
        start += _HEAD + length
        try:
            yield _DECODER.decode(body)
        except UNDECODABLE as error:
            log.error("journal record of another version dropped", extra={"reason": str(error)})
    if start < len(content):
        log.warning("end of journal dropped", extra={"bytes": len(content) - start})


# -- files -----------------------------------------------------------------------------------------


def _write_file(path: Path, content: bytes | bytearray) -> int:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        _write_at(fd, content, 0)
        os.fdatasync(fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _write_at(fd: int, content: bytes | bytearray, offset: int) -> None:
    # At a fixed offset, so that a record that a full disk cut off is overwritten.
    view = memoryview(content)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written
    view.release()


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
