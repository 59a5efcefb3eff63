"""Programs of others: where they are, and running them while they are needed."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

START_S = 120.0
"""Airflow's takes half a minute on two cores."""
STOP_S = 60.0


class NotInstalled(Exception):
    """A program that is needed is not there; says how to get it."""


def program(name: str, get_it: str, programs: Path | None = None) -> str:
    """Return where a program is: of a system's own, if they are given, else of the machine.

    Args:
        name: As a shell would call it; Debian keeps PostgreSQL's apart.
        get_it: For whoever has not got it, how to.
        programs: The folder of a system's own programs.

    Raises:
        NotInstalled: It is nowhere.
    """
    own = shutil.which(name, path=str(programs)) if programs else None
    places = [*sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))]
    found = own or shutil.which(name) or (str(places[-1]) if places else None)
    if found is None:
        raise NotInstalled(f"{name} is not installed; to get it: {get_it}")
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
        # Not by `Popen.terminate`, which waits for one that has ended: until it is waited for, its
        # number is no other group's. And what it has started may be there still.
        os.kill(process.pid, signal.SIGTERM)
        _wait_ended(process)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_ended(process: subprocess.Popen[bytes]) -> None:
    """Wait until it has ended, at most `STOP_S`, and leave it to be waited for."""
    deadline = time.monotonic() + STOP_S
    look = os.WEXITED | os.WNOWAIT | os.WNOHANG
    while os.waitid(os.P_PID, process.pid, look) is None and time.monotonic() < deadline:
        time.sleep(0.02)


def wait_port(port: int) -> None:
    """Wait until somebody listens on a port of this machine.

    Raises:
        TimeoutError: Nobody does.
    """
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        with socket.socket() as caller:
            if caller.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(f"nobody listens on {port} after {START_S:g} s")
