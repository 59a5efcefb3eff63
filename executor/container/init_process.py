"""The first process of a container, as long as the engine is on this machine.

When it ends, the kernel kills every other process of the container (pid_namespaces(7)). So killing
it ends the container, and its end proves that the container has ended, even while the engine hangs.
Every user can watch it; root and its own user can kill it.
"""

import os
import signal
from pathlib import Path

from rota.executor.kernel.cgroups import Cgroup, CgroupRoot, Counted
from rota.executor.kernel.pidfd_signals import has_ended, hold, send

_CGROUPS = Path("/sys/fs/cgroup")


class InitProcess:
    """One first process; holds a descriptor until `close`.

    Attributes:
        pidfd: Readable when it has ended.
    """

    __slots__ = ("_group", "pidfd")

    def __init__(self, pidfd: int, group: Cgroup) -> None:
        self.pidfd = pidfd
        self._group = group

    @classmethod
    def find(cls, pid: int, container_id: str) -> "InitProcess | None":
        """Return the process *pid* if it is the first one of the container *container_id* here.

        None if it has ended, or if the number is one of another machine or another PID namespace,
        where it may name anybody: its control groups must carry the container's id.
        """
        pidfd = hold(pid)
        if pidfd is None:
            return None
        try:
            groups = Path(f"/proc/{pid}/cgroup").read_text()
        except OSError:
            groups = ""
        # It lives, so that the number was its own when the file was read.
        if container_id in groups and not has_ended(pidfd):
            return cls(pidfd, _group_of(groups))
        os.close(pidfd)
        return None

    def has_ended(self) -> bool:
        """Return True if it has ended, even if the loop has not seen it yet."""
        return has_ended(self.pidfd)

    def kill(self) -> None:
        """Kill it, and with it the container, as far as this process may."""
        send(self.pidfd, signal.SIGKILL)

    def counted(self) -> Counted:
        """Return what the kernel has counted for the container so far.

        All zero once the engine has removed its control groups, some milliseconds after its end.
        """
        return self._group.counted()

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.pidfd)


def _group_of(groups: str) -> Cgroup:
    """Return what counts for a process whose ``/proc/PID/cgroup`` is *groups*; see cgroups(7)."""
    path_of: dict[str, str] = {}
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        path_of.update(dict.fromkeys(controllers.split(","), path.lstrip("/")))
    v1 = {name: path_of[name] for name in ("memory", "cpuacct") if name in path_of}
    if v1:
        return Cgroup({name: CgroupRoot(_CGROUPS / name / path, 1) for name, path in v1.items()})
    unified = CgroupRoot(_CGROUPS / path_of.get("", ""), 2)
    return Cgroup({"memory": unified, "unified": unified})
