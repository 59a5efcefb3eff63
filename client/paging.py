"""Many things from several requests: pages one after another, and waits that are asked again."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from rota.client.errors import WaitTimedOut
from rota.client.wire import ExecutionView

Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)

PAGE = 200
"""Items that an iterator asks for at once."""
POLL_S = 10.0
"""How long one request of a wait stays open: what hangs is noticed not much later than this."""


class Page(Protocol[Item_co]):
    """A page, and where the next one begins."""

    @property
    def items(self) -> Sequence[Item_co]:
        """What is on it."""
        ...

    @property
    def next_cursor(self) -> str | None:
        """Where the next one begins; None: there is none."""
        ...


async def over_pages(
    page: Callable[[int, str | None], Awaitable[Page[Item]]], limit: int | None
) -> AsyncGenerator[Item, None]:
    """Yield the items of all pages, at most *limit*.

    Args:
        page: Asks for so many items from a cursor on.
        limit: None for all.
    """
    cursor = None
    left = limit
    while left is None or left > 0:
        found = await page(PAGE if left is None else min(left, PAGE), cursor)
        # A page of the ledger may be longer than asked for: it ends between fire times.
        for item in found.items[:left]:
            yield item
        cursor = found.next_cursor
        if cursor is None:
            return
        if left is not None:
            left -= len(found.items)


class Patience:
    """How long a wait goes on, and how long each of its requests may stay open.

    Args:
        timeout_s: None for as long as it takes.
    """

    def __init__(self, timeout_s: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeout_s = timeout_s
        self._deadline = None if timeout_s is None else self._loop.time() + timeout_s

    @property
    def poll_s(self) -> float:
        """How long the next request may stay open."""
        if self._deadline is None:
            return POLL_S
        return min(max(self._deadline - self._loop.time(), 0.0), POLL_S)

    @property
    def is_over(self) -> bool:
        """Whether there is no more time."""
        return self._deadline is not None and self._loop.time() >= self._deadline

    def check(self, unfinished: Sequence[ExecutionView]) -> None:
        """Go on waiting for *unfinished*.

        Raises:
            WaitTimedOut: There is no more time.
        """
        if self.is_over:
            raise WaitTimedOut(unfinished, self._timeout_s or 0.0)
