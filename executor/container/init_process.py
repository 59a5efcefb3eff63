"""The first process of a container, if the engine is on this machine.

When the first process ends, the kernel kills every other process of the container
(pid_namespaces(7)). So killing it ends the container, and its end proves that the container has
ended, even while the engine hangs. Every user can watch it; root and its own user can kill it.
"""

import os
import signal
from pathlib import Path

from rota.executor.kernel.cgroups import Cgroup, CgroupRoot, Counted
from rota.executor.kernel.pidfd_signals import has_ended, hold, send

_CGROUPS = Path("/sys/fs/cgroup")


class InitProcess:
    """The first process of one container; holds a descriptor until `close`.

    Attributes:
        pidfd: Readable when the process has ended.
    """

    __slots__ = ("_group", "pidfd")

    def __init__(self, pidfd: int, group: Cgroup) -> None:
        self.pidfd = pidfd
        self._group = group

    @classmethod
    def find(cls, pid: int, container_id: str) -> "InitProcess | None":
        """Return the process *pid* if it is the first process of the container *container_id*.

        None if the process has ended, or if the number is from another machine or another PID
        namespace and identifies a different process here: the names of the process's control groups
        must contain the container's id.
        """
        pidfd = hold(pid)
        if pidfd is None:
            return None
        try:
            groups = Path(f"/proc/{pid}/cgroup").read_text()
        except OSError:
            groups = ""
        # If it has not ended, the number was its own when the file was read.
        if container_id in groups and not has_ended(pidfd):
            return cls(pidfd, _group_of(groups))
        os.close(pidfd)
        return None

    def has_ended(self) -> bool:
        """Return True if the process has ended, even if that is not handled on the loop yet."""
        return has_ended(self.pidfd)

    def kill(self) -> None:
        """Kill the process, and with it the container, if this process has the right to do so."""
        send(self.pidfd, signal.SIGKILL)

    def counted(self) -> Counted:
        """Return the kernel's measurements of the container so far.

        All are zero once the engine has removed the container's control groups, some milliseconds
        after its end.
        """
        return self._group.counted()

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.pidfd)


def _group_of(groups: str) -> Cgroup:
    """Return the control groups of a process with *groups* in ``/proc/PID/cgroup``; cgroups(7)."""
    path_of: dict[str, str] = {}
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        path_of.update(dict.fromkeys(controllers.split(","), path.lstrip("/")))
    v1 = {name: path_of[name] for name in ("memory", "cpuacct") if name in path_of}
    if v1:
        return Cgroup({name: CgroupRoot(_CGROUPS / name / path, 1) for name, path in v1.items()})
    unified = CgroupRoot(_CGROUPS / path_of.get("", ""), 2)
    return Cgroup({"memory": unified, "unified": unified})
