"""Log lines, written by a thread: a program never waits for the reader of its log.

A pipe that no program reads, or a disk that does not answer, would otherwise stop the program at
its next line. Lines for which there is no room are dropped and counted.
"""

import json
import logging
import os
import select
import threading
import time
from collections import deque
from datetime import UTC, datetime

WAITING_BYTES_MAX = 4 << 20
"""The most bytes of lines that wait to be written."""
WRITE_BYTES = 64 << 10
"""The most bytes of one write: as many as an empty pipe takes."""
FLUSH_S = 1.0
"""The longest wait for the lines at the end of the program."""
_PAUSE_S = 0.001
_LOOK_S = 1.0

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

log = logging.getLogger(__name__)


class JsonFormatter(logging.Formatter):
    """Formatter of log records as JSON objects."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds")
        line: dict[str, object] = {
            "at": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
        }
        line |= {key: value for key, value in vars(record).items() if key not in _PLAIN}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class LogWriter(logging.Handler):
    """Writes the lines of log records to a descriptor, in a thread.

    Args:
        descriptor: A descriptor, such as that of standard error; it may block.

    Attributes:
        dropped: The number of lines for which there was no room.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter())
        self.dropped = 0
        self._descriptor = descriptor
        self._lines: deque[bytes] = deque()
        self._waiting = 0
        # Not the handler's lock: `logging.shutdown` holds that one while it flushes.
        self._counting = threading.Lock()
        self._reported = 0
        self._has_lines = threading.Event()
        self._thread: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the line of a record, or drop it. Called with the lock of the handler."""
        try:
            line = self.format(record).encode("utf-8", "backslashreplace") + b"\n"
        except Exception:
            self.handleError(record)
            return
        with self._counting:
            if self._waiting + len(line) > WAITING_BYTES_MAX:
                self.dropped += 1
                return
            self._waiting += len(line)
        self._lines.append(line)
        if self._thread is None:  # Not in the constructor: a fork has no threads.
            self._thread = threading.Thread(target=self._run, name="rota-log", daemon=True)
            self._thread.start()
        self._has_lines.set()

    def flush(self) -> None:
        """Wait until all lines are written, for a limited time; called at the program's end."""
        for _ in range(round(FLUSH_S / _PAUSE_S)):
            if not self._waiting:
                break
            time.sleep(_PAUSE_S)

    def _run(self) -> None:
        while True:
            self._has_lines.wait()
            self._has_lines.clear()
            while self._lines:
                self._write(self._next_part())

    def _next_part(self) -> bytes:
        part = [self._lines.popleft()]
        size = len(part[0])
        while self._lines and size + len(self._lines[0]) <= WRITE_BYTES:
            part.append(self._lines.popleft())
            size += len(part[-1])
        return b"".join(part)

    def _write(self, part: bytes) -> None:
        rest = memoryview(part)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # The other end of the pipe has set it to non-blocking.
                room = select.poll()
                room.register(self._descriptor, select.POLLOUT)
                room.poll(_LOOK_S * 1_000)
            except OSError:  # The other end of the pipe is closed.
                self.dropped += part.count(b"\n")
                break
        with self._counting:
            self._waiting -= len(part)
        self._report_dropped()

    def _report_dropped(self) -> None:
        """Log once how many lines were dropped, now that there is room."""
        count = self.dropped - self._reported
        if count and self._waiting < WAITING_BYTES_MAX // 2:
            self._reported = self.dropped
            log.error("log lines dropped", extra={"count": count})
