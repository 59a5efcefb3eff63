"""A node as a child process on loopback, for `rota dev`, demonstrations and tests.

This module never imports the node's own code, whose packages may be missing.
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
"""The limit of a start in seconds; the recovery of a large journal takes seconds."""
STOP_S = 30.0
"""The limit of a stop in seconds; by default, a node waits less for attempts and connections."""
LOOK_S = 0.05
PORT_TRIES = 5
"""How often a free port is tried, as another program may take it before the node listens there."""
NEEDS = ("jsonschema_rs", "prometheus_client", "rocksdict", "uvloop")
"""Modules that only a node needs."""
PORT_TAKEN = 69
"""The exit status of a node whose address is in use."""
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
            f"a node needs packages that are not installed: {', '.join(missing)}; run "
            "pip install 'rota[node]'"
        )


class NodeNotStarted(RotaError):
    """The node ended, or did not answer, during its start.

    Attributes:
        exit_status: The exit status of its process; None if it did not accept requests in time.
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
        data_dir: The data directory; it is created if it is missing, and not deleted.
        port: The port of the API on 127.0.0.1; 0 for any free port.
        slots: The number of slots; None for the node's own default.
        log_level: The level of its log on standard error.
        log_path: A file for the log, in place of standard error. The node is then detached from the
            terminal, so that Ctrl-C reaches only this process, which stops the node in order.
        flags: Further flags of `rotad`.

    Raises:
        NodeNotInstalled: Packages of a node are not installed.
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
        """The URL of its API, after the start."""
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
        """Start the node and wait until it accepts requests.

        Raises:
            NodeNotStarted: The node does not start; its process has been ended.
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
        """Stop the node if it runs.

        Returns:
            The exit status of its process, or the negative number of the signal that ended it.
        """
        process = self.process
        assert process is not None, "stop comes after start"
        if process.poll() is None:
            process.terminate()
        try:
            return process.wait(STOP_S)
        except BaseException:
            # The node hangs, or the caller was interrupted: the process must not remain.
            process.kill()
            process.wait()
            raise

    def launch(self) -> None:
        """Start the node on its port, without waiting until it accepts requests.

        Raises:
            NodeNotStarted: Another program listens on the port.
        """
        if not is_free(self.port):
            # Until this node ends, another program on the port would be mistaken for the node.
            raise NodeNotStarted(PORT_TAKEN)
        # -P: modules in the current directory must not be imported by the node.
        argv = [sys.executable, "-P", "-m", "rota.node", "--listen", f"127.0.0.1:{self.port}"]
        argv += ["--auth", "open"]
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
        """Wait until the node accepts requests.

        Raises:
            NodeNotStarted: The node ended, or did not accept requests within `START_S`.
        """
        process = self.process
        assert process is not None, "the node has been launched"
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
