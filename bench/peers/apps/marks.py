"""Marks: the lines that every compared system's work appends to one file, and their times.

A mark is a number and a time in nanoseconds since 1970; the time is 0 if a process made the mark.
"""

import os
import subprocess
import time
from pathlib import Path

MARK = "%d %d\n"
SCRIPT = 'echo "$0 0" >>"$1"'
"""A shell script that appends a mark without a time, by the shell's own `echo`: one process."""


def mark(path: str, number: int) -> None:
    """Append a mark with the present time; such a short line is written in one piece."""
    line = MARK % (number, time.time_ns())
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def mark_by_process(path: str, number: int) -> None:
    """Append a mark without a time by a process; `last_marked_at` returns the time of the last.

    Raises:
        CalledProcessError: The process failed.
    """
    subprocess.run(["/bin/sh", "-c", SCRIPT, str(number), path], check=True)


def last_marked_at(path: str) -> float:
    """Return the time of the last mark, in seconds since 1970, with the precision of the kernel."""
    return os.stat(path).st_mtime


def wait_marks(path: str, count: int, timeout_s: float) -> dict[int, float]:
    """Return the time of each number's first mark, in seconds, once *count* numbers are marked.

    The time is 0 for marks of processes.

    Raises:
        TimeoutError: Fewer numbers are marked after *timeout_s*.
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
    raise TimeoutError(f"fewer than {count} starts were marked within {timeout_s:g} s")
