"""Blocking calls that may hang, with limits on their time and number.

A hung disk delays a look at a file, and a hung name server the lookup of a name. Each call has a
daemon thread of its own, so that it delays neither other calls of the node nor the end of the
process.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


class BoundedCalls:
    """Blocking calls of one kind, for one event loop.

    Args:
        name: The name of the threads.
        within_s: The time limit of a call, in seconds.
        running_max: The number of running calls, hung ones included, from which no further call is
            begun.
    """

    def __init__(self, name: str, *, within_s: float, running_max: int) -> None:
        self._name = name
        self._within_s = within_s
        self._running_max = running_max
        self._running_count = 0

    async def result(self, call: Callable[[], T]) -> T | None:
        """Return the result of *call*, which handles its own errors.

        Returns:
            None if the call exceeds its time limit; None at once while the greatest number of calls
            run, or if no thread can be started.
        """
        if self._running_count >= self._running_max:
            return None
        loop = asyncio.get_running_loop()
        found: asyncio.Future[T] = loop.create_future()

        def ended(result: T) -> None:
            self._running_count -= 1
            if not found.done():
                found.set_result(result)

        def run() -> None:
            result = call()
            with suppress(RuntimeError):  # The event loop may have ended.
                loop.call_soon_threadsafe(ended, result)

        try:
            threading.Thread(target=run, name=self._name, daemon=True).start()
        except RuntimeError:  # The user has as many threads as the limit allows.
            return None
        self._running_count += 1
        try:
            async with asyncio.timeout(self._within_s):
                return await found
        except TimeoutError:
            return None
