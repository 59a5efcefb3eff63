"""For drivers whose system is asked with asyncio: many requests at a time, in one loop."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, TypeVar

T = TypeVar("T")
Request = Callable[[], Awaitable[object]]


class Asking:
    """An asyncio loop that is there between calls too, as clients want it.

    Args:
        at_once: How many requests are under way; enough that a server that writes many together
            can, and no more than it bears.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._runner = asyncio.Runner()
        self._undo = AsyncExitStack()

    def enter(self, client: AbstractAsyncContextManager[T]) -> T:
        """Return a client that is open until this is closed."""
        return self.run(self._undo.enter_async_context(client))

    def run(self, work: Coroutine[Any, Any, T]) -> T:  # Any: what is sent into it, and never is
        """Return what comes of *work*."""
        return self._runner.run(work)

    def run_all(self, requests: Iterable[Request]) -> None:
        """Make all requests, begun in order."""
        self.run(_make_all(iter(requests), self._at_once))

    def close(self) -> None:
        """Close what was entered, and the loop."""
        self.run(self._undo.aclose())
        self._runner.close()


async def _make_all(requests: Iterable[Request], at_once: int) -> None:
    async def make_some() -> None:
        for make in requests:
            await make()

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(make_some())
