"""Watchdog of the warden's loop: a deadline of attempts holds even while the loop stands still.

The loop ends attempts at their deadlines. A file system that hangs, say, can stop the loop in any
call, and attempts would go on beyond the instant from which others may start them. So a thread
looks at the next deadline: once the loop is `LATE_S` behind, the guard ends every attempt, and
the warden with them, as when the warden is killed.
"""

import threading
import time
from collections.abc import Callable

from rota.core.timing.instants import Instant

LATE_S = 0.75
"""A busy machine delays a loop for less; between a deadline and a new start elsewhere are seconds
(`rota.core.replication.timeouts.Timing.kill_grace`)."""
LOOKS = 3
"""Looks at one deadline before it counts as missed: a machine that slept wakes its threads in any
order, and the time that passed meanwhile is no fault of the loop."""


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
        looks, seen = 0, None
        while looks < LOOKS:
            time.sleep(LATE_S / LOOKS)
            due_at = self.due_at
            is_missed = due_at is not None and due_at < self._elapsed()
            looks = looks + 1 if is_missed and due_at == seen else int(is_missed)
            seen = due_at
        self._on_late()
