"""Watchdog of the warden's loop: enforces the deadlines of attempts even while the loop is blocked.

The loop ends attempts at their deadlines. Any call can block the loop, for example in a file system
that hangs, and attempts would then still run when other nodes may already start them. So a thread
checks the next deadline: once the loop is `LATE_S` late, the guard kills the warden and ends every
attempt.
"""

import threading
import time
from collections.abc import Callable

from rota.core.timing.instants import Instant

LATE_S = 0.75
"""The delay at which the loop counts as late. A busy machine delays a loop for less, and seconds
pass between a deadline and a new start elsewhere
(`rota.core.replication.timeouts.Timing.kill_grace`)."""
CHECKS = 3
"""The number of checks of one deadline before it counts as missed: after a suspend of the machine,
this thread may run before the loop, which is not late in that case."""


class Watchdog:
    """A thread that watches the deadlines of a loop.

    Args:
        elapsed: The clock of the deadlines.
        on_late: Called in the thread, once, when the loop missed a deadline.

    Attributes:
        due_at: The next deadline that the loop has to meet; None without any. The loop sets it.
    """

    def __init__(self, *, elapsed: Callable[[], Instant], on_late: Callable[[], None]) -> None:
        self.due_at: Instant | None = None
        self._elapsed = elapsed
        self._on_late = on_late

    def start(self) -> None:
        """Watch until the process ends."""
        threading.Thread(target=self._watch, name="rota-watchdog", daemon=True).start()

    def _watch(self) -> None:
        checks, seen = 0, None
        while checks < CHECKS:
            time.sleep(LATE_S / CHECKS)
            due_at = self.due_at
            is_missed = due_at is not None and due_at < self._elapsed()
            checks = checks + 1 if is_missed and due_at == seen else int(is_missed)
            seen = due_at
        self._on_late()
