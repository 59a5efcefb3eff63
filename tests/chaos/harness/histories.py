"""What happened, written down as it happens: JSON lines with times of CLOCK_BOOTTIME.

    clients.jsonl   {"op": 7, "event": "invoke", "at": 71.2, "what": "trigger", "asked": {...}}
                    {"op": 7, "event": "ok" | "fail" | "info", "at": 71.3, "told": {...}}
    faults.jsonl    {"at": 70.0, "fault": 3, "event": "begin" | "end" | "skip", "kind": ...}
    stalls.jsonl    see `chaos.harness.stalls`

``fail`` is an operation that certainly had no effect, ``info`` one of which nobody knows.
"""

import json
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

Json = Any  # Any: what is written down, read again by the judge.


def boottime() -> float:
    """Return seconds that go on whatever is done to clocks."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class History:
    """A file that grows by a line for everything that happens."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", buffering=1)

    def add(self, **fact: Json) -> None:
        """Add what happens now."""
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
