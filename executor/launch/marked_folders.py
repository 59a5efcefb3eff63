"""Folders that are found again by the id of the data directory that made them.

They are in a folder in which all users may make others, so their names are random: no user can make
one of them first. A folder counts only if it belongs to this process's user and has the mode
with which it was made.
"""

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""The flags with which a folder, and no link, is opened."""
MARK = ".store"
"""The file with the id of the data directory."""
_ID_BYTES_MAX = 4096


class MarkedFolder(NamedTuple):
    """A folder with a mark, and a descriptor of it, which is open as long as the process lives."""

    path: Path
    descriptor: int


def make_marked(base: Path, prefix: str, mode: int, store_id: str) -> MarkedFolder:
    """Make a folder in *base* whose name begins with *prefix*.

    Raises:
        OSError: It cannot be made; nothing is left of it.
    """
    path = Path(tempfile.mkdtemp(dir=base, prefix=prefix))
    descriptor = -1
    try:
        descriptor = os.open(path, FOLDER)
        write_new(MARK, store_id.encode(), 0o400, descriptor)
        os.fchmod(descriptor, mode)
    except BaseException:
        if descriptor >= 0:
            os.close(descriptor)
        shutil.rmtree(path, ignore_errors=True)
        raise
    return MarkedFolder(path, descriptor)


def remove_marked(folder: MarkedFolder) -> None:
    """Close and remove a folder, which is not used any more."""
    os.close(folder.descriptor)
    shutil.rmtree(folder.path, ignore_errors=True)


def find_marked(base: Path, prefix: str, mode: int, store_id: str) -> list[Path]:
    """Return the folders that processes of a data directory have made in *base*."""
    return [path for path in base.glob(f"{prefix}*") if _mark_of(path, mode) == store_id]


def write_new(name: str, content: bytes, mode: int, folder: int) -> None:
    """Write a file that does not exist yet in the folder of a descriptor."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    with open(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(content)


def _mark_of(path: Path, mode: int) -> str | None:
    """Return the id in a folder; None if another user could have made it."""
    with suppress(OSError, UnicodeDecodeError):
        folder = os.open(path, FOLDER)
        try:
            found = os.fstat(folder)
            if found.st_uid == os.geteuid() and found.st_mode == stat.S_IFDIR | mode:
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
                with open(os.open(MARK, flags, dir_fd=folder), "rb") as file:
                    return file.read(_ID_BYTES_MAX).decode()
        finally:
            os.close(folder)
    return None
