"""The cluster under measurement: real nodes on this machine, fresh, on a real disk, with fsync.

A single node needs nothing else. Several nodes have an etcd, and as many copies of each shard as
there are nodes, up to three. The settings are the defaults; nothing is tuned for a benchmark.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.processes import descendants
from rota.client.certificates.certificate_files import (
    AUTHORITY,
    certificate_file,
    key_file,
    write_new,
)
from rota.client.certificates.issuing import Authority, issue_node, make_authority
from rota.client.dev.local_cluster import CLUSTER, COPIES_MAX, LocalCluster
from rota.client.dev.local_node import LocalNode
from rota.core.model.ids import NodeId

LOG_LEVEL = "warning"


class Fleet:
    """A cluster that runs during the body of its ``with`` statement.

    Args:
        folder: The folder for all files of the cluster.
        size: The number of nodes.
        is_secure: Whether requests need a token, and links between nodes have TLS.

    Attributes:
        nodes: The nodes by name.
    """

    def __init__(self, folder: Path, size: int, *, is_secure: bool = False) -> None:
        self.size = size
        self.folder = folder
        self._is_secure = is_secure
        self._undo = ExitStack()
        self._cluster: LocalCluster | None = None
        if size == 1:
            log_path = folder / "n1.log"
            self.nodes = {
                "n1": LocalNode(
                    folder / "n1",
                    log_level=LOG_LEVEL,
                    log_path=log_path,
                    token_file=folder / "token",
                    is_open=not is_secure,
                )
            }
        else:
            self._cluster = LocalCluster(
                folder,
                size,
                port=0,
                slots=None,
                log_level=LOG_LEVEL,
                is_open=not is_secure,
                flags_of=self._tls_flags if is_secure else lambda _: (),
            )
            self.nodes = self._cluster.nodes

    def __enter__(self) -> Self:
        # An installed rota is compiled already; with this variable, it would be compiled at each
        # start.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        # No-ops show the costs of rota without those of processes.
        os.environ["ROTA_TESTING_EXECUTORS"] = "1"
        self._undo.callback(os.environ.pop, "ROTA_TESTING_EXECUTORS", None)
        self.folder.mkdir(parents=True)
        if self._is_secure and self._cluster is not None:
            self._make_certificates()
        self._undo.enter_context(self._cluster or self.nodes["n1"])
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._undo.close()
        except subprocess.TimeoutExpired as late:
            # The measurements are valid, but the reason should be found.
            print(f"a node did not stop within {late.timeout:g} s, and was killed", file=sys.stderr)

    @property
    def token(self) -> str | None:
        """The token of the nodes, after the start; None if they need none."""
        token = self.nodes["n1"].token
        return token.text if token else None

    @property
    def _certificates(self) -> Path:
        return self.folder / "certificates"

    def _make_certificates(self) -> None:
        made_at = datetime.now(UTC)
        self._certificates.mkdir()
        authority = make_authority(CLUSTER, made_at)
        write_new(self._certificates, AUTHORITY, authority)
        for name in self.nodes:
            issued = issue_node(Authority.load(authority), NodeId(name), ["127.0.0.1"], made_at)
            write_new(self._certificates, name, issued)

    def _tls_flags(self, name: str) -> tuple[str, ...]:
        return (
            *("--peer-cert", str(certificate_file(self._certificates, name))),
            *("--peer-key", str(key_file(self._certificates, name))),
            *("--peer-ca", str(certificate_file(self._certificates, AUTHORITY))),
        )

    @property
    def urls(self) -> list[str]:
        """The URLs of the nodes."""
        return [node.url for node in self.nodes.values()]

    @property
    def durability(self) -> str:
        """The condition under which a write is answered, in words, for reports."""
        if self.size == 1:
            return "on this node's disk: group commit, fdatasync"
        copies = min(self.size, COPIES_MAX)
        return f"on the disks of all {copies} copies that count: group commit, fdatasync on each"

    def kill(self, names: Iterable[str]) -> None:
        """End nodes as `kill -9` does, and wait until their processes have ended."""
        for name in names:
            os.kill(self._pid(name), signal.SIGKILL)
        for name in names:
            process = self.nodes[name].process
            assert process is not None
            process.wait()

    @contextmanager
    def stopped(self) -> Generator[list[Path]]:
        """Stop all nodes while the body runs; provides their data directories."""
        for node in self.nodes.values():
            node.stop()
        yield [node.data_dir for node in self.nodes.values()]
        self.launch(self.nodes)
        for node in self.nodes.values():
            node.wait_ready()

    def launch(self, names: Iterable[str]) -> None:
        """Start nodes that were killed, without waiting until they are ready."""
        for name in names:
            self.nodes[name].launch()

    def processes(self) -> Iterator[tuple[str, int]]:
        """Yield every process by kind: ``node``, ``guard``, ``warden``, ``tasks`` or ``etcd``.

        ``tasks`` are processes that the warden has started and that have not ended, such as idle
        Python workers.
        """
        for name, node in self.nodes.items():
            yield "node", self._pid(name)
            guard = int((node.data_dir / "warden.lock").read_text())
            yield "guard", guard
            for number, pid in enumerate(descendants(guard)):
                yield "warden" if number == 0 else "tasks", pid
        if self._cluster is not None and self._cluster.etcd.process is not None:
            yield "etcd", self._cluster.etcd.process.pid

    def _pid(self, name: str) -> int:
        process = self.nodes[name].process
        assert process is not None, "it has been started"
        return process.pid
