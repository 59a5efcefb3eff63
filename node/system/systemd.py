"""Notifications for systemd, by the protocol of sd_notify(3).

The watchdog message is sent by the node's loop, so a node whose loop hangs is restarted. It is a
timer and not an asyncio task: it runs until the process ends, whatever the state of the node.
"""

import asyncio
import os
import socket
from collections.abc import MutableMapping

OF_THIS_PROCESS = (
    "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
    "INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID",
)  # fmt: skip
"""Variables that systemd sets for the process that it starts. They are removed: tasks have no use
for them, and they differ at each start, which would need another warden each time."""
BEATS_PER_PERIOD = 3
"""One may be late, and one lost. sd_watchdog_enabled(3) advises two."""


class Supervisor:
    """The service manager: gets the node's start, its stop, and watchdog messages in between.

    Args:
        address: Of its socket, an abstract one if it begins with ``@``; empty if there is none.
        watchdog_us: Time in microseconds without a watchdog message after which it restarts the
            node; 0: it never does.
    """

    def __init__(self, address: str = "", watchdog_us: int = 0) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._beat_s = watchdog_us / 1_000_000 / BEATS_PER_PERIOD

    @classmethod
    def taken_from(cls, environ: MutableMapping[str, str]) -> "Supervisor":
        """Return the service manager that *environ* names, and remove its variables there."""
        taken = {name: environ.pop(name, "") for name in OF_THIS_PROCESS}
        is_ours = taken["WATCHDOG_PID"] in ("", str(os.getpid()))
        watchdog = taken["WATCHDOG_USEC"] if is_ours else ""
        return cls(taken["NOTIFY_SOCKET"], int(watchdog) if watchdog.isdecimal() else 0)

    def started(self, status: str) -> None:
        """Report that the node serves, and send watchdog messages from now on.

        Args:
            status: A line for operators.
        """
        self._send("READY=1", f"STATUS={status}")
        if self._beat_s and self._address:
            self._beat(asyncio.get_running_loop())

    def waiting(self, status: str) -> None:
        """Report the cause of a delayed start, in a line for operators."""
        self._send(f"STATUS={' '.join(status.split())}")

    def stopping(self) -> None:
        """Report that the node stops."""
        self._send("STOPPING=1", "STATUS=stopping")

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._send("WATCHDOG=1")
        loop.call_later(self._beat_s, self._beat, loop)

    def _send(self, *assignments: str) -> None:
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.setblocking(False)
            try:
                end.sendto("\n".join(assignments).encode(), self._address)
            except OSError:
                # The service manager does not listen now. Without messages it restarts the node, or
                # does not count it as started; the node can do no more about it.
                return
