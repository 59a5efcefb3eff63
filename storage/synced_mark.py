"""A file beside the database with the newest ticket known to be durable.

Without this file, a database whose log lost its end looks like one to which nothing more was
written. The file is written after every sync, so its ticket is never too high. The file itself is
synced at most once a second, at almost no cost: after ``kill -9`` it is exact, after a power loss
it may be a second behind.
"""

import os
import re
from pathlib import Path
from time import perf_counter_ns
from zlib import crc32

from rota.storage.store import StoreDamaged, Ticket

FILE_NAME = "SYNCED"

_SYNC_INTERVAL_NS = 1_000_000_000
_TEXT = re.compile(rb"(\d{20}) ([0-9a-f]{8})\n")


class SyncedMark:
    """The file ``SYNCED`` in *folder*: a ticket in decimal, and its CRC-32.

    Attributes:
        ticket: The newest ticket known to be durable; 0 if there was no file.

    Raises:
        StoreDamaged: The content of the file is invalid.
    """

    def __init__(self, folder: Path) -> None:
        file = folder / FILE_NAME
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._synced_ns = perf_counter_ns()
        try:
            self.ticket = _parse(os.pread(self._descriptor, 64, 0), file)
        except StoreDamaged:
            self.close()
            raise

    def record(self, ticket: Ticket) -> None:
        """Record that everything up to *ticket* is durable; called in the flusher's thread."""
        self.ticket = ticket
        os.pwrite(self._descriptor, _format(ticket), 0)
        # perf_counter, not a Clock: no decision depends on the interval of these syncs.
        now_ns = perf_counter_ns()
        if now_ns - self._synced_ns >= _SYNC_INTERVAL_NS:
            os.fdatasync(self._descriptor)
            self._synced_ns = now_ns

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _format(ticket: Ticket) -> bytes:
    digits = b"%020d" % ticket
    return b"%b %08x\n" % (digits, crc32(digits))


def _parse(text: bytes, file: Path) -> Ticket:
    if not text:
        return Ticket(0)  # New, or the process ended before it wrote the file.
    found = _TEXT.fullmatch(text)
    if not found or crc32(found[1]) != int(found[2], 16):
        raise StoreDamaged(
            f"{file} is damaged: its content is {text!r}. Remove the file to start without a check "
            "for a missing end of the log, or give the node an empty data directory, which is then "
            "filled from the other replicas"
        )
    return Ticket(int(found[1]))
