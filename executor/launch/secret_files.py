"""Files of secrets: in memory, in a folder of each attempt, removed when the attempt has ended.

The folders are in ``/dev/shm/rota-secrets-STORE``, which only the node's user can enter. They are
removed by the executor; those of a killed warden by its guard, or by the guard of the next warden.
"""

import os
import shutil
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from rota.core.model.attempt import AttemptKey

MEMORY = Path("/dev/shm")
INSIDE = "/run/rota-secrets"
"""The path of the folder in sandboxes and in containers."""
VARIABLE = "ROTA_SECRETS"
"""The variable with the path of the folder."""
_PREFIX = "rota-secrets-"
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})


class SecretFiles:
    """The folders of one executor. Methods access memory only, and never a disk.

    Args:
        store_id: The id of the data directory.
        name: The name of the executor.
    """

    def __init__(self, store_id: str, name: str) -> None:
        self.root = folder_of(store_id)
        self._name = name

    def make(self, key: AttemptKey, files: Mapping[str, bytes], *, is_shared: bool = False) -> Path:
        """Make the folder of an attempt, and return its path.

        Args:
            key: The attempt.
            files: The content of each file.
            is_shared: Whether users of a container need access; they reach the folder only by its
                mount.

        Raises:
            OSError: The folder cannot be made, or would not be in memory and private.
        """
        _make_root(self.root)
        folder = self._folder(key)
        folder.mkdir(mode=0o700)
        try:
            for name, content in files.items():
                _write(folder / name, content, 0o444 if is_shared else 0o400)
            # Last, and without the umask: the folder is not writable.
            folder.chmod(0o555 if is_shared else 0o500)
        except BaseException:
            self.remove(key)
            raise
        return folder

    def remove(self, key: AttemptKey) -> None:
        """Remove the folder of an attempt, if there is one."""
        folder = self._folder(key)
        with suppress(FileNotFoundError):
            folder.chmod(0o700)
            shutil.rmtree(folder)

    def _folder(self, key: AttemptKey) -> Path:
        return self.root / f"{self._name}.{key.execution_id}.{key.task}.{key.number}"


def folder_of(store_id: str) -> Path:
    """Return the folder of all attempts of a data directory."""
    return MEMORY / f"{_PREFIX}{quote(store_id, safe='')}"


def remove_all(store_id: str) -> None:
    """Remove the files of all attempts of a data directory, which must have ended."""
    root = folder_of(store_id)
    with suppress(OSError):
        if not _is_ours(root):
            return
        for folder in root.iterdir():
            folder.chmod(0o700)
        shutil.rmtree(root)


def _make_root(root: Path) -> None:
    if not _is_in_memory(root.parent):
        raise OSError(None, f"{root.parent} is not in memory (tmpfs), so secrets cannot be files")
    with suppress(FileExistsError):
        root.mkdir(mode=0o700)
    if not _is_ours(root):
        raise OSError(None, f"{root} belongs to another user, or other users can enter it")


def _is_ours(root: Path) -> bool:
    """Return True if *root* is a folder, and no link, that only this user can enter."""
    found = root.lstat()
    return found.st_uid == os.geteuid() and found.st_mode == stat.S_IFDIR | 0o700


def _is_in_memory(folder: Path) -> bool:
    """Return True if *folder* is the mount point of a file system in memory; proc_mounts(5)."""
    kinds = ""
    with open("/proc/self/mounts") as mounts:
        for line in mounts:
            _, point, kind, *_ = line.split(" ")
            if point == str(folder):
                kinds = kind  # The last mount at a point hides the others.
    return kinds in _IN_MEMORY


def _write(path: Path, content: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600)
    with open(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        file.write(content)
