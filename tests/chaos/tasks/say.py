"""Tasks of a chaos run, which record when they start, that they run, and when they end.

Each line goes to one file with one write in append mode, so the order of the lines is the order of
the writes of all attempts:

    execution task attempt token node seconds word

where seconds are those of CLOCK_BOOTTIME and the word is ``start``, ``tick`` or ``end``. The file
is not subject to the harness's faults. The module needs the standard library alone.
"""

import os
import socket
import sys
import time

TICK_S = 0.1


def short(said: str, ms: int = 20, fail_times: int = 0) -> None:
    """Take *ms* milliseconds; fail in the first *fail_times* attempts."""
    say(said, "start")
    time.sleep(ms / 1000)
    say(said, "end")
    if int(os.environ["ROTA_ATTEMPT"]) <= fail_times:
        raise RuntimeError("as requested")


def long(said: str, seconds: float, *sink: str) -> None:
    """Take *seconds*, and write a tick ten times a second, also to a sink, if any."""
    say(said, "start")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(TICK_S)
        say(said, "tick")
        if sink:
            write(*sink)
    say(said, "end")


def write(address: str, job: str) -> None:
    """Write to the fenced sink at *address*, for a job; the sink may refuse it."""
    names = ("EXECUTION_ID", "TASK", "ATTEMPT", "TOKEN")
    words = " ".join([job, *(os.environ[f"ROTA_{name}"] for name in names)])
    host, _, port = address.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
        sending.sendto(words.encode(), (host, int(port)))


def say(said: str, word: str) -> None:
    """Add a line to the file *said*."""
    names = ("EXECUTION_ID", "TASK", "ATTEMPT", "TOKEN", "NODE_ID")
    at = f"{time.clock_gettime(time.CLOCK_BOOTTIME):.6f}"
    line = " ".join([*(os.environ[f"ROTA_{name}"] for name in names), at, word, "\n"])
    descriptor = os.open(said, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    long(sys.argv[1], float(sys.argv[2]), *sys.argv[3:])
