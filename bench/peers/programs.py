"""Programs of other systems: their paths, and running them while they are needed."""

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
"""The time limit of a start; Airflow takes half a minute on two cores."""
STOP_S = 60.0
LOOK_S = 0.02


class NotInstalled(Exception):
    """A required program or package is not installed; the message has the way to install it."""


def program(name: str, get_it: str, programs: Path | None = None) -> str:
    """Return the path of a program: in *programs* if it is there, else on the machine.

    Args:
        name: The name of the program; Debian has a separate folder for those of PostgreSQL.
        get_it: The way to install the program.
        programs: The folder of a system's own programs.

    Raises:
        NotInstalled: The program is not found.
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
        """The number of its process, which may have started others."""
        return self._launched().pid

    def launch(self) -> None:
        """Start the program, also after it was killed, without waiting until it is ready."""
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._argv, stdout=log, stderr=log, process_group=0,
                env=self._environment, cwd=self._cwd,
            )  # fmt: skip

    def reap(self) -> None:
        """Wait until the process has ended; its number may then belong to another process."""
        self._launched().wait()

    def stop(self) -> None:
        """End the program with TERM, then kill its group; no effect on a reaped program."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        # Not with `Popen.terminate`, which reaps an ended process: until it is reaped, its number
        # cannot belong to another group, in which its children may still run.
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
    """Run a program in a process group of its own while the body runs; the whole group then ends.

    The output is appended to *log_path*.
    """
    program = Running(argv, log_path, environment, cwd)
    try:
        program.launch()
        yield program
    finally:
        program.stop()


def kill(pids: Iterable[int]) -> None:
    """Kill processes and all their descendants, and wait until they have ended.

    Some, such as those of PostgreSQL, have left the group of their parent. The caller still has to
    reap those of *pids* that it started.

    Raises:
        TimeoutError: A process has not ended a minute later.
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
    """Wait until a process has ended, at most `STOP_S`, without reaping it."""
    deadline = time.monotonic() + STOP_S
    look = os.WEXITED | os.WNOWAIT | os.WNOHANG
    while os.waitid(os.P_PID, process.pid, look) is None and time.monotonic() < deadline:
        time.sleep(LOOK_S)


def wait_port(port: int) -> None:
    """Wait until a program listens on a port of this machine.

    Raises:
        TimeoutError: No program listens on the port in time.
    """

    def is_listened_on() -> bool:
        with socket.socket() as caller:
            return caller.connect_ex(("127.0.0.1", port)) == 0

    wait_until(is_listened_on, f"a program listens on {port}")


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    """Wait until *is_so* returns True; *what* is the condition in words.

    Raises:
        TimeoutError: The condition is not met within two minutes.
    """
    deadline = time.monotonic() + START_S
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"this condition was not met within {START_S:g} s: {what}")
        time.sleep(LOOK_S)
