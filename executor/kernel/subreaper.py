"""Orphans of attempts without sandbox and cgroup: found by descent, and killed.

This process becomes a *subreaper* (prctl(2)): when a process of an attempt ends, its children
become children of this process instead of process 1. So any process that left its group is a child
of this process, or descends from one, as soon as the attempt's leader and its group have ended.

The attempt of an orphan is identified by its group or session, otherwise by its environment. An
orphan that left both, and whose environment is empty or cannot be read, may belong to any attempt
that ran when the orphan was first found, and is killed with the last of these attempts.

The kernel assigns orphans to the *main thread*. Every child of the main thread that did not exist
when the `Subreaper` was made is taken for an orphan and reaped, so other code in this process must
start processes in another thread.
"""

import os
import signal
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import suppress

from rota.core.model.attempt import AttemptKey
from rota.core.timing.instants import Duration
from rota.executor.kernel.env_marker import STORE_VARIABLE, key_in
from rota.executor.kernel.environment_reader import EnvironmentReader
from rota.executor.kernel.one_thread import one_thread
from rota.executor.kernel.pidfd_signals import hold, send, wait_ends
from rota.executor.kernel.prctl import set_subreaper
from rota.executor.kernel.process_trees import Group
from rota.executor.kernel.procfs import children_of, status_of

_PART = 4096
_HELD_MAX = 500  # The number of descriptors; more descendants take another round.


class Subreaper:
    """The orphans of attempts; used on one loop.

    Args:
        environments: Reads the environments of orphans; a read blocks the loop.
    """

    def __init__(self, environments: EnvironmentReader | None = None) -> None:
        self._environments = environments or EnvironmentReader()
        set_subreaper(on=True)
        path = f"/proc/self/task/{os.getpid()}/children"
        self._children = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._spared = set(self._listed())
        self._running: dict[int, AttemptKey] = {}
        self._owners: dict[int, frozenset[AttemptKey]] = {}
        self._killer = one_thread("killer")

    def tree(self, leader: int, key: AttemptKey) -> "Descendants":
        """Return the tree of *leader*, which has just been started."""
        self._running[leader] = key
        return Descendants(self, leader, key)

    def spare(self, pid: int) -> None:
        """Exclude *pid*, which may become an orphan: other code reaps it."""
        self._spared.add(pid)

    def unspare(self, pid: int) -> None:
        """Treat *pid* as an orphan again, if it exists."""
        self._spared.discard(pid)

    def look(self) -> None:
        """Reap ended orphans and identify the attempts of new ones; called periodically."""
        found = [pid for pid in self._listed() if pid not in self._spared]
        ended = [pid for pid in found if _is_waited_for(pid)]
        alive = set(found).difference(ended)
        self._owners = {pid: self._owners.get(pid) or self._owners_of(pid) for pid in sorted(alive)}

    def orphans_of(self, key: AttemptKey) -> list[int]:
        """Return the orphans that belong, or may belong, to *key* and to no other attempt."""
        self.look()
        others = set(self._running.values()) - {key}
        return [
            pid for pid, owners in self._owners.items() if key in owners and not owners & others
        ]

    def kill(self, orphans: list[int]) -> Future[None]:
        """Kill *orphans* and all their descendants, in a thread."""
        return self._killer.submit(end_descendants, orphans)

    def forget(self, leader: int) -> None:
        """Forget the attempt of *leader*, of which no process is left."""
        self._running.pop(leader, None)

    def close(self) -> None:
        """Stop being a subreaper: orphans become children of process 1 again."""
        set_subreaper(on=False)
        os.close(self._children)
        self._killer.shutdown(wait=False)

    def _listed(self) -> list[int]:
        listed = part = os.pread(self._children, _PART, 0)
        while part:
            part = os.pread(self._children, _PART, len(listed))
            listed += part
        return [int(pid) for pid in listed.split()]

    def _owners_of(self, pid: int) -> frozenset[AttemptKey]:
        status = status_of(pid)
        if status is None or status.has_ended:
            return frozenset()
        key = self._running.get(status.group) or self._running.get(status.session)
        if key is not None:
            return frozenset((key,))
        environment = self._environments.read(pid)
        if environment is not None and STORE_VARIABLE in environment:
            key = key_in(environment)
            return frozenset((key,) if key is not None else ())
        return frozenset(self._running.values())


class Descendants(Group):
    """The group of a leader and all its descendants."""

    def __init__(self, descent: Subreaper, leader: int, key: AttemptKey) -> None:
        super().__init__(leader)
        self._descent = descent
        self._key = key
        self._killing: Future[None] | None = None

    def members(self) -> list[int]:
        """Return the orphans; all others descend from them, as the leader has ended."""
        return self._descent.orphans_of(self._key)

    def has_gone(self) -> bool:
        """Return True if no orphan is left; otherwise kill the orphans.

        To be called after the leader has ended: until then, its children are no orphans.
        """
        if self._killing is not None:
            if not self._killing.done():
                return False
            self._killing.result()
        orphans = self._descent.orphans_of(self._key)
        if orphans:
            self._killing = self._descent.kill(orphans)
            return False
        self._descent.forget(self._leader)
        return True


def end_descendants(roots: Iterable[int]) -> None:
    """Kill *roots*, children of this process, and all their descendants, and wait for their end.

    Each process is stopped before its children are listed, so that it cannot fork. If there are
    more than 500, some remain, as orphans for the next call.
    """
    waiting, seen = list(roots), set[int]()
    pidfds: list[int] = []
    try:
        while waiting and len(pidfds) < _HELD_MAX:
            pid = waiting.pop()
            try:
                pidfd = hold(pid)
            except OSError:  # Out of descriptors: the processes held so far are killed first.
                break
            if pidfd is None:
                continue
            pidfds.append(pidfd)
            seen.add(pid)
            send(pidfd, signal.SIGSTOP)
            waiting.extend(child for child in children_of(pid) if child not in seen)
        for pidfd in pidfds:
            send(pidfd, signal.SIGKILL)
        wait_ends(pidfds)
    finally:
        for pidfd in pidfds:
            os.close(pidfd)


def waited_for(pid: int) -> Duration | None:
    """Reap *pid* if it is a child that has ended; return its processor time, with its children."""
    with suppress(ChildProcessError):
        ended, _, usage = os.wait4(pid, os.WNOHANG)
        if ended:
            return Duration(round((usage.ru_utime + usage.ru_stime) * 1_000_000))
    return None


def _is_waited_for(pid: int) -> bool:
    return waited_for(pid) is not None
