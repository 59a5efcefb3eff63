"""Disk space reserved for the next log writes, so that a full disk does not stop a node at once.

The space is allocated beyond the end of RocksDB's newest log, and no other file can use it. While
all other writes to the disk fail, the node uses this space for entries that must still be
committed: a cancel, a pause or a missed fire, with a few hundred bytes each.
"""

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter_ns

AHEAD_BYTES = 16 << 20
"""The space reserved beyond the end of the log, in bytes."""

_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE of linux/falloc.h: the end of the file stays where it is.
_CHECK_INTERVAL_NS = 1_000_000_000


class LogSpace:
    """The reserved space of the newest log in *folder*.

    Args:
        folder: The folder of the database.
        ahead_bytes: The space that is reserved whenever less than half of it is left.
    """

    def __init__(self, folder: Path, ahead_bytes: int = AHEAD_BYTES) -> None:
        self._folder = folder
        self._ahead_bytes = ahead_bytes
        self._log: Path | None = None
        self._kept_to = 0
        self._checked_ns = -_CHECK_INTERVAL_NS

    def keep(self) -> None:
        """Reserve space if needed, at most once a second; this takes microseconds or an allocation.

        Nothing is reserved on a file system that does not support it or has no space: writes then
        fail as they would without this class.
        """
        now_ns = perf_counter_ns()
        if now_ns - self._checked_ns < _CHECK_INTERVAL_NS:
            return
        self._checked_ns = now_ns
        with suppress(OSError, ValueError):  # There is no log yet.
            self._keep_for(max(self._folder.glob("*.log"), key=_number))

    def _keep_for(self, log: Path) -> None:
        if log != self._log:
            self._log, self._kept_to = log, 0
        size = log.stat().st_size
        end = size + self._ahead_bytes
        if self._kept_to - size < self._ahead_bytes // 2 and _allocate(log, end):
            self._kept_to = end


def _number(log: Path) -> int:
    # RocksDB pads the numbers of logs to six digits; beyond that their names are not in order.
    return int(log.stem)


def _allocate(file: Path, end: int) -> bool:
    """Allocate space for *file* up to *end*; return False if there is none, or no support."""
    if _fallocate is None:
        return False
    descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    try:
        return _fallocate(descriptor, _KEEP_SIZE, 0, end) == 0
    finally:
        os.close(descriptor)


def _load_fallocate() -> Callable[[int, int, int, int], int] | None:
    """Return fallocate(2), which `os` lacks; posix_fallocate would move the end of the file."""
    function = getattr(ctypes.CDLL(None), "fallocate", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return function


_fallocate = _load_fallocate()
