"""Processes: the resources that they have used, from ``/proc``, and the end of this one."""

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def end_on_term() -> None:
    """Let a TERM end this process with an exception, so that it stops what it has started."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def cpu_s(pid: int) -> float:
    """Return the processor time that a process has used, in seconds; 0 if it does not exist."""
    return sum(_times_s(pid)[:2])


def cpu_of_ended_children_s(pid: int) -> float:
    """Return the processor time of the children that a process has reaped, in seconds."""
    return sum(_times_s(pid)[2:])


def _times_s(pid: int) -> list[float]:
    fields = _read(pid, "stat").rpartition(")")[2].split()
    return [int(each) / TICKS_PER_S for each in fields[11:15]]


def rss_mib(pid: int) -> float:
    """Return the resident memory of a process, in MiB; 0 if it does not exist."""
    found = re.search(r"VmRSS:\s+(\d+) kB", _read(pid, "status"))
    return int(found[1]) / 1_024 if found else 0.0


def written_bytes(pid: int) -> int:
    """Return the number of bytes that a process has written to disks; 0 if it does not exist."""
    found = re.search(r"^write_bytes: (\d+)", _read(pid, "io"), re.MULTILINE)
    return int(found[1]) if found else 0


def descendants(pid: int) -> Iterator[int]:
    """Yield the children of all threads of a process, and their descendants, as they are now."""
    for child in _children(pid):
        yield child
        yield from descendants(child)


def _children(pid: int) -> list[int]:
    try:
        threads = sorted(Path(f"/proc/{pid}/task").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return []
    texts = (_read(pid, f"task/{thread.name}/children") for thread in threads)
    return [int(child) for text in texts for child in text.split()]


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
