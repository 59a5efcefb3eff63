"""The processes of an attempt: identification and termination, even if they try to escape.

The processes are identified by their process group, and, depending on how the attempt was started,
by the process namespace of its sandbox (`Namespace`), by its cgroup
(`rota.executor.kernel.cgroups`) or by descent from its leader (`rota.executor.kernel.subreaper`).
"""

import os
import signal
from contextlib import suppress
from typing import Protocol

from rota.executor.kernel.pidfd_signals import has_ended, send
from rota.executor.kernel.procfs import children_of


class Tree(Protocol):
    """Processes of one attempt that are ended together."""

    def members(self) -> list[int]:
        """Return processes from which all others descend; called after the leader has ended.

        The list is empty if only a search through all processes of the machine could find them.
        """
        ...

    def kill(self) -> None:
        """Kill all processes, without waiting for their end."""
        ...

    def has_gone(self) -> bool:
        """Return True if all processes have ended; called after `kill`, until it returns True."""
        ...


class Group:
    """The process group of an attempt's leader, which must not be reaped while this is used.

    While the leader is a zombie, its number cannot be given to another process, so the group of
    that number is the attempt's. Processes of another user (set-uid programs) are not signalled.
    """

    def __init__(self, leader: int) -> None:
        self._leader = leader

    def terminate(self) -> None:
        """Send TERM to the group."""
        self._send(signal.SIGTERM)

    def members(self) -> list[int]:
        """Return an empty list: the kernel does not list the members of a group."""
        return []

    def kill(self) -> None:
        """Kill all members of the group; a fork at the same time cannot escape."""
        self._send(signal.SIGKILL)

    def has_gone(self) -> bool:
        """Return True: there is no search for processes that remain."""
        return True

    def _send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._leader, number)


class Namespace:
    """A process namespace; when its first process ends, the kernel kills all others.

    Args:
        first: The first process, which runs bubblewrap, by its number outside the namespace. It
            leads a session and a process group, in which the program is started.
        pidfd: A pidfd of the first process; `close` closes it.
    """

    def __init__(self, first: int, pidfd: int) -> None:
        self.first = first
        self._pidfd = pidfd

    def terminate(self) -> None:
        """Send TERM to the program's group.

        The first process of a namespace ignores TERM. If it has no child, it is either still
        setting up the sandbox, and no program could receive the signal, or its program has ended.
        In both cases it is killed at once.
        """
        if has_ended(self._pidfd):
            return
        if children_of(self.first):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.first, signal.SIGTERM)
        else:
            self.kill()

    def members(self) -> list[int]:
        """Return an empty list: the kernel ends the processes with the leader, bubblewrap."""
        return []

    def kill(self) -> None:
        """Kill the first process; the kernel then kills all others."""
        send(self._pidfd, signal.SIGKILL)

    def has_gone(self) -> bool:
        """Return True if the first process has ended; it is the last to end."""
        return has_ended(self._pidfd)

    def close(self) -> None:
        """Close the pidfd."""
        os.close(self._pidfd)
