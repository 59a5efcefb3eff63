"""Signals by pidfd, so that none reaches another process that was given the same number."""

import os
import select
import signal
from collections.abc import Iterable
from contextlib import suppress

_DEATH_WAIT_MS = 500  # A killed process is gone in milliseconds unless it hangs in the kernel.


def hold(pid: int) -> int | None:
    """Return a pidfd of *pid*, which the caller closes; None if there is no such process."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def send(pidfd: int, number: signal.Signals) -> None:
    """Send a signal; no effect on a process that has ended or belongs to another user."""
    with suppress(ProcessLookupError, PermissionError):
        signal.pidfd_send_signal(pidfd, number)


def has_ended(pidfd: int) -> bool:
    """Return True if the process has ended, with its threads and any namespace that it leads."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def wait_ends(pidfds: Iterable[int]) -> None:
    """Wait until all processes of *pidfds* have ended, or none has ended for half a second."""
    poll = select.poll()
    waiting = set(pidfds)
    for pidfd in waiting:
        poll.register(pidfd, select.POLLIN)
    while waiting:
        ended = poll.poll(_DEATH_WAIT_MS)
        if not ended:
            return
        for pidfd, _ in ended:
            poll.unregister(pidfd)
            waiting.discard(pidfd)
