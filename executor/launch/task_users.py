"""Programs that run as another user of the machine.

A node of root, or with the capabilities of `rota.executor.kernel.capabilities`, starts programs as
users whom its setting ``task_users`` names. Nothing of the task's is executed with these rights:
the process changes its user between fork and exec, and enters the working directory afterwards. The
private folder of such an attempt belongs to its user. Its path must be accessible to the user, so
it is not in the data directory.
"""

import os
import pwd
import stat
import tempfile
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from rota.core.model.work import Work
from rota.executor.kernel.capabilities import lacks_effective, needs

BASE = Path("/var/tmp")
_MODE = stat.S_IFDIR | 0o711


class UserRefused(Exception):
    """A program cannot run as its user here; the message is for the owners of the job and node."""


class TaskUser(NamedTuple):
    """A user of the machine.

    Attributes:
        name: The name of the user.
        uid: The number of the user.
        gid: The number of the user's group.
        groups: The numbers of all groups of the user.
        home: The home directory.
    """

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str

    @property
    def variables(self) -> dict[str, str]:
        """The variables that a login sets."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}

    def entering(self, folder: str, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return the command that enters *folder*, with the rights of the user, and runs *argv*."""
        return ("/bin/sh", "-c", 'cd -- "$0" && exec "$@"', folder, *argv)


class TaskUsers:
    """The users as which programs may run. Methods access the disk and the database of users.

    Args:
        permitted: The names of the users.
        store_id: The id of the data directory, which is part of the name of the folder.
    """

    def __init__(self, permitted: Collection[str], store_id: str) -> None:
        self._permitted = permitted
        self._root = BASE / f"rota-users-{quote(store_id, safe='')}"

    def of(self, work: Work) -> TaskUser | None:
        """Return the user of *work*; None if it runs as the user of this process.

        Raises:
            UserRefused: The program cannot run as its user here.
        """
        name = work.user
        if not name and work.executor != "user":
            return None
        if name not in self._permitted:
            raise UserRefused(
                f"no program may run as the user {name!r} on this node: its setting task_users "
                "does not have this name"
            )
        if lacking := lacks_effective():
            raise UserRefused(f"this node cannot run programs as other users: {needs(lacking)}")
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            raise UserRefused(f"there is no user {name!r} on this node") from None
        if found.pw_uid == 0:
            raise UserRefused(f"{name!r} is root on this node; remove it from task_users")
        groups = tuple(os.getgrouplist(name, found.pw_gid))
        return TaskUser(name, found.pw_uid, found.pw_gid, groups, found.pw_dir)

    def take(self) -> Path:
        """Return an empty folder, which still belongs to this process's user.

        Raises:
            OSError: The folder cannot be made, or another user could replace it.
        """
        if not os.path.lexists(self._root):
            self._make_root()
        if not self._is_ours():
            raise OSError(None, f"{self._root} belongs to another user, or others can write there")
        return Path(tempfile.mkdtemp(dir=self._root))

    def hand_over(self, folder: Path, user: TaskUser) -> None:
        """Give *folder* and the files in it to *user*.

        Raises:
            OSError: The folder cannot be given to the user.
        """
        for entry in os.scandir(folder):
            os.chown(entry, user.uid, user.gid, follow_symlinks=False)
        # Last: from now on, the user can change what is in it.
        os.chown(folder, user.uid, user.gid, follow_symlinks=False)

    def left(self) -> list[Path]:
        """Return the existing folders; before the first `take`, those of an earlier process."""
        with suppress(OSError):
            return list(self._root.iterdir()) if self._is_ours() else []
        return []

    def _make_root(self) -> None:
        """Make the root; it appears with its final mode, as another thread may make it, too."""
        fresh = tempfile.mkdtemp(dir=BASE, prefix=self._root.name)
        os.chmod(fresh, stat.S_IMODE(_MODE))
        try:
            os.rename(fresh, self._root)
        except OSError:
            os.rmdir(fresh)

    def _is_ours(self) -> bool:
        """Return True if the root is a folder, and no link, that only this user can change."""
        found = self._root.lstat()
        return found.st_uid == os.geteuid() and found.st_mode == _MODE
