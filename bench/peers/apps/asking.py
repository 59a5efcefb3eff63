"""Concurrent requests in one asyncio loop, for systems whose clients use asyncio."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, TypeVar

T = TypeVar("T")
Request = Callable[[], Awaitable[object]]


class Asking:
    """An asyncio loop that is kept between calls, as clients require.

    Args:
        at_once: The number of requests under way: enough for a server that groups writes, and no
            more than it can handle.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._runner = asyncio.Runner()
        self._undo = AsyncExitStack()

    def enter(self, client: AbstractAsyncContextManager[T]) -> T:
        """Return a client that stays open until `close`."""
        return self.run(self._undo.enter_async_context(client))

    def run(self, work: Coroutine[Any, Any, T]) -> T:  # Any: nothing is sent into the coroutine.
        """Return the result of *work*."""
        return self._runner.run(work)

    def run_all(self, requests: Iterable[Request]) -> None:
        """Make all requests; they are started in order."""
        self.run(_make_all(iter(requests), self._at_once))

    def close(self) -> None:
        """Close the clients and the loop."""
        self.run(self._undo.aclose())
        self._runner.close()


async def _make_all(requests: Iterable[Request], at_once: int) -> None:
    async def make_some() -> None:
        for make in requests:
            await make()

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(make_some())
