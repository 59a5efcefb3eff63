"""An etcd as a child process on loopback: one member, for trying a cluster out."""

import os
import shutil
import socket
import subprocess
from pathlib import Path
from time import sleep

from rota.client.local_node import launch_apart
from rota.client.ports import free_port
from rota.core.errors import RotaError

START_S = 20.0
STOP_S = 10.0
LOOK_S = 0.05


class EtcdNotInstalled(RotaError):
    """There is no etcd here."""

    code = "etcd_not_installed"

    def __init__(self, named: str) -> None:
        where = f"ETCD names {named!r}, which is no program" if named else "it is not on the PATH"
        super().__init__(
            f"several nodes need etcd, and {where}: apt-get install etcd-server, or get it from "
            "https://github.com/etcd-io/etcd/releases and set ETCD=/path/to/etcd"
        )


class EtcdNotStarted(RotaError):
    """It ended, or nobody listens there, instead of starting."""

    code = "etcd_not_started"


def find_etcd() -> str:
    """Return the program: the one that ``$ETCD`` names, else the one on the PATH.

    Raises:
        EtcdNotInstalled: There is none.
    """
    named = os.environ.get("ETCD", "")
    program = shutil.which(named or "etcd")
    if program is None:
        raise EtcdNotInstalled(named)
    return program


class LocalEtcd:
    """An etcd of one member that runs from `start` to `stop`.

    Args:
        folder: Where its data and its log are; they are left when it stops.

    Raises:
        EtcdNotInstalled: See there.
    """

    def __init__(self, folder: Path) -> None:
        self._program = find_etcd()
        self._data_dir = folder / "etcd"
        self.log_path = folder / "etcd.log"
        self._port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where clients reach it."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it and wait until it listens.

        Raises:
            EtcdNotStarted: It does not.
        """
        peer_url = f"http://127.0.0.1:{free_port()}"
        self.process = launch_apart(
            [
                self._program, "--data-dir", str(self._data_dir), "--name", "dev",
                "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
                "--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url,
                "--initial-cluster", f"dev={peer_url}",
            ],
            self.log_path,
        )  # fmt: skip
        for _ in range(round(START_S / LOOK_S)):
            if self.process.poll() is not None:
                break
            if _is_listening(self._port):
                return
            sleep(LOOK_S)
        raise EtcdNotStarted(f"etcd did not start; {self.log_path} says why")

    def stop(self) -> None:
        """Stop it, if it runs."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _is_listening(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0
