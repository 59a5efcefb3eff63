"""A node as a child process on loopback: for `rota dev`, demonstrations and tests.

The node's own code is never imported here; it need not be installed.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from rota.client.client import Client
from rota.client.dev.ports import free_port, is_free
from rota.core.errors import RotaError

START_S = 30.0
"""Limit of a start in seconds; the recovery of a large journal takes seconds."""
STOP_S = 30.0
"""Limit of a stop in seconds; longer than a node waits for attempts and connections by default."""
LOOK_S = 0.05
PORT_TRIES = 5
"""Tries with a free port, which another program may take before the node listens on it."""
NEEDS = ("jsonschema_rs", "prometheus_client", "rocksdict", "uvloop")
"""Modules that only a node needs."""
PORT_TAKEN = 69
"""Exit status of a node whose address is in use."""
STATUS_WORDS = {
    64: "its settings are wrong",
    PORT_TAKEN: "its address is in use; choose another port",
    70: "a bug in rota",
    74: "its data directory or the disk failed",
    75: "another node uses its data directory; stop that one, or choose another directory",
}


class NodeNotInstalled(RotaError):
    """Packages of a node are not installed."""

    code = "node_not_installed"

    def __init__(self, missing: list[str]) -> None:
        super().__init__(
            f"a node needs {', '.join(missing)}, not installed here: pip install 'rota[node]'"
        )


class NodeNotStarted(RotaError):
    """The node ended, or did not answer, during its start.

    Attributes:
        exit_status: Exit status of its process; None if it had to be killed.
    """

    code = "node_not_started"

    def __init__(self, exit_status: int | None) -> None:
        if exit_status is None:
            why = f"it did not accept requests within {START_S:g} s"
        else:
            why = STATUS_WORDS.get(exit_status, f"it ended with status {exit_status}")
        super().__init__(f"the node did not start: {why}")
        self.exit_status = exit_status


class LocalNode:
    """A node that runs from `start` to `stop`; also a context manager.

    Args:
        data_dir: Data directory; created if missing, not deleted.
        port: Port of the API on 127.0.0.1; 0 for any free port.
        slots: Attempts that may run at the same time; None for the node's own default.
        log_level: Level of its log on standard error.
        log_path: File for the log instead; the node is then detached from the terminal, so that
            Ctrl-C reaches only its owner, which stops it in order.
        flags: Further flags of `rotad`.

    Raises:
        NodeNotInstalled: See there.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int = 0,
        slots: int | None = None,
        log_level: str = "warning",
        log_path: Path | None = None,
        flags: tuple[str, ...] = (),
    ) -> None:
        missing = [name for name in NEEDS if find_spec(name) is None]
        if missing:
            raise NodeNotInstalled(missing)
        self.data_dir = data_dir
        self.port = port
        self.log_path = log_path
        self.process: subprocess.Popen[bytes] | None = None
        self._may_choose_port = port == 0
        slot_flags = () if slots is None else ("--slots", str(slots))
        self._flags = (
            *("--data-dir", str(data_dir)),
            *("--on-stop", "end"),  # A temporary node leaves no processes.
            *("--log-level", log_level),
            # Receivers that are being developed run on the same machine.
            *("--webhook-hosts", os.environ.get("ROTA_WEBHOOK_HOSTS", "*")),
            *slot_flags,
            *flags,
        )

    @property
    def url(self) -> str:
        """URL of its API, after the start."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start it and wait until it accepts requests.

        Raises:
            NodeNotStarted: It does not start; its process has been ended.
        """
        for _ in range(PORT_TRIES):
            if self._may_choose_port:
                self.port = free_port()
            try:
                return self._start_once()
            except NodeNotStarted as error:
                if error.exit_status != PORT_TAKEN or not self._may_choose_port:
                    raise
        raise NodeNotStarted(PORT_TAKEN)

    def stop(self) -> int:
        """Stop it if it runs, and return its exit status; negative for a signal that ended it."""
        process = self.process
        assert process is not None, "stop comes after start"
        if process.poll() is None:
            process.terminate()
        try:
            return process.wait(STOP_S)
        except BaseException:
            # It hangs, or the caller was interrupted: its process must not remain.
            process.kill()
            process.wait()
            raise

    def launch(self) -> None:
        """Start it on its port, without waiting.

        Raises:
            NodeNotStarted: Another program listens there.
        """
        if not is_free(self.port):
            # Another program there would be mistaken for this node until this one has ended.
            raise NodeNotStarted(PORT_TAKEN)
        # -P: modules in the current directory must not be imported by the node.
        argv = [sys.executable, "-P", "-m", "rota.node", "--listen", f"127.0.0.1:{self.port}"]
        if self.log_path is None:
            self.process = subprocess.Popen([*argv, *self._flags], stdin=subprocess.DEVNULL)
        else:
            self.process = launch_apart([*argv, *self._flags], self.log_path)

    def _start_once(self) -> None:
        self.launch()
        try:
            self.wait_ready()
        except BaseException:
            self.stop()
            raise

    def wait_ready(self) -> None:
        """Wait until it accepts requests.

        Raises:
            NodeNotStarted: It ended, or does not accept requests within 30 s.
        """
        process = self.process
        assert process is not None, "it has been launched"
        with Client(self.url, timeout_s=1.0, repeats_max=0) as client:
            for _ in range(round(START_S / LOOK_S)):
                if client.ready():
                    return
                with suppress(subprocess.TimeoutExpired):
                    raise NodeNotStarted(process.wait(LOOK_S))
        raise NodeNotStarted(None)


def launch_apart(argv: Sequence[str], log_path: Path) -> subprocess.Popen[bytes]:
    """Return a new process that is detached from this terminal and logs to a file."""
    with log_path.open("ab") as log:
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0
        )
