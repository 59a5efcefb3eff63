"""Paths of a warden's files in the data directory."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

LOCK = "warden.lock"
SOCKET = "warden.sock"
JOURNAL = "warden.journal"
LOG = "warden.log"


@contextmanager
def short_path(directory: Path, name: str) -> Generator[str]:
    """Give a short path of *name* in *directory*, for a socket's address; valid in the body only.

    An address has room for 108 bytes (unix(7)), and the path of a data directory may be longer.
    """
    folder = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{name}"
    finally:
        os.close(folder)
