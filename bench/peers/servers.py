"""The servers that other schedulers keep their jobs in: on loopback, while one is measured."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rota.client.local_node import free_port

START_S = STOP_S = 60.0
POSTGRES_USER = "postgres"
"""As whom PostgreSQL runs where this is root, whom it refuses."""


class NotInstalled(Exception):
    """A program that is needed is not there."""


@dataclass(frozen=True)
class Served:
    """A server that runs.

    Attributes:
        variables: Of the environment: they tell apps where it is.
        pid: Its process; it may have started others.
    """

    variables: dict[str, str]
    pid: int


@contextmanager
def redis(folder: Path) -> Generator[Served]:
    """Run Redis, its journal synced every second; give where.

    Raises:
        NotInstalled: It is not on the PATH.
    """
    port = free_port()
    argv = [
        *(_program("redis-server"), "--port", str(port), "--bind", "127.0.0.1"),
        *("--dir", str(folder), "--save", "", "--appendonly", "yes"),
        *("--appendfsync", "everysec"),
    ]
    with running(argv, folder / "redis.log") as process:
        _wait_port(port)
        yield Served({"BENCH_REDIS": f"redis://127.0.0.1:{port}/0"}, process.pid)


@contextmanager
def postgres(folder: Path) -> Generator[Served]:
    """Run PostgreSQL with its defaults, every commit synced; give where.

    Raises:
        NotInstalled: It is nowhere.
    """
    data, port = folder / "postgres", free_port()
    become: list[str] = []
    if os.geteuid() == 0:
        shutil.chown(folder, POSTGRES_USER)
        folder.parent.chmod(0o755)
        become = ["setpriv", "--reuid", POSTGRES_USER, "--regid", POSTGRES_USER, "--init-groups"]
    initdb = [*become, _program("initdb"), "-D", str(data), "-U", "bench", "-A", "trust"]
    subprocess.run(initdb, check=True, capture_output=True, cwd=folder)
    argv = [
        *(*become, _program("postgres"), "-D", str(data), "-p", str(port)),
        *("-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="),
    ]
    with running(argv, folder / "postgres.log") as process:
        _wait_port(port)
        url = f"postgresql://bench@127.0.0.1:{port}/postgres"
        yield Served({"BENCH_POSTGRES": url}, process.pid)


def _program(name: str) -> str:
    """Return where a program is; Debian keeps PostgreSQL's apart."""
    places = [*sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))]
    found = shutil.which(name) or (str(places[-1]) if places else None)
    if found is None:
        raise NotInstalled(f"{name} is not installed")
    return found


@contextmanager
def running(
    argv: Sequence[str],
    log_path: Path,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Generator[subprocess.Popen[bytes]]:
    """Run a program in a process group of its own, all of which ends with the body."""
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            argv, stdout=log, stderr=log, process_group=0, env=environment, cwd=cwd
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_port(port: int) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        with socket.socket() as caller:
            if caller.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(f"nobody listens on {port} after {START_S:g} s")
