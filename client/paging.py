"""Results of several requests, without IO: lists in pages, and waits in parts."""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Protocol, TypeVar

from rota.client.errors import WaitTimedOut
from rota.wire.documents import ExecutionView

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


class Pages:
    """The position in a list that is requested page by page.

    Args:
        limit: How many items are wanted at most; None for all.

    Attributes:
        cursor: Where the next page begins; None for the first page.
        are_over: Whether no further page is needed.
    """

    def __init__(self, limit: int | None) -> None:
        self.cursor: str | None = None
        self.are_over = limit is not None and limit <= 0
        self._left = limit

    @property
    def size(self) -> int:
        """How many items to request in the next page."""
        return PAGE if self._left is None else min(self._left, PAGE)

    def items_of(self, page: Page[Item]) -> Sequence[Item]:
        """Return the wanted items of the next page, *page*, and go on to the one after it."""
        # A page of the ledger may be longer than requested: it ends between fire times.
        wanted = page.items[: self._left]
        if self._left is not None:
            self._left -= len(wanted)
        self.cursor = page.next_cursor
        self.are_over = self.cursor is None or self._left == 0
        return wanted


class Patience:
    """How long a wait goes on, and how long each of its requests may stay open.

    Args:
        timeout_s: None for as long as it takes.
        now: Clock, in seconds.
    """

    def __init__(self, timeout_s: float | None, *, now: Callable[[], float] = perf_counter) -> None:
        self._now = now
        self._timeout_s = timeout_s
        self._deadline = None if timeout_s is None else now() + timeout_s

    @property
    def poll_s(self) -> float:
        """How long the next request may stay open."""
        if self._deadline is None:
            return POLL_S
        return min(max(self._deadline - self._now(), 0.0), POLL_S)

    @property
    def is_over(self) -> bool:
        """Whether there is no more time."""
        return self._deadline is not None and self._now() >= self._deadline

    def check(self, unfinished: Sequence[ExecutionView]) -> None:
        """Go on waiting for *unfinished*.

        Raises:
            WaitTimedOut: There is no more time.
        """
        if self.is_over:
            raise WaitTimedOut(unfinished, self._timeout_s or 0.0)
