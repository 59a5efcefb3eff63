"""What started this node, if it wants to hear of it: systemd, by the protocol of sd_notify(3).

The beat comes from the node's loop, so that a node whose loop stands still is started again. It is
a timer and no task: it goes on until the process ends, whatever the node is doing.
"""

import asyncio
import os
import socket
from collections.abc import MutableMapping

OF_THIS_PROCESS = (
    "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
    "INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID",
)  # fmt: skip
"""What systemd tells the process that it starts. Taken away, for it means nothing to tasks, and is
another at each start, so that each would want another warden."""
BEATS_PER_PERIOD = 3
"""One may be late, and one lost. sd_watchdog_enabled(3) advises two."""


class Supervisor:
    """Hears that the node has started, that it stops, and in between that its loop turns.

    Args:
        address: Of its socket; empty if nobody listens. ``@`` begins an abstract one.
        watchdog_us: After so many microseconds without a beat it starts the node again; 0: never.
    """

    def __init__(self, address: str = "", watchdog_us: int = 0) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._beat_s = watchdog_us / 1_000_000 / BEATS_PER_PERIOD

    @classmethod
    def taken_from(cls, environ: MutableMapping[str, str]) -> "Supervisor":
        """Return the one that *environ* names, and take it, and all about it, from there."""
        told = {name: environ.pop(name, "") for name in OF_THIS_PROCESS}
        is_ours = told["WATCHDOG_PID"] in ("", str(os.getpid()))
        watchdog = told["WATCHDOG_USEC"] if is_ours else ""
        return cls(told["NOTIFY_SOCKET"], int(watchdog) if watchdog.isdecimal() else 0)

    def started(self, status: str) -> None:
        """Say that the node serves, in words for people too; from now on the loop beats."""
        self._say("READY=1", f"STATUS={status}")
        if self._beat_s and self._address:
            self._beat(asyncio.get_running_loop())

    def waiting(self, status: str) -> None:
        """Say what the node waits for before it can start, in words for people."""
        self._say(f"STATUS={' '.join(status.split())}")

    def stopping(self) -> None:
        """Say that the node stops."""
        self._say("STOPPING=1", "STATUS=stopping")

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._say("WATCHDOG=1")
        loop.call_later(self._beat_s, self._beat, loop)

    def _say(self, *assignments: str) -> None:
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.setblocking(False)
            try:
                end.sendto("\n".join(assignments).encode(), self._address)
            except OSError:
                # It does not listen, or not now. To be started again, or not to count as started,
                # is what it does about that; the node has nothing better.
                return
