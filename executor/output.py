"""The output of attempts: the last part in memory for the record, the first part in a file.

An attempt whose output fits into its record needs no file. Longer output is stored in a file: the
first `limit` bytes, and a mark where the output was cut; the rest is counted and dropped.

Files are in one folder per hour, ``2027-01-01T05/<execution id>.<task>.<attempt>``, so that expiry
reads the oldest folders only and needs no index. A look-up of an ended attempt tries the folders
newest first: one ``stat`` per hour of retention.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from rota.core.model.attempt import OUTPUT_TAIL_BYTES, AttemptKey
from rota.core.timing.instants import Instant, format_instant, parse_instant
from rota.executor.executor import READ_BYTES
from rota.executor.masking import Masker

_HOUR = re.compile(r"\d{4}-\d\d-\d\dT\d\d", re.ASCII)
_HOUR_TEXT = len("2027-01-01T05")


class OutputFiles:
    """The output files of one node, and the threads that access them.

    Methods are called on the loop; they access the disk in threads. There are two threads, so that
    a slow read of a file that is not in the page cache does not block all writes.

    Args:
        directory: The folder that contains the folders per hour; made if missing. The constructor
            adds up the sizes of its files, which takes 2 us for each.
        limit: How many bytes of one output are kept.
        limit_total: How many bytes all files may have; the oldest files are removed first.
        now: The clock; its hours name the folders.
    """

    def __init__(
        self, directory: Path, *, limit: int, limit_total: int, now: Callable[[], Instant]
    ) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.limit = limit
        self._directory = directory
        self._limit_total = limit_total
        self._now = now
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="rota-output")
        self._bytes_total = _measure(directory)
        self._open: set[str] = set()

    def capture(
        self, key: AttemptKey, *, writable: Callable[[], None], masks: tuple[bytes, ...] = ()
    ) -> "Capture":
        """Return the capture of the output of an attempt.

        Args:
            key: The attempt.
            writable: Called when the capture accepts more again.
            masks: Byte strings that are replaced in the output (`rota.executor.masking`).
        """
        masker = Masker(masks) if masks else None
        return Capture(self, key.file_name, writable=writable, masker=masker)

    async def find(self, key: AttemptKey) -> "OutputFile | None":
        """Return the kept output of an ended attempt; None if there is no file."""
        path = await self._loop.run_in_executor(
            self._threads, _find, self._directory, key.file_name
        )
        return None if path is None else OutputFile(self, path)

    async def read(self, path: Path, offset: int, limit: int) -> bytes:
        """Return part of a file; empty if it has expired."""
        return await self._loop.run_in_executor(self._threads, _read, path, offset, limit)

    async def expire(self, before: Instant, *, count_max: int) -> int:
        """Remove up to *count_max* files, and return how many were removed.

        A file is removed if it was last written before *before*, or if the total is above its limit
        and the file is among the oldest. Files that are being written stay.
        """
        excess = self._bytes_total - self._limit_total
        removed, freed = await self._loop.run_in_executor(
            self._threads,
            _expire,
            self._directory,
            before,
            excess,
            count_max,
            frozenset(self._open),
        )
        self._bytes_total -= freed
        return removed

    def close(self) -> None:
        """End the threads once they have done the work that is queued."""
        self._threads.shutdown(wait=False)

    def begin(self, name: str) -> "_Writer":
        """Return a writer for a new file; `expire` leaves it alone until its `end`."""
        self._open.add(name)
        return _Writer(self._directory / format_instant(self._now())[:_HOUR_TEXT] / name)

    def write(self, writer: "_Writer", data: bytes, then: Callable[[int, str], None]) -> None:
        """Append *data*, then call *then* with the number of bytes written and the error, if any.

        The error is the text of the system for it; empty if all was written.
        """

        def work() -> None:
            written, error = writer.write(data)
            self._loop.call_soon_threadsafe(done, written, error)

        def done(written: int, error: str) -> None:
            self._bytes_total += written
            then(written, error)

        self._threads.submit(work)

    def end(self, name: str, writer: "_Writer", mark: bytes) -> None:
        """Close a file, after a last try to write *mark* at its end."""
        self._open.discard(name)
        self._threads.submit(writer.close, mark)


class OutputFile:
    """The kept output of an ended attempt; implements `rota.executor.executor.Output`."""

    is_complete = True

    def __init__(self, files: OutputFiles, path: Path) -> None:
        self._files = files
        self._path = path

    async def read(self, offset: int, limit: int = READ_BYTES) -> bytes:
        """Return part of the file; empty once it has expired."""
        return await self._files.read(self._path, offset, limit)

    async def follow(self, offset: int = 0) -> AsyncIterator[bytes]:
        """Yield the rest of the file."""
        while part := await self.read(offset):
            offset += len(part)
            yield part


class Capture:
    """The output of one running attempt; implements `rota.executor.executor.Output`.

    Back-pressure: while `is_busy` is true, a write is under way and `take` must not be called. So
    at most one chunk of each attempt is in memory, however slow the disk is.

    Attributes:
        tail: The last part of the output, at most `OUTPUT_TAIL_BYTES`.
        byte_count: The number of bytes that the attempt has written in all, after masking.
        received: The number of bytes before masking.
        cut: The error of the disk because of which less than the limit is kept; normally empty.
        is_busy: Whether a write is under way.
    """

    __slots__ = (
        "_changed",
        "_files",
        "_head",
        "_is_cut",
        "_mark",
        "_masker",
        "_name",
        "_stored",
        "_writable",
        "_writer",
        "byte_count",
        "cut",
        "is_busy",
        "is_complete",
        "received",
        "tail",
    )

    def __init__(
        self,
        files: OutputFiles,
        name: str,
        *,
        writable: Callable[[], None],
        masker: Masker | None = None,
    ) -> None:
        self._masker = masker
        self._files = files
        self._name = name
        self._writable = writable
        self._writer: _Writer | None = None
        self._head = b""  # The kept output that is not in a file.
        self._stored = 0  # The number of bytes in the file.
        self._mark = b""  # The mark, if it could not be written to the file.
        self._is_cut = False
        self._changed: asyncio.Event | None = None
        self.tail = b""
        self.byte_count = self.received = 0
        self.cut = ""
        self.is_busy = False
        self.is_complete = False

    def take(self, chunk: bytes) -> None:
        """Add *chunk*; may leave the capture busy."""
        assert not self.is_busy, f"{self._name} takes output while it writes"
        self.received += len(chunk)
        self._add(chunk if self._masker is None else self._masker.feed(chunk))

    def flush(self) -> None:
        """Add what was held back, as there is no further output; may leave the capture busy.

        Called before `finish`, and without effect if it was called before.
        """
        assert not self.is_busy, f"{self._name} is flushed while it writes"
        if self._masker is not None:
            self._add(self._masker.rest())

    def _add(self, chunk: bytes) -> None:
        if not chunk:
            return
        self.byte_count += len(chunk)
        whole = self.tail + chunk if len(chunk) < OUTPUT_TAIL_BYTES else chunk
        self.tail = whole[-OUTPUT_TAIL_BYTES:]
        if self._is_cut:
            return
        if self._writer is None:
            if self.byte_count <= OUTPUT_TAIL_BYTES:
                self._head = self.tail
                self._wake()
                return
            self._writer = self._files.begin(self._name)
            chunk = self._head + chunk
        self._spill(self._writer, chunk)

    def finish(self) -> None:
        """End the output; `follow` yields the rest and stops."""
        assert not self.is_busy, f"{self._name} is finished while it writes"
        self.is_complete = True
        if self._writer is not None:
            self._files.end(self._name, self._writer, self._mark)
        self._wake()

    async def read(self, offset: int, limit: int = READ_BYTES) -> bytes:
        """Return part of the kept output, from the file or from memory."""
        if self._writer is not None and offset < self._stored:
            length = min(limit, self._stored - offset)
            return await self._files.read(self._writer.path, offset, length)
        start = offset - self._stored
        return (self._head + self._mark)[start : start + limit]

    async def follow(self, offset: int = 0) -> AsyncIterator[bytes]:
        """Yield the kept output as it arrives; nothing is buffered while the reader is busy."""
        while True:
            # Both are taken before the read, so that output written during the read is not missed.
            changed, was_complete = self._next_change(), self.is_complete
            if part := await self.read(offset):
                offset += len(part)
                yield part
            elif was_complete:
                return
            else:
                await changed.wait()

    def _next_change(self) -> asyncio.Event:
        if self._changed is None:
            self._changed = asyncio.Event()
        return self._changed

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    def _spill(self, writer: "_Writer", data: bytes) -> None:
        room = self._files.limit - self._stored
        if len(data) > room:
            self._is_cut = True
            data = data[:room] + _cut_mark(f"the limit of {self._files.limit} bytes is reached")
        self.is_busy = True
        self._files.write(writer, data, self._spilled)

    def _spilled(self, written: int, error: str) -> None:
        self.is_busy = False
        self._stored += written
        if self._stored:
            self._head = b""
        if error:
            self.cut, self._is_cut = error, True
            self._mark = _cut_mark(error)
        self._wake()
        self._writable()


class _Writer:
    """One file being written; used by one thread at a time."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1

    def write(self, data: bytes) -> tuple[int, str]:
        """Append *data*; return the number of bytes written, and the error if not all were."""
        written = 0
        try:
            if self._fd < 0:
                self._fd = _create(self.path)
            while written < len(data):
                written += os.write(self._fd, data[written:] if written else data)
        except OSError as error:
            return written, error.strerror or str(error)
        return written, ""

    def close(self, mark: bytes) -> None:
        """Close the file, after writing *mark* to it if that failed before; empty for no mark."""
        if self._fd < 0:
            return
        try:
            if mark:
                _end_with(self._fd, mark)
        finally:
            os.close(self._fd)
            self._fd = -1


def _end_with(fd: int, mark: bytes) -> None:
    size = os.fstat(fd).st_size
    try:
        if os.pwrite(fd, mark, size) == len(mark):
            return
    except OSError:
        pass  # The disk is still full: the mark replaces the last bytes, whose blocks exist.
    os.ftruncate(fd, size)
    os.pwrite(fd, mark, max(0, size - len(mark)))


def _create(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    for _ in range(2):  # Expiry may remove an empty folder between the two steps, once an hour.
        path.parent.mkdir(mode=0o700, exist_ok=True)
        try:
            return os.open(path, flags, 0o600)
        except FileNotFoundError:
            continue
    return os.open(path, flags, 0o600)


def _cut_mark(why: str) -> bytes:
    return (
        f"\n[rota: output cut here, {why}; "
        f"the last {OUTPUT_TAIL_BYTES} bytes are in the attempt's record]\n"
    ).encode()


def _hours(directory: Path) -> list[str]:
    return sorted(name for name in os.listdir(directory) if _HOUR.fullmatch(name))


def _measure(directory: Path) -> int:
    total = 0
    for hour in _hours(directory):
        with os.scandir(directory / hour) as entries:
            total += sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
    return total


def _find(directory: Path, name: str) -> Path | None:
    for hour in reversed(_hours(directory)):
        path = directory / hour / name
        if path.exists():
            return path
    return None


def _read(path: Path, offset: int, limit: int) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    try:
        return os.pread(fd, limit, offset)
    finally:
        os.close(fd)


def _expire(
    directory: Path, before: Instant, excess: int, count_max: int, in_use: frozenset[str]
) -> tuple[int, int]:
    removed = freed = 0
    for hour in _hours(directory):
        began_at = parse_instant(f"{hour}:00:00Z")
        if began_at >= before and freed >= excess:
            break  # The same is true of all later folders.
        with os.scandir(directory / hour) as entries:
            for entry in entries:
                if removed == count_max:
                    return removed, freed
                if entry.name in in_use:
                    continue
                stat = entry.stat(follow_symlinks=False)
                if stat.st_mtime_ns // 1_000 < before or freed < excess:
                    os.unlink(entry.path)
                    removed += 1
                    freed += stat.st_size
        _remove_if_empty(directory / hour)
    return removed, freed


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):  # The folder still has files.
        folder.rmdir()
