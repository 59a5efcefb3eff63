"""The processes of an attempt: identification and termination, even if they try to escape.

The means depends on how the attempt was started: always its process group; the process namespace of
its sandbox (`Namespace`); its cgroup (`rota.executor.kernel.cgroups`); or descent from its leader
(`rota.executor.kernel.subreaper`).
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
        """Return processes in it, without their descendants; called after the leader has ended.

        Empty where only a search through all processes of the machine could find them.
        """
        ...

    def kill(self) -> None:
        """Kill all of them; returns before they have ended."""
        ...

    def has_gone(self) -> bool:
        """Return True if all have ended; called repeatedly after `kill` until it is True."""
        ...


class Group:
    """The process group of an attempt's leader, which is not waited for as long as this is used.

    While the leader is a zombie its number cannot be given to another process, so the group of
    that number is this attempt's. A group of another user (a set-uid program) cannot be signalled.
    """

    def __init__(self, leader: int) -> None:
        self._leader = leader

    def terminate(self) -> None:
        """Send TERM to the group."""
        self._send(signal.SIGTERM)

    def members(self) -> list[int]:
        """Return none: the kernel does not list the members of a group."""
        return []

    def kill(self) -> None:
        """Kill all current members of the group; no fork can escape that."""
        self._send(signal.SIGKILL)

    def has_gone(self) -> bool:
        """Return True: no further processes are searched for."""
        return True

    def _send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._leader, number)


class Namespace:
    """A process namespace, known by its first process: with that, the kernel ends all others.

    Args:
        first: Its first process, bubblewrap's, numbered as it is here; it leads a session and a
            group, in which the program is started.
        pidfd: Of the same; `close` closes it.
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
        """Return none: the kernel ends them together with the leader, bubblewrap."""
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
