"""Log lines: nothing waits for a reader that does not read."""

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from rota.executor.kernel.log_writer import WAITING_BYTES_MAX, LogWriter

LONG = "x" * 10_000
PIPE_BYTES = 1 << 16
"""As many as an empty pipe takes."""
ENDS = """
import logging
from rota.node.system.logs import begin_logging

begin_logging("info")
for number in range(2_000):
    logging.info("a line", extra={"text": "x" * 10_000})
"""


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    os.close(ends[0])
    os.close(ends[1])


def record(event: str, **facts: object) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": event, "levelname": "INFO", "name": "a", **facts})


def test_lines_are_written_in_order(pipe: tuple[int, int]) -> None:
    writer = LogWriter(pipe[1])

    for number in range(5):
        writer.handle(record("a line", number=number))
    writer.flush()

    lines = os.read(pipe[0], 1 << 16).decode().splitlines()
    assert [json.loads(line)["number"] for line in lines] == [0, 1, 2, 3, 4]
    assert writer.dropped == 0


def test_lines_that_are_not_read_are_dropped_and_counted(pipe: tuple[int, int]) -> None:
    writer = LogWriter(pipe[1])
    count = 2 * WAITING_BYTES_MAX // len(LONG)

    for number in range(count):
        writer.handle(record("a line", number=number, text=LONG))

    assert 0 < writer.dropped < count
    content = b""
    with os.fdopen(os.dup(pipe[0]), "rb") as reader:
        while content.count(b"\n") < count - writer.dropped:
            content += reader.read1(1 << 20)
    numbers = [json.loads(line)["number"] for line in content.splitlines()]
    assert numbers == list(range(len(numbers)))


def test_a_record_that_cannot_be_written_as_a_line_stops_nothing(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    writer = LogWriter(pipe[1])

    writer.handle(record("a line %d", args=("no number",)))
    writer.handle(record("another line"))
    writer.flush()

    assert os.read(pipe[0], 1 << 16).count(b"\n") == 1


def test_a_closed_descriptor_stops_nothing() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    writer = LogWriter(writing)

    writer.handle(record("a line"))
    writer.flush()

    assert writer.dropped == 1
    os.close(writing)


def test_the_last_lines_are_written_while_a_slow_reader_empties_the_pipe(
    pipe: tuple[int, int],
) -> None:
    writer = LogWriter(pipe[1])
    content = bytearray()

    def read_first_line() -> None:
        while b"\n" not in content:
            content.extend(os.read(pipe[0], 1 << 16))

    writer.handle(record("a line that fills the pipe", text="x" * PIPE_BYTES))
    writer.handle(record("the last line"))
    reading = threading.Thread(target=read_first_line)

    writer.acquire()  # As `logging.shutdown` does before it flushes.
    reading.start()
    writer.flush()
    reading.join()
    os.set_blocking(pipe[0], False)
    with suppress(BlockingIOError):
        content.extend(os.read(pipe[0], 1 << 16))
    writer.release()

    assert content.count(b"\n") == 2


def test_a_program_ends_although_its_log_is_not_read() -> None:
    with subprocess.Popen((sys.executable, "-c", ENDS), stderr=subprocess.PIPE) as program:
        try:
            assert program.wait(30) == 0
        finally:
            program.kill()
