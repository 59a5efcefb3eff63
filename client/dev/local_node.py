"""A node as a child process on loopback: for `rota dev`, demonstrations and tests.

The node's own code is never imported here; it may not even be installed.
"""

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
"""A large journal takes seconds to recover."""
STOP_S = 30.0
"""More than a node waits for its attempts and connections, unless told otherwise."""
LOOK_S = 0.05
PORT_TRIES = 5
"""A free port may be taken by somebody else before the node listens on it."""
NEEDS = ("prometheus_client", "rocksdict", "uvloop")
"""What only a node needs."""
PORT_TAKEN = 69
"""The exit status of a node whose address is taken."""
STATUS_WORDS = {
    64: "its settings are wrong",
    PORT_TAKEN: "its address is taken; choose another port",
    70: "a bug in rota",
    74: "its data directory or the disk failed",
    75: "another node uses its data directory; stop that one, or choose another directory",
}


class NodeNotInstalled(RotaError):
    """What a node needs is not installed here."""

    code = "node_not_installed"

    def __init__(self, missing: list[str]) -> None:
        super().__init__(
            f"a node needs {', '.join(missing)}, not installed here: pip install 'rota[node]'"
        )


class NodeNotStarted(RotaError):
    """The node ended, or did not answer, instead of starting.

    Attributes:
        exit_status: Of its process; None if it had to be killed.
    """

    code = "node_not_started"

    def __init__(self, exit_status: int | None) -> None:
        if exit_status is None:
            why = f"it did not take requests within {START_S:g} s"
        else:
            why = STATUS_WORDS.get(exit_status, f"it ended with status {exit_status}")
        super().__init__(f"the node did not start: {why}")
        self.exit_status = exit_status


class LocalNode:
    """A node that runs from `start` to `stop`; or ``with`` it.

    Args:
        data_dir: Where it keeps everything; made if missing, left when it stops.
        port: Where its API listens, on 127.0.0.1; 0 for any free port.
        slots: Attempts that may run at the same time; None for the node's own default.
        log_level: What it tells on standard error.
        log_path: Where it tells it instead; it then stays out of the terminal altogether, so that
            a Ctrl-C there is for its owner, who stops it in due order.
        flags: More of `rotad`'s.

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
            *("--on-stop", "end"),  # Whoever has it for a while wants nothing to be left of it.
            *("--log-level", log_level),
            *slot_flags,
            *flags,
        )

    @property
    def url(self) -> str:
        """Where its API is; known once it has started."""
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
        """Start it and wait until it takes requests.

        Raises:
            NodeNotStarted: It does not; nothing of it is left.
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
        """Stop it, if it runs, and return its exit status; negative: the signal that ended it."""
        process = self.process
        assert process is not None, "stop comes after start"
        if process.poll() is None:
            process.terminate()
        try:
            return process.wait(STOP_S)
        except BaseException:
            # It hangs, or the caller does not want to wait: nothing may be left of it.
            process.kill()
            process.wait()
            raise

    def launch(self) -> None:
        """Start it on its port, and do not wait.

        Raises:
            NodeNotStarted: Somebody else listens there.
        """
        if not is_free(self.port):
            # Whoever listens there would be taken for our node until ours has given up.
            raise NodeNotStarted(PORT_TAKEN)
        # -P: what lies in the current directory is not the node's.
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
        """Wait until it takes requests.

        Raises:
            NodeNotStarted: It ended, or does not within 30 s.
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
    """Return a new process that has nothing to do with this terminal, and logs to a file."""
    with log_path.open("ab") as log:
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0
        )
