"""What the attempts of a chaos run do: say when they start, what they see, and when they end.

Each line goes to one file with one write in append mode, so the order of its lines is the order in
which they were said, whoever said them:

    execution task attempt token node seconds word

where seconds are those of CLOCK_BOOTTIME and the word is ``start``, ``tick`` or ``end``. The file
is outside of what the harness breaks. Standard library only: it runs wherever Python does.
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
        raise RuntimeError("as told")


def long(said: str, seconds: float, *sink: str) -> None:
    """Take *seconds*, and say ten times a second that it is still there; also to a sink, if any."""
    say(said, "start")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(TICK_S)
        say(said, "tick")
        if sink:
            write(*sink)
    say(said, "end")


def write(address: str, job: str) -> None:
    """Write to the fenced sink at *address*, for a job; whether it takes it is for the judge."""
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
