"""All processes of an attempt, whatever they did to get away: how they are known, how they end.

What holds an attempt together depends on how it was started: always its process group, the
process namespace of its sandbox (`Namespace`), its cgroup (`rota.executor.kernel.cgroups`), or that
they descend from it (`rota.executor.kernel.subreaper`).
"""

import os
import signal
from contextlib import suppress
from typing import Protocol

from rota.executor.kernel.pidfd_signals import has_ended, send
from rota.executor.kernel.procfs import children_of


class Tree(Protocol):
    """Processes of one attempt that are ended together."""

    def kill(self) -> None:
        """Kill all of them; returns before they have ended."""
        ...

    def has_gone(self) -> bool:
        """Tell whether all have ended; asked after `kill`, again and again until it is so."""
        ...


class Group:
    """The process group of an attempt's leader, which is not waited for as long as this is used.

    While the leader is a zombie its number cannot be given to another process, so the group of
    that number is this attempt's. A group of another user (a set-uid program) cannot be signalled.
    """

    def __init__(self, leader: int) -> None:
        self._leader = leader

    def terminate(self) -> None:
        """Ask all to end."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Kill all that are in the group now; forking does not outrun it."""
        self._send(signal.SIGKILL)

    def has_gone(self) -> bool:
        """Return True: what else there may be is not looked for."""
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
        """Ask the program's group to end.

        The first process ignores TERM, as every first process does. Without a child it is either
        still arranging the sandbox, when no program could hear the signal, or its program has
        ended: then nothing is worth waiting for.
        """
        if has_ended(self._pidfd):
            return
        if children_of(self.first):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.first, signal.SIGTERM)
        else:
            self.kill()

    def kill(self) -> None:
        """Kill the first process, and with it all."""
        send(self._pidfd, signal.SIGKILL)

    def has_gone(self) -> bool:
        """Tell whether the first process has ended; it is the last to do so."""
        return has_ended(self._pidfd)

    def close(self) -> None:
        """Let go of the pidfd."""
        os.close(self._pidfd)
