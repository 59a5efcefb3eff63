"""The ``rota`` program in tests: run inside the test's process, or as one of its own."""

import codecs
import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from rota.client.cli.main import main

T = TypeVar("T")

PROGRAM = [
    sys.executable,
    "-c",
    "import sys; from rota.client.cli.main import main; sys.exit(main())",
]
NO_NODE = "http://127.0.0.1:1"
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Ran:
    """The exit status and the output of a command."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its standard output, parsed as JSON."""
        return json.loads(self.out)


class Rota:
    """Runs commands in this process: fast, and within reach of a debugger."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd

    def __call__(self, *argv: str) -> Ran:
        """Run a command."""
        status = main(argv)
        sys.stdout.flush()
        written = self._capfd.readouterr()
        return Ran(status, written.out, written.err)


@contextmanager
def running(*argv: str) -> Generator[subprocess.Popen[str], None, None]:
    """Run a long-running command as a separate process, killed after the block."""
    with subprocess.Popen(
        [*PROGRAM, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def interrupted(process: "subprocess.Popen[str]") -> Ran:
    """Send Ctrl-C to a running command, and return its exit status and output."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    return Ran(process.returncode, out, err)


class Terminal:
    """A terminal on which a command runs."""

    def __init__(self, process: "subprocess.Popen[bytes]", ours: int) -> None:
        self.process = process
        self.shown = ""
        self._ours = ours
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def until(self, is_shown: Callable[[str], bool]) -> str:
        """Read until *is_shown* is true of the output so far, and return that output."""
        while not is_shown(self.shown):
            assert self._read(), f"the command ended or wrote nothing: {self.shown!r}"
        return self.shown

    def rest(self) -> str:
        """Read until the command ends, and return its whole output."""
        while self._read():
            pass
        return self.shown

    def _read(self) -> bool:
        if not select.select([self._ours], [], [], PATIENCE_S)[0]:
            return False
        try:
            part = os.read(self._ours, 65_536)
        except OSError:  # EIO on Linux when the other end is closed.
            return False
        self.shown += self._decoder.decode(part)
        return bool(part)


@contextmanager
def on_terminal(
    *argv: str, environment: Mapping[str, str] | None = None
) -> Generator[Terminal, None, None]:
    """Run a command on a terminal of 120 columns, killed after the block."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*PROGRAM, *argv],
        stdout=theirs,
        stderr=theirs,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120", **(environment or {})},
    ) as process:
        os.close(theirs)
        try:
            yield Terminal(process, ours)
        finally:
            os.close(ours)
            process.kill()


def until(found: Callable[[], T]) -> T:
    """Return the first true result of *found*, called repeatedly for 20 s."""
    for _ in range(400):
        result = found()
        if result:
            return result
        threading.Event().wait(0.05)
    raise AssertionError("no result in time")


def processes_that_name(folder: Path) -> list[str]:
    """Return the command lines of processes that have *folder* in them."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and entry.name != str(os.getpid()):
            try:
                words = (entry / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            if any(str(folder) in word for word in words):
                found.append(" ".join(words))
    return found


def kill_processes_that_name(folder: Path) -> None:
    """Kill what a test that failed has left."""
    subprocess.run(["pkill", "-9", "-f", "--", str(folder)], check=False)
