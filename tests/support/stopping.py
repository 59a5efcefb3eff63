"""Stop processes, so that none of their threads runs when the call returns."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path


def stop(pid: int) -> None:
    """Send SIGSTOP and wait until every thread is stopped, for at most about 10 s.

    The signal alone is not enough. One thread takes it and then stops the others, which may
    answer a request until that thread runs, some milliseconds later on a busy machine.
    """
    os.kill(pid, signal.SIGSTOP)
    for _ in range(10_000):
        if set(_thread_states(pid)) <= set("TtZX"):
            return
        time.sleep(0.001)
    raise AssertionError(f"process {pid} does not stop")


def _thread_states(pid: int) -> list[str]:
    states = list[str]()
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # The thread has ended.
            # The state follows the name, which is in parentheses and may hold any character.
            states.append((thread / "stat").read_text().rpartition(")")[2].split()[0])
    return states
