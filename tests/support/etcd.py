"""Real etcd for tests: one member or several, which tests start, pause and kill."""

import json
import random
import shutil
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from rota.client.dev.ports import BEYOND, LOWEST, kept
from support.stopping import stop

BINARY = shutil.which("etcd")
needs_etcd = pytest.mark.skipif(
    BINARY is None,
    reason="etcd is missing, so nothing about it is tested: apt-get install etcd-server, or put "
    "the etcd of https://github.com/etcd-io/etcd/releases on the PATH",
)
Json = Any  # Any: JSON answers of etcd; each test reads the fields that it checks.


class Etcd:
    """One member of an etcd cluster, on free ports of the loopback.

    Args:
        name: Name of the member.
        folder: Folder of its data and its log.
        flags: Further flags.

    Attributes:
        address: Address of its host.
        prefix: Program and arguments before etcd's argv, to run etcd on that host.
        tls: TLS settings of clients, if its scheme is ``https``.
        token: Authentication token of the requests of `ask`.
    """

    def __init__(self, name: str, folder: Path, *flags: str) -> None:
        self.name = name
        self.folder = folder
        self.flags = flags
        self.address = "127.0.0.1"
        self.prefix: tuple[str, ...] = ()
        self.scheme = "http"
        self.tls: ssl.SSLContext | None = None
        self.token = ""
        self.client_port, self.peer_port = free_ports(2)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The URL for clients."""
        return f"{self.scheme}://{self.address}:{self.client_port}"

    @property
    def peer_url(self) -> str:
        """The URL for other members."""
        return f"http://{self.address}:{self.peer_port}"

    @property
    def data_dir(self) -> Path:
        """Its data directory."""
        return self.folder / self.name

    def start(self, peers: str = "") -> None:
        """Start the member, alone or with *peers*, without waiting."""
        assert BINARY is not None
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *self.prefix, BINARY, "--name", self.name, "--data-dir", str(self.data_dir),
                    "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
                    "--listen-peer-urls", self.peer_url,
                    "--initial-advertise-peer-urls", self.peer_url,
                    "--initial-cluster", peers or f"{self.name}={self.peer_url}",
                    "--heartbeat-interval", "50", "--election-timeout", "500", *self.flags,
                ],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            )  # fmt: skip

    def kill(self) -> None:
        """Kill the process; unlike a power failure, this keeps unsynced writes."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    @contextmanager
    def paused(self) -> Generator[None]:
        """Stop the process during the block, with all its connections open."""
        assert self.process is not None
        stop(self.process.pid)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def ask(self, path: str, request: Json, timeout_s: float = 5, token: str = "") -> Json:
        """Make a request to the JSON gateway; bytes are sent as base64."""
        body = json.dumps(request, default=lambda value: b64encode(value).decode()).encode()
        token = token or self.token
        credentials = {"Authorization": token} if token else {}
        asked = urllib.request.Request(f"{self.url}{path}", body, credentials)
        with urllib.request.urlopen(asked, timeout=timeout_s, context=self.tls) as answer:
            return json.load(answer)

    def put(self, key: str, value: str) -> int:
        """Put a key; return the revision."""
        answer = self.ask("/v3/kv/put", {"key": key.encode(), "value": value.encode()})
        return int(answer["header"]["revision"])

    def use_up_quota(self) -> None:
        """Write other programs' keys until etcd refuses more; needs a small quota."""
        with suppress(urllib.error.HTTPError):  # The refusal for want of space.
            for number in range(60):
                self.put(f"/other/{number}", "x" * 200_000)
            pytest.fail("etcd has room for 12 MB")

    def make_room(self) -> None:
        """Undo `use_up_quota` as an operator would."""
        removed = self.ask("/v3/kv/deleterange", {"key": b"/other/", "range_end": b"/other0"})
        revision = removed["header"]["revision"]
        self.ask("/v3/kv/compaction", {"revision": revision, "physical": True})
        self.ask("/v3/maintenance/defragment", {})
        self.ask("/v3/maintenance/alarm", {"action": "DEACTIVATE", "alarm": "NOSPACE"})

    def is_leader(self) -> bool:
        """Return True if the member reports itself as the leader."""
        try:
            status = self.ask("/v3/maintenance/status", {}, timeout_s=0.5)
        except OSError:
            return False
        return bool(status.get("leader") == status["header"]["member_id"])

    def is_ready(self) -> bool:
        """Return True if the member answers a read that needs a majority."""
        try:
            self.ask("/v3/kv/range", {"key": b"/"}, timeout_s=1)
        except urllib.error.HTTPError as error:
            return error.code == 400  # Authentication is required.
        except OSError:
            return False
        return True


class EtcdCluster:
    """The members of one etcd cluster.

    Args:
        folder: Folder of the members' data.
        size: Number of members.
        flags: Further flags of each member.
    """

    def __init__(self, folder: Path, size: int = 1, *flags: str) -> None:
        self.members = [Etcd(f"m{number}", folder, *flags) for number in range(size)]

    def __enter__(self) -> "EtcdCluster":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.kill()

    @property
    def urls(self) -> tuple[str, ...]:
        """The members' URLs for clients."""
        return tuple(member.url for member in self.members)

    def start(self) -> None:
        """Start all members that do not run, and wait until each is ready."""
        peers = ",".join(f"{each.name}={each.peer_url}" for each in self.members)
        for member in self.members:
            if member.process is None:
                member.start(peers)
        for member in self.members:
            wait_until(member.is_ready, f"{member.name} does not get ready")

    def leader(self) -> Etcd:
        """Return the leader, after waiting for its election."""
        found: list[Etcd] = []

        def is_found() -> bool:
            found[:] = [member for member in self.members if member.is_leader()]
            return bool(found)

        wait_until(is_found, "no member leads")
        return found[0]


def free_ports(count: int) -> list[int]:
    """Return unused ports of the loopback, reserved until this process ends."""
    ports: list[int] = []
    while len(ports) < count:
        port = random.SystemRandom().randrange(LOWEST, BEYOND)
        keeper = kept(port)
        if keeper is not None:
            keeper.detach()  # The socket stays open until this process ends.
            ports.append(port)
    return ports


def wait_until(is_so: Callable[[], bool], otherwise: str, timeout_s: float = 60) -> None:
    """Wait until *is_so*: etcd sends no notice when it is ready."""
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)
