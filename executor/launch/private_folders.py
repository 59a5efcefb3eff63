"""Private folders: each attempt begins in one that is empty and that no other uses.

Making a folder and removing it takes ext4 80 us of processor, and the next sync of the disk has to
write both down, the node's journal sync included. Most programs leave theirs as it is, and such a
folder serves again.
"""

import os
import shutil
import stat
from collections import deque
from contextlib import suppress
from itertools import count
from pathlib import Path

KEPT_MAX = 64
"""Folders that wait for another attempt: as many as run at once by default."""

_MODE = stat.S_IFDIR | 0o700


class Folders:
    """The private folders of one executor. Methods touch the disk, and any thread may call them.

    Args:
        directory: Where they lie; made if missing.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory = directory
        self._numbers = count(1)
        self._kept: deque[Path] = deque()

    def left(self) -> list[Path]:
        """Return what lies there; asked before the first `take`, what an earlier life has left."""
        return list(self._directory.iterdir())

    def take(self) -> Path:
        """Return an empty folder for one attempt.

        Raises:
            OSError: It cannot be made.
        """
        with suppress(IndexError):
            return self._kept.pop()
        while True:
            folder = self._directory / str(next(self._numbers))
            with suppress(FileExistsError):  # Left by an earlier life, and about to be removed.
                folder.mkdir(mode=0o700)
                return folder

    def give_back(self, folder: Path) -> bool:
        """Keep *folder*, which is not used any more, if it is as it was; tell whether it was."""
        is_as_new = _is_as_new(folder)
        if is_as_new:
            if len(self._kept) < KEPT_MAX:
                self._kept.append(folder)
            else:
                remove(folder)
        return is_as_new


def remove(folder: Path) -> None:
    """Remove *folder* and what is in it, as far as that can be removed."""
    shutil.rmtree(folder, ignore_errors=True)


def _is_as_new(folder: Path) -> bool:
    with suppress(OSError):
        found = os.lstat(folder)
        return found.st_mode == _MODE and found.st_uid == os.geteuid() and not os.listdir(folder)
    return False
