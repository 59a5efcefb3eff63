"""Results of several requests, without IO: lists in pages, and waits in parts."""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Protocol, TypeVar

from rota.client.errors import WaitTimedOut
from rota.wire.documents import ExecutionView

Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)

PAGE = 200
"""Items that an iterator requests at once."""
POLL_S = 10.0
"""Seconds that one request of a wait stays open, and after which a hanging node is detected."""


class Page(Protocol[Item_co]):
    """A page with the cursor of the next one."""

    @property
    def items(self) -> Sequence[Item_co]:
        """What is on it."""
        ...

    @property
    def next_cursor(self) -> str | None:
        """Cursor of the next page; None for the last one."""
        ...


class Pages:
    """The position in a list that is requested page by page.

    Args:
        limit: Maximum number of items; None for all.

    Attributes:
        cursor: Cursor of the next page; None for the first page.
        are_over: Whether no further page is needed.
    """

    def __init__(self, limit: int | None) -> None:
        self.cursor: str | None = None
        self.are_over = limit is not None and limit <= 0
        self._left = limit

    @property
    def size(self) -> int:
        """Number of items to request in the next page."""
        return PAGE if self._left is None else min(self._left, PAGE)

    def items_of(self, page: Page[Item]) -> Sequence[Item]:
        """Return the requested items of *page*, and advance to the next page."""
        # A page of the ledger may be longer than requested: it ends between fire times.
        wanted = page.items[: self._left]
        if self._left is not None:
            self._left -= len(wanted)
        self.cursor = page.next_cursor
        self.are_over = self.cursor is None or self._left == 0
        return wanted


class Patience:
    """Time limits of a wait and of each of its requests.

    Args:
        timeout_s: Limit in seconds; None for no limit.
        now: Clock, in seconds.
    """

    def __init__(self, timeout_s: float | None, *, now: Callable[[], float] = perf_counter) -> None:
        self._now = now
        self._timeout_s = timeout_s
        self._deadline = None if timeout_s is None else now() + timeout_s

    @property
    def poll_s(self) -> float:
        """Seconds that the next request may stay open."""
        if self._deadline is None:
            return POLL_S
        return min(max(self._deadline - self._now(), 0.0), POLL_S)

    @property
    def is_over(self) -> bool:
        """Whether the limit has passed."""
        return self._deadline is not None and self._now() >= self._deadline

    def check(self, unfinished: Sequence[ExecutionView]) -> None:
        """Continue to wait for *unfinished*.

        Raises:
            WaitTimedOut: The limit has passed.
        """
        if self.is_over:
            raise WaitTimedOut(unfinished, self._timeout_s or 0.0)
