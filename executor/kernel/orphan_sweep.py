"""Termination of orphans by a child process, so that a hanging read blocks nothing else.

To read the environment of a process, the kernel takes the memory lock of that process. If one of
its threads writes to a shared mapping of a file on a hung file system while another thread forks,
the lock is held until the file system works again, and the reader waits in the kernel. So a child
process reads, and reports the number of each process before the read. A child that hangs is killed,
and another child does the rest without that process.

A thread would not suffice: it cannot be killed, and the end of its process would wait for it.
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
"""The time after which a read counts as hung; it takes microseconds, or 0.2 s during an exec."""
_PART = 65536
_STDERR = 2

Search: TypeAlias = Callable[[Collection[int], Callable[[int], None]], Orphans]
"""A function that ends orphans. Its arguments are the processes to leave alone, and a function that
it calls with the number of a process before it reads the environment of that process, and with 0
before anything else that takes time."""


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
    """Kill the same processes as `end_orphans`, within *within_s* and a second for the last child.

    The calling process must have a single thread, because it is forked.
    """
    return sweep(partial(_end_orphans, store_id), within_s=within_s)


def sweep(search: Search, *, within_s: float, hung_s: float = HUNG_S) -> Swept:
    """Run *search* in a child, and again without each process whose read takes *hung_s* or more."""
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
    # The guard has no event loop whose clock it could use.
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def _exists(pid: int) -> bool:
    return status_of(pid) is not None


def _run_child(
    search: Search, skipped: Collection[int], hung_s: float, ends_at: float
) -> tuple[int, ...] | int | None:
    """Return the orphans left, or the process whose read hangs, or None if there is no result.

    There is none if the time is over, or if the child crashed.
    """
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
            wait_ends((pidfd,))  # A child that still hangs is abandoned.
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
        if not part:  # The child crashed, or was killed.
            return None
    return None


def _search(search: Search, skipped: Collection[int], sender: int, parent: int) -> NoReturn:
    """Search in the child process, and send the result to its parent."""
    try:
        # A TERM that is sent to the process group is meant for the warden.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        end_with_parent()
        # An abandoned child must not keep any file open, above all not that of the lock.
        os.closerange(_STDERR + 1, sender)
        os.closerange(sender + 1, os.sysconf("SC_OPEN_MAX"))
        if os.getppid() == parent:  # Otherwise the parent ended before `end_with_parent`.
            found = search(skipped, lambda pid: _send(sender, "read", pid))
            _send(sender, "left", *found.pids_left)
    except BaseException:
        log.exception("the search for orphans crashed")
    finally:
        os._exit(0)


def _send(sender: int, *words: str | int) -> None:
    line = (" ".join(map(str, words)) + "\n").encode()
    while line:
        line = line[os.write(sender, line) :]
