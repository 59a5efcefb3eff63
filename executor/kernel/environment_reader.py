"""Reads of environments that wait only briefly for a process that hangs in the kernel.

A thread of a process that writes to a shared mapping of a file system that stands still can hold
its process's memory lock, which the kernel takes for this read. See
`rota.executor.kernel.orphan_sweep`, which ends more, and needs a process of one thread.
"""

import threading
from collections.abc import Callable

from rota.executor.kernel.procfs import environment_of

WITHIN_S = 0.25
"""A read takes microseconds, and 0.2 s in the middle of an exec."""
WITHIN_S_BESIDE_HUNG = 0.02
"""The wait while another read hangs, so that many of them do not add up."""
HUNG_MAX = 8
"""Reads that hang at the same time; while there are so many, none is begun."""


class EnvironmentReader:
    """Reads environments; each read has a thread, which lasts until the read ends.

    For one thread. A thread that hangs does not keep the process from being killed or from
    ``os._exit``.

    Args:
        read: Returns the environment of a process; may hang.
    """

    def __init__(self, read: Callable[[int], dict[str, str]] = environment_of) -> None:
        self._read = read
        self._hung: dict[int, threading.Thread] = {}

    def read(self, pid: int) -> dict[str, str] | None:
        """Return the environment of *pid*; None if it cannot be read in time, or no thread begun.

        Blocks for 0.4 s at most in all while the same reads hang.
        """
        self._hung = {each: thread for each, thread in self._hung.items() if thread.is_alive()}
        if pid in self._hung or len(self._hung) >= HUNG_MAX:
            return None
        results: list[dict[str, str]] = []
        thread = threading.Thread(
            target=lambda: results.append(self._read(pid)), name="rota-environment", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # The user has as many threads as the limit allows.
            return None
        thread.join(WITHIN_S_BESIDE_HUNG if self._hung else WITHIN_S)
        if not results:
            if thread.is_alive():
                self._hung[pid] = thread
            return None
        return results[0]
