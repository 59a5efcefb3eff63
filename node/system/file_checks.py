"""Checks of this machine's files that wait only briefly for a disk that hangs."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

WITHIN_S = 1.0
"""A look at a file takes microseconds, and at one of a slow network disk milliseconds."""
RUNNING_MAX = 8
"""Checks at the same time; while so many run, none is begun."""

T = TypeVar("T")


class FileChecks:
    """Runs checks, each in a thread that lasts until it ends; for one loop.

    A thread that hangs does not keep the process from ending.
    """

    def __init__(self) -> None:
        self._running_count = 0

    async def result(self, check: Callable[[], T]) -> T | None:
        """Return the result of *check*, which handles its errors; None if it takes too long.

        None at once while `RUNNING_MAX` checks run, or if no thread can be begun.
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
            with suppress(RuntimeError):  # The loop has ended meanwhile.
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
