"""Notifications for systemd, by the protocol of sd_notify(3).

The node's event loop sends the watchdog messages, so systemd restarts a node whose loop hangs. They
are sent by a timer and not by an asyncio task, so that they continue until the process ends,
whatever the state of the node.
"""

import asyncio
import os
import socket
from collections.abc import MutableMapping

OF_THIS_PROCESS = (
    "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
    "INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID",
)  # fmt: skip
"""Variables that systemd sets for the process that it starts. They are removed, since tasks have no
use for them, and since they differ at each start, so that each start would need another warden."""
BEATS_PER_PERIOD = 3
"""The number of watchdog messages in a period; one may be late, and one may be lost.
sd_watchdog_enabled(3) advises two."""


class Supervisor:
    """The service manager, which is notified of the node's start and stop and gets its beats.

    Args:
        address: The address of the service manager's socket, an abstract one if it begins with
            ``@``; empty if there is none.
        watchdog_us: The time in microseconds without a watchdog message after which the service
            manager restarts the node; 0 if it never does.
    """

    def __init__(self, address: str = "", watchdog_us: int = 0) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._beat_s = watchdog_us / 1_000_000 / BEATS_PER_PERIOD

    @classmethod
    def taken_from(cls, environ: MutableMapping[str, str]) -> "Supervisor":
        """Return the service manager that *environ* names, and remove its variables from it."""
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
                # does not regard it as started; the node cannot prevent this.
                return
