"""Reads of environments that wait only briefly for a process that hangs in the kernel.

A thread that writes to a shared mapping of a file on a hung file system can hold the memory lock of
its process, which the kernel takes for this read. `rota.executor.kernel.orphan_sweep` can even end
a read that hangs, but only in a process that has a single thread.
"""

import threading
from collections.abc import Callable

from rota.executor.kernel.procfs import environment_of

WITHIN_S = 0.25
"""The longest wait for a read, which takes microseconds, or 0.2 s in the middle of an exec."""
WITHIN_S_BESIDE_HUNG = 0.02
"""The longest wait while another read hangs, so that many waits do not add up."""
HUNG_MAX = 8
"""The number of hanging reads from which no further read is started."""


class EnvironmentReader:
    """Reads environments; each read has a thread, which lasts until the read ends.

    To be used in one thread. A thread that hangs does not prevent the end of the process by a
    signal or by ``os._exit``.

    Args:
        read: Returns the environment of a process; may hang.
    """

    def __init__(self, read: Callable[[int], dict[str, str]] = environment_of) -> None:
        self._read = read
        self._hung: dict[int, threading.Thread] = {}

    def read(self, pid: int) -> dict[str, str] | None:
        """Return the environment of *pid*; None if it is not read in time, or not at all.

        While the same reads hang, all calls together block for at most 0.4 s because of them.
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
        except RuntimeError:  # The user already has as many threads as the limit allows.
            return None
        thread.join(WITHIN_S_BESIDE_HUNG if self._hung else WITHIN_S)
        if not results:
            if thread.is_alive():
                self._hung[pid] = thread
            return None
        return results[0]
