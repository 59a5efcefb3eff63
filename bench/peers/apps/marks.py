"""Marks: the lines that every compared system's work appends to one file, and their times.

A mark is a number and a time in nanoseconds since 1970; the time is 0 if a process made the mark.
"""

import os
import subprocess
import time
from pathlib import Path

MARK = "%d %d\n"
SCRIPT = 'echo "$0 0" >>"$1"'
"""For a shell, whose own `echo` appends a mark without a time: one process in all."""


def mark(path: str, number: int) -> None:
    """Append a number and the time in nanoseconds; a line this short is written whole."""
    line = MARK % (number, time.time_ns())
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def mark_by_process(path: str, number: int) -> None:
    """Have a process append a number, without a time; `last_marked_at` has that of the last.

    Raises:
        CalledProcessError: It failed.
    """
    subprocess.run(["/bin/sh", "-c", SCRIPT, str(number), path], check=True)


def last_marked_at(path: str) -> float:
    """Return when a mark was appended last, in seconds since 1970, to a tick of the kernel."""
    return os.stat(path).st_mtime


def wait_marks(path: str, count: int, timeout_s: float) -> dict[int, float]:
    """Return when each number was marked first, in seconds, once there are so many.

    It is 0 for marks of processes.

    Raises:
        TimeoutError: There are not.
    """
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        seen: dict[int, float] = {}
        text = Path(path).read_text() if Path(path).exists() else ""
        for line in text.splitlines():
            number, at = line.split()
            seen.setdefault(int(number), int(at) / 1e9)
        if len(seen) >= count:
            return seen
        time.sleep(0.05)
    raise TimeoutError(f"{count} starts were not seen within {timeout_s:g} s")
