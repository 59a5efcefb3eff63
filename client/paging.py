"""Results of several requests, without IO: lists in pages, and waits in parts."""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Protocol, TypeVar

from rota.client.errors import WaitTimedOut
from rota.wire.documents import ExecutionView

Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)

PAGE = 200
"""The number of items that an iterator requests at a time."""
POLL_S = 10.0
"""How many seconds one request of a wait stays open, so that a hanging node is detected."""


class Page(Protocol[Item_co]):
    """A page of a list, with the cursor of the next page."""

    @property
    def items(self) -> Sequence[Item_co]:
        """The items on the page."""
        ...

    @property
    def next_cursor(self) -> str | None:
        """The cursor of the next page; None for the last page."""
        ...


class Pages:
    """The position in a list that is requested page by page.

    Args:
        limit: The most items; None for all.

    Attributes:
        cursor: The cursor of the next page; None for the first page.
        are_over: Whether no further page is needed.
    """

    def __init__(self, limit: int | None) -> None:
        self.cursor: str | None = None
        self.are_over = limit is not None and limit <= 0
        self._left = limit

    @property
    def size(self) -> int:
        """The number of items to request for the next page."""
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
    """The time limits of a wait and of each of its requests.

    Args:
        timeout_s: The limit of the wait in seconds; None for no limit.
        now: A monotonic clock, in seconds.
    """

    def __init__(self, timeout_s: float | None, *, now: Callable[[], float] = perf_counter) -> None:
        self._now = now
        self._timeout_s = timeout_s
        self._deadline = None if timeout_s is None else now() + timeout_s

    @property
    def poll_s(self) -> float:
        """How many seconds the next request may stay open."""
        if self._deadline is None:
            return POLL_S
        return min(max(self._deadline - self._now(), 0.0), POLL_S)

    @property
    def is_over(self) -> bool:
        """Whether the limit has passed."""
        return self._deadline is not None and self._now() >= self._deadline

    def check(self, unfinished: Sequence[ExecutionView]) -> None:
        """Check that the wait for *unfinished* may continue.

        Raises:
            WaitTimedOut: The time limit has passed.
        """
        if self.is_over:
            raise WaitTimedOut(unfinished, self._timeout_s or 0.0)
