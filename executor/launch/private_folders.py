"""Private folders: each attempt starts in an empty folder that no other attempt uses.

On ext4, making and removing a folder costs 80 us of processor time, and the next sync of the disk,
also one of the node's journal, has to write both changes. Most programs leave their folder
unchanged, and such a folder is used again.
"""

import logging
import os
import shutil
import stat
import subprocess
from collections import deque
from contextlib import suppress
from itertools import count
from pathlib import Path

log = logging.getLogger(__name__)

KEPT_MAX = 64
"""The number of folders kept for other attempts: by default, as many attempts run at once."""

_MODE = stat.S_IFDIR | 0o700


class Folders:
    """The private folders of one executor. Methods access the disk; any thread may call them.

    Args:
        directory: The folder that contains them; made if missing.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory = directory
        self._numbers = count(1)
        self._kept: deque[Path] = deque()

    def left(self) -> list[Path]:
        """Return the existing folders; before the first `take`, those of an earlier process."""
        return list(self._directory.iterdir())

    def take(self) -> Path:
        """Return an empty folder for one attempt.

        Raises:
            OSError: The folder cannot be made.
        """
        with suppress(IndexError):
            return self._kept.pop()
        while True:
            folder = self._directory / str(next(self._numbers))
            with suppress(FileExistsError):  # Left by an earlier process, and removed soon.
                folder.mkdir(mode=0o700)
                return folder

    def give_back(self, folder: Path) -> bool:
        """Return True if *folder* is unchanged; it is then kept for reuse, or removed."""
        is_as_new = _is_as_new(folder)
        if is_as_new:
            if len(self._kept) < KEPT_MAX:
                self._kept.append(folder)
            else:
                remove(folder)
        return is_as_new


def remove(folder: Path) -> None:
    """Remove *folder* and its content, as far as possible."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:  # Its folders are in each other, a thousand or more.
        subprocess.run(("rm", "-rf", "--", folder), stdin=subprocess.DEVNULL, capture_output=True)
    if folder.exists():
        log.warning("folder of an attempt not removed", extra={"folder": str(folder)})


def _is_as_new(folder: Path) -> bool:
    with suppress(OSError):
        found = os.lstat(folder)
        return found.st_mode == _MODE and found.st_uid == os.geteuid() and not os.listdir(folder)
    return False
