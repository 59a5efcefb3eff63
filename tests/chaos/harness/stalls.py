"""Detection of stalls of the machine itself, whose effects on tasks break no rule.

On a machine under full load a process may wait for seconds for a processor or a sync; then sessions
end and leases run out without any fault. So a separate program works for some milliseconds and
syncs, again and again, and records long waits:

    stalls.jsonl    {"at": 70.3, "took": 0.8}      (boot-time seconds; it began that long before)

As a program: ``stalls.py FILE PROBE``, where PROBE is a file that it may write to.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

EVERY_S = 0.2
WORK = 200_000
"""Additions: some 5 ms."""
LONG_S = 0.15


class Watch:
    """The program, which runs while the body runs."""

    def __init__(self, folder: Path) -> None:
        files = [str(folder / "stalls.jsonl"), str(folder / "probe")]
        self._argv = [sys.executable, "-S", "-E", __file__, *files]

        self._stalls = folder / "stalls.jsonl"
        self._stalls.touch()

    def stalled_s(self) -> float:
        """Return the total length of the stalls so far."""
        lines = self._stalls.read_text().splitlines()
        return sum(float(json.loads(line)["took"]) for line in lines)

    def __enter__(self) -> Self:
        self._program = subprocess.Popen(self._argv)
        return self

    def __exit__(self, *_: object) -> None:
        self._program.kill()
        self._program.wait()


def watch(path: Path, probe: Path) -> None:
    """Record long waits until the process is killed."""
    file = os.open(probe, os.O_WRONLY | os.O_CREAT)
    with path.open("a", buffering=1) as stalls:
        while True:
            time.sleep(EVERY_S)
            began, busy_since = time.monotonic(), time.process_time()
            sum(range(WORK))
            os.pwrite(file, b"x" * 512, 0)
            os.fdatasync(file)
            took = time.monotonic() - began
            if took - (time.process_time() - busy_since) > LONG_S:
                at = time.clock_gettime(time.CLOCK_BOOTTIME)
                stalls.write(json.dumps({"at": round(at, 6), "took": round(took, 3)}) + "\n")


if __name__ == "__main__":
    watch(Path(sys.argv[1]), Path(sys.argv[2]))
