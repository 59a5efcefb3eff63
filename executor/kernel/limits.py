"""Limits of an attempt: put on before its program begins, and what could not be put on.

The program is started by a shell that stops itself first. While it stands still it is put into its
cgroup; then it goes on and becomes the program. So nothing that the program starts is outside. The
shell costs a millisecond, and only who has limits pays it.

Where the machine permits no cgroup, the limit of memory becomes RLIMIT_DATA of each process: heap
and private mappings. (RLIMIT_AS would count what a program only reserves, which ends Go and Java
programs at once; RLIMIT_NPROC counts all processes of the user, whoever started them.)
"""

import os
import resource
import signal
from functools import cached_property
from hashlib import blake2s
from typing import NamedTuple

from rota.core.model.attempt import Limits
from rota.executor.kernel.cgroups import Cgroup, Cgroups

_STOPPED = ("/bin/sh", "-c", 'kill -STOP $$; exec "$@"', "sh")
_WHAT = {
    "cpu": "processors",
    "memory": "memory",
    "pids": "processes",
}


class Limited(NamedTuple):
    """What holds an attempt to its limits.

    Attributes:
        cgroup: None where the machine permits none.
        unenforced: What is not held to, a sentence each.
    """

    cgroup: Cgroup | None
    unenforced: tuple[str, ...]


UNLIMITED = Limited(None, ())


def stopped(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return what stops itself and then, when it is let go on, becomes *argv*."""
    return (*_STOPPED, *argv)


class Limiter:
    """Puts limits on what `stopped` started; for one thread.

    Args:
        store_id: Tells this node's cgroups from those of others on the machine.

    Attributes:
        name: Of the cgroup that those of its attempts are in.
    """

    def __init__(self, store_id: str) -> None:
        self.name = f"rota-{blake2s(store_id.encode(), digest_size=8).hexdigest()}"

    @cached_property
    def _cgroups(self) -> Cgroups:
        return Cgroups(self.name)

    def limit(self, pid: int, name: str, limits: Limits) -> Limited:
        """Wait until *pid* stands still, put *limits* on it and let it go on.

        Whatever of that cannot be done is told in `Limited.unenforced`.
        """
        stop = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert stop is not None, f"{pid} neither stopped nor ended"
        if stop.si_code != os.CLD_STOPPED:
            return UNLIMITED  # It has ended: somebody killed it, or there is no shell.
        limited = self._put_on(pid, name, limits)
        os.kill(pid, signal.SIGCONT)
        return limited

    def close(self) -> None:
        """Remove what was made for all attempts."""
        if "_cgroups" in self.__dict__:
            self._cgroups.close()

    def _put_on(self, pid: int, name: str, limits: Limits) -> Limited:
        cgroup, failed = self._cgroups.make(name, limits)
        if cgroup is not None:
            try:
                cgroup.join(pid)
            except OSError as error:
                failed = dict.fromkeys(_WHAT, f"{error.filename}: {error.strerror}")
        told = [
            f"the limit of {what} is not enforced: {failed[controller]}"
            for controller, what in _WHAT.items()
            if controller in failed and controller != "memory" and getattr(limits, controller)
        ]
        if limits.memory and "memory" in failed:
            resource.prlimit(pid, resource.RLIMIT_DATA, (limits.memory, limits.memory))
            told.append(
                "the limit of memory holds for each process alone, not for all together: "
                + failed["memory"]
            )
        return Limited(cgroup, tuple(told))
