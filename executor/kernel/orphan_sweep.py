"""Termination of orphans by a child process, so that a hanging read blocks nothing else.

To read the environment of a process the kernel takes that process's memory lock. A thread of it
that writes to a shared mapping of a file system that stands still, while another thread forks,
holds this lock until the file system runs again, and the reader waits in the kernel. So a child
reads, and names each process before it does. If it does not continue it is killed, and another
child does the rest without that process.

A thread would not do: it cannot be ended, and the end of its process would wait for it.
"""

import logging
import os
import select
import signal
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import NamedTuple, NoReturn, TypeAlias

from rota.executor.kernel.orphans import Orphans, end_orphans
from rota.executor.kernel.pidfd_signals import hold, send, wait_ends
from rota.executor.kernel.prctl import end_with_parent
from rota.executor.kernel.procfs import status_of

log = logging.getLogger(__name__)

HUNG_S = 1.0
"""A read takes microseconds, and 0.2 s in the middle of an exec."""
_PART = 65536
_STDERR = 2

Search: TypeAlias = Callable[[Collection[int], Callable[[int], None]], Orphans]
"""Ends orphans; called with processes to leave alone, and with what to call before each read with
the number of the process, and with 0 before anything else that takes time."""


class Swept(NamedTuple):
    """The result of a sweep.

    Attributes:
        pids_left: Orphans that still exist; see `Orphans`.
        pids_unread: Processes whose environment could not be read; they may be orphans, and are
            not killed.
        is_complete: Whether all other processes were examined within the limit.
    """

    pids_left: tuple[int, ...]
    pids_unread: tuple[int, ...]
    is_complete: bool


def sweep_orphans(store_id: str, *, within_s: float) -> Swept:
    """Kill what `end_orphans` does, for *within_s* at most and a second for the last child.

    For a process of one thread, because it forks.
    """
    return sweep(partial(_end_orphans, store_id), within_s=within_s)


def sweep(search: Search, *, within_s: float, hung_s: float = HUNG_S) -> Swept:
    """Run *search* in a child, and again without each process whose reading takes *hung_s*."""
    ends_at = _monotonic_s() + within_s
    unread: set[int] = set()
    while True:
        result = _run_child(search, {os.getpid(), *unread}, hung_s, ends_at)
        if not isinstance(result, int):
            left = () if result is None else result
            return Swept(left, tuple(sorted(filter(_exists, unread))), result is not None)
        unread.add(result)


def _end_orphans(
    store_id: str, skipped: Collection[int], on_read: Callable[[int], None]
) -> Orphans:
    return end_orphans(store_id, skipped=skipped, on_read=on_read)


def _monotonic_s() -> float:
    # The guard has no clock of a loop.
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def _exists(pid: int) -> bool:
    return status_of(pid) is not None


def _run_child(
    search: Search, skipped: Collection[int], hung_s: float, ends_at: float
) -> tuple[int, ...] | int | None:
    """Return the processes left, or the one whose reading hangs, or None if time is over."""
    receiver, sender = os.pipe()
    parent, child = os.getpid(), os.fork()
    if not child:
        _search(search, skipped, sender, parent)
    os.close(sender)
    pidfd = hold(child)
    try:
        return _follow(receiver, hung_s, ends_at)
    finally:
        os.close(receiver)
        if pidfd is not None:
            send(pidfd, signal.SIGKILL)
            wait_ends((pidfd,))  # If it hangs in spite of that it is abandoned.
            os.close(pidfd)
        with suppress(ChildProcessError):
            os.waitpid(child, os.WNOHANG)


def _follow(receiver: int, hung_s: float, ends_at: float) -> tuple[int, ...] | int | None:
    poll = select.poll()
    poll.register(receiver, select.POLLIN)
    reading, text = 0, b""
    while (left_s := ends_at - _monotonic_s()) > 0:
        if not poll.poll(1_000 * (min(hung_s, left_s) if reading else left_s)):
            if reading:
                return reading
            continue
        part = os.read(receiver, _PART)
        *lines, text = (text + part).split(b"\n")
        for line in lines:
            word, *numbers = line.split()
            if word == b"left":
                return tuple(map(int, numbers))
            reading = int(numbers[0])
        if not part:  # It crashed, or was killed.
            return None
    return None


def _search(search: Search, skipped: Collection[int], sender: int, parent: int) -> NoReturn:
    """Be the child: search and send."""
    try:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # To the group: it is meant for the warden.
        end_with_parent()
        # A child that is abandoned must hold nothing, above all not the lock.
        os.closerange(_STDERR + 1, sender)
        os.closerange(sender + 1, os.sysconf("SC_OPEN_MAX"))
        if os.getppid() == parent:  # Else it was killed before its end was bound to this one's.
            found = search(skipped, lambda pid: _send(sender, "read", pid))
            _send(sender, "left", *found.pids_left)
    except BaseException:
        log.exception("search for orphans crashed")
    finally:
        os._exit(0)


def _send(sender: int, *words: str | int) -> None:
    line = (" ".join(map(str, words)) + "\n").encode()
    while line:
        line = line[os.write(sender, line) :]
