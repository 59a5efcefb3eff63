"""Several nodes and an etcd as child processes on loopback, for `rota dev --nodes`.

A node that is killed, as users of a test cluster do, is restarted after some time, as a service
manager would do. A node that ended by itself is not restarted.
"""

import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Self

from rota.client.dev.local_etcd import USER, LocalEtcd
from rota.client.dev.local_node import LocalNode, NodeNotStarted
from rota.client.dev.ports import free_port

RESTART_S = 5.0
SESSION_TTL = "15s"
"""The time to live of sessions under `rota dev`: three times that of `rotad`. One busy machine
delays the renewals of all nodes and etcd, and the end of a process is detected independently."""
COPIES_MAX = 3
CLUSTER = "dev"


class LocalCluster:
    """A cluster that runs during the body of its ``with`` statement, in the main thread.

    Its processes end with this one, also if this one is killed.

    Args:
        folder: The directory of all data.
        size: The number of nodes, at least 2.
        session_ttl: The time to live of sessions, if this start founds the cluster; None for the
            default of `rotad`. Later starts with the same folder use the value of the first.
        port: The API port of the first node; that of each next node is 2 higher, and the peer port
            of a node is 1 higher than its API port. 0 for free ports.
        slots: The number of slots of each node; None for the default.
        log_level: The log level of each node.
        is_open: Whether the nodes accept all requests, without a token. Otherwise the file
            ``token`` in *folder* has their token.
        flags_of: Returns further flags of `rotad` for a node, by its name.

    Raises:
        EtcdNotInstalled: etcd is not installed on this machine.
        NodeNotInstalled: Packages of a node are not installed.
    """

    def __init__(
        self,
        folder: Path,
        size: int,
        *,
        port: int,
        slots: int | None,
        log_level: str,
        session_ttl: str | None = None,
        is_open: bool = False,
        flags_of: Callable[[str], tuple[str, ...]] = lambda _: (),
    ) -> None:
        self.folder = folder
        self.etcd = LocalEtcd(folder)
        self.nodes: dict[str, LocalNode] = {}
        self._due: dict[str, float] = {}
        """Times at which killed nodes are restarted."""
        self._told: set[str] = set()
        session_ttl = _founded_with(folder, session_ttl)
        session_flags = () if session_ttl is None else ("--session-ttl", session_ttl)
        for number in range(size):
            name = f"n{number + 1}"
            api_port = port + 2 * number if port else free_port()
            peer_port = api_port + 1 if port else free_port()
            self.nodes[name] = LocalNode(
                folder / name,
                port=api_port,
                slots=slots,
                log_level=log_level,
                log_path=folder / f"{name}.log",
                token_file=folder / "token",
                is_open=is_open,
                is_bound=True,
                flags=(
                    "--node-id", name, "--cluster", CLUSTER, "--etcd", self.etcd.url,
                    "--etcd-user", USER,
                    "--etcd-password-file", str(self.etcd.password_file),
                    "--peer-listen", f"127.0.0.1:{peer_port}",
                    "--replicas", str(min(size, COPIES_MAX)), *session_flags, *flags_of(name),
                ),
            )  # fmt: skip

    def __enter__(self) -> Self:
        """Start etcd and the nodes, and wait until all nodes accept requests.

        Raises:
            EtcdNotStarted, NodeNotStarted: etcd or a node does not start; the others were stopped.
        """
        with ExitStack() as undo:
            undo.callback(self.stop)
            self.folder.mkdir(parents=True, exist_ok=True)
            self.etcd.start()
            for node in self.nodes.values():
                node.launch()
            for name, node in self.nodes.items():
                with _naming(name, node):
                    node.wait_ready()
            undo.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def token(self) -> str | None:
        """The token of the nodes, after the start; None if they are open."""
        token = next(iter(self.nodes.values())).token
        return token.text if token else None

    @property
    def urls(self) -> str:
        """The URLs of the nodes, in the form of ``ROTA_URL``."""
        return ",".join(node.url for node in self.nodes.values())

    def stop(self) -> None:
        """Stop the nodes concurrently, and then etcd, which they need for their handovers."""
        started = [node for node in self.nodes.values() if node.process is not None]
        for node in started:
            if node.process is not None and node.process.poll() is None:
                node.process.terminate()
        with ExitStack() as rest:
            rest.callback(self.etcd.stop)
            for node in started:
                rest.callback(node.stop)

    def tend(self, say: Callable[[str], None]) -> None:
        """Restart nodes that were killed `RESTART_S` ago, report ended ones; call this often."""
        for name, node in self.nodes.items():
            status = None if node.process is None else node.process.poll()
            if status is None:
                continue
            # Another program may listen on the port now.
            node.withdraw_token()
            if name in self._due:
                if perf_counter() >= self._due[name]:
                    del self._due[name]
                    node.launch()
                    say(f"{name} is started again, process {_pid(node)}")
            elif status < 0:
                self._due[name] = perf_counter() + RESTART_S
                say(f"{name} was killed; it is started again in {RESTART_S:g} s")
            elif name not in self._told:
                self._told.add(name)
                say(f"{name} ended with status {status}; {node.log_path} has the reason")
        if self.etcd.process is not None and self.etcd.process.poll() is not None:
            if "etcd" not in self._told:
                say(f"etcd ended; {self.etcd.log_path} has the reason. Open shards continue")
            self._told.add("etcd")


def _founded_with(folder: Path, session_ttl: str | None) -> str | None:
    """Return the session's time to live of a folder's cluster; write it if the folder is new.

    A node does not start with a time to live that differs from that of its cluster.
    """
    path = folder / "session_ttl"
    if path.exists():
        return path.read_text().strip()
    if session_ttl is None or (folder / "etcd").exists():
        return None
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(session_ttl + "\n")
    return session_ttl


@contextmanager
def folder_for_a_while() -> Generator[Path]:
    """Make a folder that is deleted after the body."""
    folder = Path(tempfile.mkdtemp(prefix="rota-dev-"))
    try:
        yield folder
    finally:
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)


@contextmanager
def _naming(name: str, node: LocalNode) -> Generator[None]:
    """Add the name and the log of a node that does not start to the error."""
    try:
        yield
    except NodeNotStarted as error:
        error.add_note(f"{name}: {node.log_path}")
        raise


def _pid(node: LocalNode) -> int:
    assert node.process is not None
    return node.process.pid
