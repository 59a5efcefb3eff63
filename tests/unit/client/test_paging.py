"""Lists in pages and waits in parts: the next request, and the end."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from rota.client.errors import WaitTimedOut
from rota.client.paging import PAGE, POLL_S, Pages, Patience


@dataclass(frozen=True)
class Part:
    """A page of numbers."""

    items: Sequence[int]
    next_cursor: str | None


def listed(pages: Pages, parts: dict[str | None, Part]) -> list[int]:
    """Return the items of *parts*, by cursor, that *pages* requests."""
    found: list[int] = []
    while not pages.are_over:
        found += pages.items_of(parts[pages.cursor])
    return found


TWO = {None: Part([1, 2, 3], "a"), "a": Part([4, 5], None)}


@pytest.mark.parametrize(
    ("limit", "items"),
    [
        (None, [1, 2, 3, 4, 5]),
        (6, [1, 2, 3, 4, 5]),
        (4, [1, 2, 3, 4]),
        (3, [1, 2, 3]),
        (2, [1, 2]),
        (0, []),
        (-1, []),
    ],
)
def test_pages_are_joined_up_to_the_limit(limit: int | None, items: list[int]) -> None:
    assert listed(Pages(limit), TWO) == items


def test_no_page_is_requested_after_the_limit_is_reached() -> None:
    pages = Pages(3)

    pages.items_of(TWO[None])

    assert pages.are_over


def test_a_page_is_no_larger_than_what_is_missing() -> None:
    pages = Pages(PAGE + 1)
    first = pages.size

    pages.items_of(Part(range(PAGE), "a"))

    assert (first, pages.size) == (PAGE, 1)
    assert Pages(None).size == PAGE


def test_an_empty_page_may_have_another_after_it() -> None:
    assert listed(Pages(2), {None: Part([], "a"), "a": Part([1], None)}) == [1]


def test_a_wait_is_over_at_its_deadline() -> None:
    now = 100.0
    patience = Patience(POLL_S + 1, now=lambda: now)
    polls = [patience.poll_s]

    now += POLL_S
    polls.append(patience.poll_s)
    patience.check([])
    now += 1
    polls.append(patience.poll_s)

    assert polls == [POLL_S, 1.0, 0.0]
    with pytest.raises(WaitTimedOut, match="after 11 s"):
        patience.check([])


def test_a_wait_without_a_timeout_is_never_over() -> None:
    now = 0.0
    patience = Patience(None, now=lambda: now)

    now = 1e9

    assert patience.poll_s == POLL_S
    assert not patience.is_over
