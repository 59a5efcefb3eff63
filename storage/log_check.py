"""A check of RocksDB's log files before RocksDB reads them.

In every recovery mode RocksDB's reader hangs, with the GIL held, at a record whose type byte claims
that its file was recycled, which never happens here: one flipped bit, or one random byte in fifty,
in a header suffices (found with rocksdict 0.3.29; ``test_store_rocks.py`` flips them all). A node
that hangs at its start gives no reason. The reader itself reports all other errors in a log.

A log consists of blocks of 32 KiB, and a block of fragments. A fragment has a checksum (4 bytes), a
length (2, little-endian), a type (1) and that many bytes of data. Zeros fill the end of a block in
which no header fits. The manifest has the same format.
"""

from mmap import ACCESS_READ, mmap
from pathlib import Path

_BLOCK_BYTES = 32768
_HEADER_BYTES = 7
_RECYCLED_TYPES = frozenset({5, 6, 7, 8, 11})


def unreadable_record(folder: Path) -> str | None:
    """Return the place of the first record under *folder* that would hang RocksDB, or None.

    Only headers are read: this takes 30 ms for 128 MiB of records of 2 KiB.
    """
    for file in (*sorted(folder.glob("MANIFEST-*")), *sorted(folder.glob("*.log"))):
        offset = _recycled_fragment(file)
        if offset is not None:
            return f"{file} at offset {offset}"
    return None


def _recycled_fragment(file: Path) -> int | None:
    with file.open("rb") as opened:
        size = file.stat().st_size
        if size == 0:
            return None
        with mmap(opened.fileno(), 0, access=ACCESS_READ) as content:
            for block in range(0, size, _BLOCK_BYTES):
                # After an error in a block the reader continues with the next block.
                offset, end = block, min(block + _BLOCK_BYTES, size)
                while offset + _HEADER_BYTES <= end:
                    kind = content[offset + 6]
                    if kind in _RECYCLED_TYPES:
                        return offset
                    if kind == 0:
                        break
                    offset += _HEADER_BYTES + content[offset + 4] + (content[offset + 5] << 8)
    return None
