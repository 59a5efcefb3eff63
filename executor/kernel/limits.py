"""Resource limits of an attempt, set before its program starts.

The program is started by a shell that first stops itself. While the shell is stopped, it is moved
into the attempt's cgroup; then it continues and becomes the program. So all processes of the
program are in the cgroup. The shell costs a millisecond, and only attempts with limits need it.

If the machine permits no cgroup, the memory limit becomes RLIMIT_DATA of each process, which
applies to the heap and to private mappings. (RLIMIT_AS would count memory that is only reserved,
and end Go and Java programs at once; RLIMIT_NPROC counts all processes of the user.)
"""

import os
import resource
import signal
from functools import cached_property
from hashlib import blake2s
from typing import NamedTuple

from rota.core.model.work import ResourceLimits
from rota.executor.kernel.cgroups import Cgroup, Cgroups

_STOPPED = ("/bin/sh", "-c", 'kill -STOP $$; exec "$@"', "sh")
_WHAT = {
    "cpu": "processors",
    "memory": "memory",
    "pids": "processes",
}


class Limited(NamedTuple):
    """The limits of one attempt that are in force.

    Attributes:
        cgroup: The attempt's cgroup; None without limits, or if the machine permits no cgroup.
        unenforced: One sentence for each limit that is not enforced, or only in part.
    """

    cgroup: Cgroup | None
    unenforced: tuple[str, ...]


UNLIMITED = Limited(None, ())


def stopped(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command that stops itself and, when it is continued, becomes *argv*."""
    return (*_STOPPED, *argv)


class Limiter:
    """Sets limits on processes started with `stopped`; to be used in one thread.

    Args:
        store_id: Distinguishes this node's cgroups from those of others on the machine.

    Attributes:
        name: The name of the cgroup that contains the cgroups of the attempts.
    """

    def __init__(self, store_id: str) -> None:
        self.name = f"rota-{blake2s(store_id.encode(), digest_size=8).hexdigest()}"

    @cached_property
    def _cgroups(self) -> Cgroups:
        return Cgroups(self.name)

    def limit(self, pid: int, name: str, limits: ResourceLimits) -> Limited:
        """Wait until *pid* is stopped, set *limits* on it and continue it.

        Limits that cannot be set are listed in `Limited.unenforced`.
        """
        stop = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert stop is not None, f"{pid} neither stopped nor ended"
        if stop.si_code != os.CLD_STOPPED:
            return UNLIMITED  # The process has ended: it was killed, or there is no shell.
        limited = self._put_on(pid, name, limits)
        os.kill(pid, signal.SIGCONT)
        return limited

    def close(self) -> None:
        """Remove the cgroups that contain the cgroups of the attempts."""
        if "_cgroups" in self.__dict__:
            self._cgroups.close()

    def _put_on(self, pid: int, name: str, limits: ResourceLimits) -> Limited:
        cgroup, failed = self._cgroups.make(name, limits)
        if cgroup is not None:
            try:
                cgroup.join(pid)
            except OSError as error:
                failed = dict.fromkeys(_WHAT, f"{error.filename}: {error.strerror}")
        unenforced = [
            f"the limit of {what} is not enforced: {failed[controller]}"
            for controller, what in _WHAT.items()
            if controller in failed and controller != "memory" and getattr(limits, controller)
        ]
        if limits.memory and "memory" in failed:
            unenforced.append(_limit_each(pid, limits.memory) + failed["memory"])
        return Limited(cgroup, tuple(unenforced))


def _limit_each(pid: int, memory: int) -> str:
    """Limit the memory of *pid* and its descendants, each alone; return the begin of a warning."""
    try:
        resource.prlimit(pid, resource.RLIMIT_DATA, (memory, memory))
    except PermissionError:  # The process of another user: it takes CAP_SYS_RESOURCE.
        return "the limit of memory is not enforced: "
    return "the limit of memory applies to each process alone, not to all of them together: "
