"""Histories of a run, written as it proceeds: JSON lines with times of CLOCK_BOOTTIME.

    clients.jsonl   {"op": 7, "event": "invoke", "at": 71.2, "what": "trigger", "asked": {...}}
                    {"op": 7, "event": "ok" | "fail" | "info", "at": 71.3, "answer": {...}}
    faults.jsonl    {"at": 70.0, "fault": 3, "event": "begin" | "end" | "skip", "kind": ...}
    stalls.jsonl    see `chaos.harness.stalls`

``fail`` is an operation that certainly had no effect, ``info`` one whose effect is unknown.
"""

import json
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

Json = Any  # Any: recorded here, and read by the judge.


def boottime() -> float:
    """Return seconds of a clock that no fault changes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class History:
    """A file with one line for each event."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", buffering=1)

    def add(self, **fact: Json) -> None:
        """Add an event with the present time."""
        self._file.write(json.dumps({"at": round(boottime(), 6), **fact}) + "\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()
