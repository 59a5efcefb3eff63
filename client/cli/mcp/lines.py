"""Messages as lines: one JSON message on each, from a client that has started this program."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import BoundedSemaphore, Lock
from typing import IO

from rota.client.mcp.protocol import INVALID_REQUEST, Server, refusal

MESSAGE_BYTES_MAX = 1 << 20
"""The most bytes of one message: several times the longest definitions."""
THREADS = 8
PENDING_MAX = 32
"""The most messages without an answer; further ones wait in the pipe."""


def serve_lines(server: Server, source: IO[bytes], sink: IO[bytes]) -> None:
    """Answer the messages of *source* on *sink* until *source* ends, several at a time."""
    room, lock = BoundedSemaphore(PENDING_MAX), Lock()

    def write(answer: bytes | None) -> None:
        # A client that reads no more has closed *source*, too, which ends the loop.
        with lock, suppress(BrokenPipeError):
            if answer is not None:
                sink.write(answer + b"\n")
                sink.flush()

    def handle(line: bytes) -> None:
        try:
            write(server.answer(line))
        finally:
            room.release()

    with ThreadPoolExecutor(THREADS, thread_name_prefix="rota-mcp") as threads:
        for line in _lines_of(source):
            if line is None:
                detail = f"the line has more than {MESSAGE_BYTES_MAX} bytes; send less at a time"
                write(refusal(INVALID_REQUEST, detail))
            elif line.strip():
                room.acquire()
                threads.submit(handle, line)


def _lines_of(source: IO[bytes]) -> Iterator[bytes | None]:
    """Yield the lines of *source*; None for a line that is too long."""
    while line := source.readline(MESSAGE_BYTES_MAX + 1):
        if len(line) <= MESSAGE_BYTES_MAX or line.endswith(b"\n"):
            yield line
            continue
        while not line.endswith(b"\n") and line:
            line = source.readline(MESSAGE_BYTES_MAX)
        yield None
