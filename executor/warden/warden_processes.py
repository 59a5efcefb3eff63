"""The processes of a warden, for the node: search, start and end.

A process number alone is never trusted: the number of the process that listens on the socket comes
from the kernel, and the number in the lock file is valid only while the lock is held.
"""

import asyncio
import fcntl
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from rota.core.timing.instants import SECOND, Duration
from rota.executor.warden.connections import Node, ToTheWarden, peer_of
from rota.executor.warden.paths import LOCK, LOG, SOCKET, short_path

log = logging.getLogger(__name__)

END_S = 10.0
"""The time limit of a warden's end, after a kill or after the end of all its attempts."""
LOOK_S = 0.01
BUSY = 75
"""The exit status of a guard that found another one (`rota.executor.warden.program.EX_BUSY`)."""
LOG_BYTES = 1 << 20
"""The length above which the log is emptied at the start of a warden."""


class Processes:
    """The guard and the warden of one data directory, started by this process or an earlier one.

    Args:
        directory: The data directory.
        arguments: The arguments of a started warden, besides the directory.
        environ: The environment of a started warden.
    """

    def __init__(
        self, directory: Path, arguments: tuple[str, ...], environ: Mapping[str, str]
    ) -> None:
        self._directory = directory
        self._argv = [
            *(sys.executable, "-P", "-m", "rota.executor.warden"),
            *("--directory", str(directory), *arguments),
        ]
        self._environ = environ
        self._started: subprocess.Popen[bytes] | None = None
        self._has_served = False

    async def open(self, node: Node) -> ToTheWarden | None:
        """Return a connection to the listening warden; None if there is none."""
        end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        end.setblocking(False)
        try:
            with short_path(self._directory, SOCKET) as path:
                end.connect(path)
            pid = peer_of(end)
            loop = asyncio.get_running_loop()
            _, connection = await loop.create_unix_connection(
                lambda: ToTheWarden(node, pid), sock=end
            )
        except (FileNotFoundError, ConnectionError, BlockingIOError):
            end.close()
            return None
        except BaseException:  # The node stops.
            end.close()
            raise
        self._has_served = True
        return connection

    def start(self) -> str:
        """Start a warden, unless one is running.

        Returns:
            The reason why the last start failed; empty if it did not.
        """
        why = ""
        if self._started is not None:
            status = self._started.poll()
            if status is None:
                return ""
            if not self._has_served:
                why = f"the warden ended with status {status}"
            if status == BUSY:
                self._kill_guard()
        self._has_served = False
        with (self._directory / LOG).open("ab") as file:
            if file.tell() > LOG_BYTES:
                file.truncate(0)
            self._started = subprocess.Popen(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                cwd="/",  # So that the warden does not prevent unmounting of other disks.
                env=self._environ,
                start_new_session=True,
            )
        return why

    async def let_end(self, connection: ToTheWarden, within: Duration) -> None:
        """Wait until no process of a retiring warden is left; if it is late, kill it."""
        try:
            async with asyncio.timeout(within / SECOND + END_S):
                await self._wait_unlocked()
        except TimeoutError:
            await self.kill(connection)
        await self._reap()

    async def kill(self, connection: ToTheWarden) -> None:
        """Kill a warden, and wait until no process of it is left."""
        connection.abort()
        with suppress(ProcessLookupError):
            # The number is valid until the guard has reaped the warden; the guard then unlocks.
            if self._is_locked():
                os.kill(connection.pid, signal.SIGKILL)
        try:
            async with asyncio.timeout(END_S):
                await self._wait_unlocked()
        except TimeoutError:
            self._kill_guard()
        await self._reap()

    def leave(self) -> None:
        """Detach the warden, so that it outlives this process."""
        if self._started is not None and self._started.poll() is None:
            self._started.returncode = 0  # Otherwise Popen warns when it is collected.

    async def _wait_unlocked(self) -> None:
        while self._is_locked():  # noqa: ASYNC110 - a lock has no event
            await asyncio.sleep(LOOK_S)

    def _is_locked(self) -> bool:
        try:
            with (self._directory / LOCK).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False
        return False

    def _kill_guard(self) -> None:
        """Kill a guard that does not end, for example because it was stopped by a signal."""
        pid = int((self._directory / LOCK).read_text() or 0)
        if pid and self._is_locked():
            log.error("guard of the warden killed", extra={"pid": pid})
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def _reap(self) -> None:
        """Reap the guard that was started here; it releases its lock just before it ends."""
        started, tries = self._started, int(END_S / LOOK_S)
        while started is not None and started.poll() is None and tries:
            await asyncio.sleep(LOOK_S)
            tries -= 1
