"""An etcd of one member as a child process on loopback, for temporary clusters.

A web page may send JSON as text to any port of its reader's machine, and etcd's gateway answers
such requests. Therefore etcd requires authentication, and listens on a random address of
127.0.0.0/8 that is chosen at each start and that no page can guess. Authentication alone is not
enough: before 3.4.42 and 3.5.28, etcd lets any client raise alarms, and while an alarm is raised,
it lets any client disable authentication.
"""

import json
import os
import secrets
import shutil
import socket
import subprocess
from http.client import HTTPException
from ipaddress import IPv4Address
from pathlib import Path
from time import sleep
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from rota.client.dev.bound_process import bound
from rota.client.dev.local_node import launch_apart
from rota.client.dev.ports import free_port
from rota.core.errors import RotaError

START_S = 20.0
STOP_S = 10.0
LOOK_S = 0.05
ANSWER_S = 10.0
USER = "root"
"""The user name of the nodes; etcd enables authentication only if a user has this name."""


class EtcdNotInstalled(RotaError):
    """etcd is not installed on this machine."""

    code = "etcd_not_installed"

    def __init__(self, named: str) -> None:
        where = (
            f"ETCD names {named!r}, which is not a program" if named else "it is not on the PATH"
        )
        super().__init__(
            f"several nodes need etcd, and {where}; run apt-get install etcd-server, or get etcd "
            "from https://github.com/etcd-io/etcd/releases and set ETCD=/path/to/etcd"
        )


class EtcdNotStarted(RotaError):
    """etcd ended, or does not listen."""

    code = "etcd_not_started"


def find_etcd() -> str:
    """Return the path of etcd: the program that ``$ETCD`` names, else the one on the PATH.

    Raises:
        EtcdNotInstalled: There is no such program.
    """
    named = os.environ.get("ETCD", "")
    program = shutil.which(named or "etcd")
    if program is None:
        raise EtcdNotInstalled(named)
    return program


class LocalEtcd:
    """An etcd of one member that runs from `start` to `stop`, or to the end of this process.

    Args:
        folder: The directory of its data and its log, which remain when it stops.

    Raises:
        EtcdNotInstalled: etcd is not installed on this machine.
    """

    def __init__(self, folder: Path) -> None:
        self._program = find_etcd()
        self._data_dir = folder / "etcd"
        self.log_path = folder / "etcd.log"
        self.password_file = folder / "etcd.password"
        self._host = _draw_host()
        self._port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The URL for clients of etcd."""
        return f"http://{self._host}:{self._port}"

    def start(self) -> None:
        """Start etcd, wait until it listens, and enable authentication.

        Raises:
            EtcdNotStarted: etcd does not start, or does not accept the password.
        """
        self._launch()
        try:
            self._close()
        except (OSError, HTTPException) as error:
            self.stop()
            raise EtcdNotStarted(
                f"etcd does not accept the password in {self.password_file}: {error}; "
                f"{self.log_path} has the details. To start afresh, delete its folder"
            ) from error

    def _launch(self) -> None:
        peer_url = f"http://{self._host}:{free_port()}"
        argv = bound(
            [
                self._program, "--data-dir", str(self._data_dir), "--name", "dev",
                "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
                "--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url,
                "--initial-cluster", f"dev={peer_url}",
            ]
        )  # fmt: skip
        self.process = launch_apart(argv, self.log_path)
        for _ in range(round(START_S / LOOK_S)):
            if self.process.poll() is not None:
                break
            if _is_listening(self._host, self._port):
                return
            sleep(LOOK_S)
        raise EtcdNotStarted(f"etcd did not start; {self.log_path} has the reason")

    def _close(self) -> None:
        """Enable authentication with the password, unless an earlier start has enabled it."""
        login = {"name": USER, "password": self._password()}
        if not self._ask("authenticate", login, may_fail_with=b"authentication is not enabled"):
            for path, body in (
                ("user/add", login),
                ("role/add", {"name": USER}),
                ("user/grant", {"user": USER, "role": USER}),
                ("enable", {}),
            ):
                # An earlier start may have been interrupted between these calls.
                self._ask(path, body, may_fail_with=b"already exists")

    def _password(self) -> str:
        if not self.password_file.exists():
            descriptor = os.open(self.password_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(32) + "\n")
        return self.password_file.read_text().strip()

    def _ask(self, path: str, body: dict[str, str], *, may_fail_with: bytes) -> bool:
        """Return True if etcd succeeded, False if it failed in the expected way."""
        request = Request(f"{self.url}/v3/auth/{path}", json.dumps(body).encode())
        # Proxies of the environment do not apply to ports of this machine.
        try:
            with build_opener(ProxyHandler({})).open(request, timeout=ANSWER_S):
                return True
        except HTTPError as error:
            with error:
                text = error.read()
            if may_fail_with in text:
                return False
            raise OSError(f"{path}: {text.decode(errors='replace').strip()}") from error

    def stop(self) -> None:
        """Stop etcd if it runs."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _draw_host() -> str:
    """Return a loopback address with 24 random bits."""
    return str(IPv4Address((127 << 24) + 2 + secrets.randbelow((1 << 24) - 4)))


def _is_listening(host: str, port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex((host, port)) == 0
