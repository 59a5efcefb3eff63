"""Files of secrets: in memory, in a folder of each attempt, removed when the attempt has ended.

The folders of an executor are in one folder ``/dev/shm/rota-secrets-...``, which only the node's
user can enter (`rota.executor.launch.marked_folders`). Those of a killed warden are removed by its
guard, or by the guard of the next warden.
"""

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from rota.core.model.attempt import AttemptKey
from rota.executor.launch.marked_folders import (
    FOLDER,
    MarkedFolder,
    find_marked,
    make_marked,
    remove_marked,
    write_new,
)
from rota.executor.secret_values import SecretUnavailable

MEMORY = Path("/dev/shm")
INSIDE = "/run/rota-secrets"
"""The path of the folder in sandboxes and in containers."""
VARIABLE = "ROTA_SECRETS"
"""The variable with the path of the folder."""
PREFIX = "rota-secrets-"
_MODE = 0o700
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})


class SecretFiles:
    """The folders of one executor. Methods access memory only, and never a disk.

    Args:
        store_id: The id of the data directory.
        name: The name of the executor.
    """

    def __init__(self, store_id: str, name: str) -> None:
        self._store_id = store_id
        self._name = name

    def make(self, key: AttemptKey, files: Mapping[str, bytes], *, is_shared: bool = False) -> Path:
        """Make the folder of an attempt, and return its path.

        Args:
            key: The attempt.
            files: The content of each file.
            is_shared: Whether users of a container need access; they reach the folder only by its
                mount.

        Raises:
            SecretUnavailable: The folder cannot be made, or would not be in memory and private.
        """
        try:
            return self._make(self._folder(key), files, is_shared=is_shared)
        except OSError as error:
            reason = f"cannot make the files of its secrets: {error.strerror}"
            raise SecretUnavailable(reason) from error

    def _make(self, name: str, files: Mapping[str, bytes], *, is_shared: bool) -> Path:
        root = self._root
        os.mkdir(name, 0o700, dir_fd=root.descriptor)
        try:
            folder = os.open(name, FOLDER, dir_fd=root.descriptor)
            try:
                for file, content in files.items():
                    write_new(file, content, 0o444 if is_shared else 0o400, folder)
                # Last, and without the umask: the folder is not writable.
                os.fchmod(folder, 0o555 if is_shared else 0o500)
            finally:
                os.close(folder)
        except BaseException:
            self._remove(name)
            raise
        return root.path / name

    def remove(self, key: AttemptKey) -> None:
        """Remove the folder of an attempt, if there is one."""
        if "_root" in self.__dict__:
            self._remove(self._folder(key))

    def close(self) -> None:
        """Remove the folder of all attempts, which must have ended."""
        if root := self.__dict__.pop("_root", None):
            remove_marked(root)

    def _remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.chmod(name, 0o700, dir_fd=self._root.descriptor)
            shutil.rmtree(name, dir_fd=self._root.descriptor)

    def _folder(self, key: AttemptKey) -> str:
        return f"{self._name}.{key.file_name}"

    @cached_property
    def _root(self) -> MarkedFolder:
        """The folder of all attempts, made at the first use and held open."""
        if not _is_in_memory(MEMORY):
            raise OSError(None, f"{MEMORY} is not in memory (tmpfs), so secrets cannot be files")
        return make_marked(MEMORY, PREFIX, _MODE, self._store_id)


def folders_of(store_id: str) -> list[Path]:
    """Return the folders of the executors of a data directory."""
    return find_marked(MEMORY, PREFIX, _MODE, store_id)


def remove_all(store_id: str) -> None:
    """Remove the files of all attempts of a data directory, which must have ended."""
    for root in folders_of(store_id):
        with suppress(OSError):
            for folder in root.iterdir():
                folder.chmod(0o700)
            shutil.rmtree(root)


def touches_secrets(path: str) -> bool:
    """Return True if *path*, without links, shows files of secrets of any node, or is in them."""
    memory = Path(os.path.realpath(MEMORY))
    if memory.is_relative_to(path):
        return True
    below = Path(path).relative_to(memory) if Path(path).is_relative_to(memory) else None
    return below is not None and below.parts[0].startswith(PREFIX)


def _is_in_memory(folder: Path) -> bool:
    """Return True if *folder* is the mount point of a file system in memory; proc_mounts(5)."""
    kinds = ""
    with open("/proc/self/mounts") as mounts:
        for line in mounts:
            _, point, kind, *_ = line.split(" ")
            if point == str(folder):
                kinds = kind  # The last mount at a point hides the others.
    return kinds in _IN_MEMORY
