"""The processes whose costs a benchmark counts."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from bench.processes import cpu_s, descendants

PROGRAM = """
import os, subprocess, sys, threading

def start(words):
    pid = subprocess.Popen(words, stdin=sys.stdin).pid
    os.write(1, b"%d\\n" % pid)  # In one write: two threads do this at once.
    is_over.wait()

is_over = threading.Event()
for words in (["cat"], [sys.executable, "-c", "while True: pass"]):
    threading.Thread(target=start, args=(words,), daemon=True).start()
sys.stdin.read()
"""


@pytest.fixture
def parent() -> Iterator["subprocess.Popen[str]"]:
    """A process that starts two others, each in a thread of its own."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=pipe, stdout=pipe, text=True
    ) as it:
        try:
            yield it
        finally:
            for pid in (*descendants(it.pid), it.pid):
                subprocess.run(["kill", "-9", str(pid)], check=False)


def test_children_of_all_threads_are_found(parent: "subprocess.Popen[str]") -> None:
    assert parent.stdout is not None
    started = [int(parent.stdout.readline()) for _ in range(2)]

    found = list(descendants(parent.pid))

    assert sorted(found) == sorted(started)
    while max(map(cpu_s, found)) < 0.05:
        assert parent.poll() is None
