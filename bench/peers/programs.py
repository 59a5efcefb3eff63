"""Programs of others: where they are, and running them while they are needed."""

import os
import select
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from bench.processes import descendants

START_S = 120.0
"""Airflow's takes half a minute on two cores."""
STOP_S = 60.0
LOOK_S = 0.02


class NotInstalled(Exception):
    """A program that is needed is not there; says how to get it."""


def program(name: str, get_it: str, programs: Path | None = None) -> str:
    """Return the path of a program: in *programs* if given, else of the machine.

    Args:
        name: Name in a shell; Debian has a separate folder for PostgreSQL's.
        get_it: How to install it.
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


class Running:
    """A program in a process group of its own; see `running`."""

    def __init__(
        self,
        argv: Sequence[str],
        log_path: Path,
        environment: Mapping[str, str] | None,
        cwd: Path | None,
    ) -> None:
        self._argv, self._log_path = argv, log_path
        self._environment, self._cwd = environment, cwd
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Its process; it may have started others."""
        return self._launched().pid

    def launch(self) -> None:
        """Start it, for the first time or once it was killed; do not wait until it is ready."""
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._argv, stdout=log, stderr=log, process_group=0,
                env=self._environment, cwd=self._cwd,
            )  # fmt: skip

    def reap(self) -> None:
        """Wait until it has ended; its number may be another's afterwards."""
        self._launched().wait()

    def stop(self) -> None:
        """End it as TERM does, and all of its group; nothing if it was killed."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        # Not by `Popen.terminate`, which waits for one that has ended: until it is waited for, its
        # number is no other group's. And what it has started may be there still.
        os.kill(process.pid, signal.SIGTERM)
        _wait_ended(process)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _launched(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it has been launched"
        return self._process


@contextmanager
def running(
    argv: Sequence[str],
    log_path: Path,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Generator[Running]:
    """Run a program in a process group of its own, all of which ends with the body.

    What it writes is appended to *log_path*.
    """
    program = Running(argv, log_path, environment, cwd)
    try:
        program.launch()
        yield program
    finally:
        program.stop()


def kill(pids: Iterable[int]) -> None:
    """End processes, and all that they have started, as `kill -9` does; wait until they have ended.

    Some, as PostgreSQL's, have left the group of what started them. Who has started those that were
    named has to wait for them still.

    Raises:
        TimeoutError: One of them has not ended a minute later.
    """
    roots = [*pids]
    with ExitStack() as undo:
        doomed: list[int] = []
        for pid in {pid for root in roots for pid in (root, *descendants(root))}:
            with suppress(ProcessLookupError):
                doomed.append(os.pidfd_open(pid))
                undo.callback(os.close, doomed[-1])
        for process in doomed:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(process, signal.SIGKILL)
        for root in roots:
            with suppress(ProcessLookupError):
                os.killpg(root, signal.SIGKILL)
        for process in doomed:
            if not select.select([process], [], [], STOP_S)[0]:
                raise TimeoutError(f"a killed process has not ended within {STOP_S:g} s")


def _wait_ended(process: subprocess.Popen[bytes]) -> None:
    """Wait until it has ended, at most `STOP_S`, and leave it to be waited for."""
    deadline = time.monotonic() + STOP_S
    look = os.WEXITED | os.WNOWAIT | os.WNOHANG
    while os.waitid(os.P_PID, process.pid, look) is None and time.monotonic() < deadline:
        time.sleep(LOOK_S)


def wait_port(port: int) -> None:
    """Wait until a program listens on a port of this machine.

    Raises:
        TimeoutError: None does.
    """

    def is_listened_on() -> bool:
        with socket.socket() as caller:
            return caller.connect_ex(("127.0.0.1", port)) == 0

    wait_until(is_listened_on, f"a program listens on {port}")


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    """Wait until *is_so*; *what* says what that would be.

    Raises:
        TimeoutError: It is not, for two minutes.
    """
    deadline = time.monotonic() + START_S
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {START_S:g} s in vain until {what}")
        time.sleep(LOOK_S)
