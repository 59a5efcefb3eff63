"""Checks of this machine's files that wait only briefly for a disk that hangs."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

WITHIN_S = 1.0
"""The time limit of a check, which takes microseconds, and milliseconds on a slow network disk."""
RUNNING_MAX = 8
"""The number of running checks from which no further check is begun."""

T = TypeVar("T")


class FileChecks:
    """Checks of files for one event loop, each in its own thread.

    A thread that hangs does not prevent the end of the process.
    """

    def __init__(self) -> None:
        self._running_count = 0

    async def result(self, check: Callable[[], T]) -> T | None:
        """Return the result of *check*, which handles its own errors.

        Returns:
            None if the check takes longer than `WITHIN_S`; None at once while `RUNNING_MAX` checks
            run, or if no thread can be started.
        """
        if self._running_count >= RUNNING_MAX:
            return None
        loop = asyncio.get_running_loop()
        found: asyncio.Future[T] = loop.create_future()

        def ended(result: T) -> None:
            self._running_count -= 1
            if not found.done():
                found.set_result(result)

        def run() -> None:
            result = check()
            with suppress(RuntimeError):  # The event loop may have ended.
                loop.call_soon_threadsafe(ended, result)

        try:
            threading.Thread(target=run, name="rota-file-check", daemon=True).start()
        except RuntimeError:  # The user has as many threads as the limit allows.
            return None
        self._running_count += 1
        try:
            async with asyncio.timeout(WITHIN_S):
                return await found
        except TimeoutError:
            return None
