"""Programs that run as another user of the machine.

A node of root starts programs as users whom its setting ``task_users`` names. Nothing of the task's
is executed with the rights of root: the process changes its user between fork and exec, and enters
the working directory afterwards. The private folder of such an attempt belongs to its user. Its
path must be accessible to the user, so it is not in the data directory.

A path may lead elsewhere by the time of its next use. Folders are therefore made and handed over
relative to the descriptor of a folder that was checked to be root's alone.
"""

import os
import pwd
import secrets
import stat
from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from rota.core.model.work import Work
from rota.executor.launch.marked_folders import (
    FOLDER,
    MarkedFolder,
    find_marked,
    make_marked,
    remove_marked,
)

BASE = Path("/var/tmp")
NEEDED = {
    "CAP_CHOWN": 0,  # To give a private folder to its user.
    "CAP_DAC_OVERRIDE": 1,  # To read the reports in such a folder, and to remove it.
    "CAP_FOWNER": 3,  # To remove folders whose user made them sticky.
    "CAP_KILL": 5,
    "CAP_SETGID": 6,
    "CAP_SETUID": 7,
    "CAP_SYS_PTRACE": 19,  # To find processes of an attempt by their environment.
}
"""The capabilities (capabilities(7)) that are needed, which root may lack in a container."""
PREFIX = "rota-users-"
_MODE = 0o711


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
        store_id: The id of the data directory, by which left folders are found.
    """

    def __init__(self, permitted: Collection[str], store_id: str) -> None:
        self._permitted = permitted
        self._store_id = store_id

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
        if why := why_not_as_others():
            raise UserRefused(why)
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            raise UserRefused(f"there is no user {name!r} on this node") from None
        if found.pw_uid == 0:
            raise UserRefused(f"{name!r} is root on this node; remove it from task_users")
        groups = tuple(os.getgrouplist(name, found.pw_gid))
        return TaskUser(name, found.pw_uid, found.pw_gid, groups, found.pw_dir)

    def take(self) -> Path:
        """Return an empty folder, which still belongs to root.

        Raises:
            OSError: The folder cannot be made, or another user could replace it.
        """
        name = secrets.token_hex(8)
        os.mkdir(name, 0o700, dir_fd=self._root.descriptor)
        return self._root.path / name

    def hand_over(self, folder: Path, user: TaskUser) -> None:
        """Give *folder*, a result of `take`, and the files in it to *user*.

        Raises:
            OSError: The folder cannot be given to the user.
        """
        taken = os.open(folder.name, FOLDER, dir_fd=self._root.descriptor)
        try:
            for name in os.listdir(taken):
                os.chown(name, user.uid, user.gid, dir_fd=taken, follow_symlinks=False)
            # Last: from now on, the user can change what is in it.
            os.fchown(taken, user.uid, user.gid)
        finally:
            os.close(taken)

    def left(self) -> list[Path]:
        """Return the folders in use; before the first `take`, those of earlier processes."""
        return find_marked(BASE, PREFIX, _MODE, self._store_id)

    def close(self) -> None:
        """Remove the folder of all private folders; all attempts must have ended."""
        if root := self.__dict__.pop("_root", None):
            remove_marked(root)

    @cached_property
    def _root(self) -> MarkedFolder:
        """The folder of all private folders, made at the first use and held open."""
        found = os.stat(BASE)
        if found.st_uid != os.geteuid() or (
            found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX
        ):
            raise OSError(None, f"others can write to {BASE}, and replace folders there")
        return make_marked(BASE, PREFIX, _MODE, self._store_id)


def why_not_as_others() -> str:
    """Return why this process cannot run programs as other users; empty if it can."""
    if os.geteuid() != 0:
        return "this node cannot run programs as other users: only a node of root can"
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            held = int(line.split()[1], 16)
            lacking = ", ".join(name for name, bit in NEEDED.items() if not held >> bit & 1)
            if lacking:
                return f"this node cannot run programs as other users: its root lacks {lacking}"
    return ""
