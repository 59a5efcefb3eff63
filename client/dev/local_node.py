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
from rota.client.dev.bound_process import bound
from rota.client.dev.ports import free_port, is_free
from rota.client.dev.token_files import OfferedToken, kept_token, make_key_ring
from rota.client.errors import NotAuthenticated, TooBusy, Unreachable
from rota.core.errors import RotaError
from rota.wire.tokens import Token

START_S = 30.0
"""The limit of a start in seconds; the recovery of a large journal takes seconds."""
STOP_S = 30.0
"""The limit of a stop in seconds; by default, a node waits less for attempts and connections."""
LOOK_S = 0.05
REFUSALS_MAX = 50
"""How often a node that is ready may refuse its token: it creates the key after its start, and the
nodes of a cluster receive it from etcd."""
REFUSED_LOOK_S = 0.2
"""The pause after a refusal; a node limits refused requests to 10 a second."""
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


class TokenNotAccepted(RotaError):
    """A node has other keys than that of its token file."""

    code = "token_not_accepted"

    def __init__(self, node: "LocalNode") -> None:
        super().__init__(
            f"the node does not accept the token in {node.token_file}, because its data has other "
            f"keys; restore that file, start without keys (--open), or delete {node.data_dir} for "
            "a fresh start"
        )


class LocalNode:
    """A node that runs from `start` to `stop`; also a context manager.

    The node requires a token. Clients of the same user on this machine that have no other token
    find it while the node runs. It has a key ring beside the token unless `ROTA_KEYRING` names one,
    so it can have secrets.

    Args:
        data_dir: The data directory; it is created if it is missing, and not deleted.
        port: The port of the API on 127.0.0.1; 0 for any free port.
        slots: The number of slots; None for the node's own default.
        log_level: The level of its log on standard error.
        log_path: A file for the log, in place of standard error. The node is then detached from the
            terminal, so that Ctrl-C reaches only this process, which stops the node in order.
        flags: Further flags of `rotad`.
        token_file: The file with the token, which is created if it is missing; by default beside
            *data_dir*, which a new node requires to be empty.
        is_open: Whether the node accepts all requests, without a token.
        is_bound: Whether the node stops as soon as this process has ended, also if it was killed.
            The main thread then has to start the node.

    Attributes:
        token: The token, after the start; None if the node is open.

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
        token_file: Path | None = None,
        is_open: bool = False,
        is_bound: bool = False,
    ) -> None:
        missing = [name for name in NEEDS if find_spec(name) is None]
        if missing:
            raise NodeNotInstalled(missing)
        self.data_dir = data_dir
        self.port = port
        self.log_path = log_path
        self.process: subprocess.Popen[bytes] | None = None
        self.token: Token | None = None
        self.token_file = token_file or data_dir.with_name(f"{data_dir.name}.token")
        own_ring = self.token_file.with_name(f"{self.token_file.name.removesuffix('token')}keyring")
        self._key_ring = None if "ROTA_KEYRING" in os.environ else own_ring
        self._is_open = is_open
        self._is_bound = is_bound
        self._offered: OfferedToken | None = None
        self._may_choose_port = port == 0
        slot_flags = () if slots is None else ("--slots", str(slots))
        self._flags = (
            *("--data-dir", str(data_dir)),
            *("--on-stop", "end"),  # A temporary node leaves no processes.
            *("--log-level", log_level),
            # Receivers that are being developed run on the same machine.
            *("--webhook-hosts", os.environ.get("ROTA_WEBHOOK_HOSTS", "*")),
            *slot_flags,
            *("--auth", "open" if is_open else "keys"),
            *(() if is_open else ("--bootstrap-key-file", str(self.token_file))),
            *(("--keyring", str(self._key_ring)) if self._key_ring else ()),
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
        self.withdraw_token()
        if process.poll() is None:
            process.terminate()
        try:
            return process.wait(STOP_S)
        except BaseException:
            # The node hangs, or the caller was interrupted: the process must not remain.
            process.kill()
            process.wait()
            raise

    def withdraw_token(self) -> None:
        """Let no further client find the token; `stop` does this, too."""
        offered, self._offered = self._offered, None
        if offered is not None:
            offered.withdraw()

    def launch(self) -> None:
        """Start the node on its port, without waiting until it accepts requests.

        Raises:
            NodeNotStarted: Another program listens on the port.
            TokenNotStored: The token cannot be stored.
        """
        if not is_free(self.port):
            # Until this node ends, another program on the port would be mistaken for the node.
            raise NodeNotStarted(PORT_TAKEN)
        self.withdraw_token()
        if self._key_ring is not None:
            make_key_ring(self._key_ring)
        if not self._is_open:
            self.token = kept_token(self.token_file)
            self._offered = OfferedToken(self.port, self.token)
        # -P: modules in the current directory must not be imported by the node.
        listen = ("--listen", f"127.0.0.1:{self.port}")
        argv = [sys.executable, "-P", "-m", "rota.node", *listen, *self._flags]
        argv = bound(argv) if self._is_bound else argv
        if self.log_path is None:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        else:
            self.process = launch_apart(argv, self.log_path)

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
            TokenNotAccepted: The node has other keys.
        """
        process = self.process
        assert process is not None, "the node has been launched"
        refusals = 0
        with self.client() as client:
            for _ in range(round(START_S / LOOK_S)):
                is_ready = client.ready()
                if is_ready and self._is_accepted(client):
                    return
                refusals += is_ready
                if refusals > REFUSALS_MAX:
                    raise TokenNotAccepted(self)
                with suppress(subprocess.TimeoutExpired):
                    raise NodeNotStarted(process.wait(REFUSED_LOOK_S if is_ready else LOOK_S))
        raise NodeNotStarted(None)

    def client(self) -> Client:
        """Return a client for one short call, with the token of the node."""
        token = self.token.text if self.token else None
        return Client(self.url, token=token, timeout_s=1.0, repeats_max=0)

    def _is_accepted(self, client: Client) -> bool:
        """Return True if the node has the key, which it creates after its start."""
        if self._is_open:
            return True
        try:
            client.whoami()
        except (NotAuthenticated, TooBusy, Unreachable):
            return False
        return True


def launch_apart(argv: Sequence[str], log_path: Path) -> subprocess.Popen[bytes]:
    """Return a new process that is detached from this terminal and logs to a file."""
    with log_path.open("ab") as log:
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0
        )
