"""Lists over all jobs: a page of each node, made one.

Each node is asked for the same page over the shards that it decides for. A page that says that it
goes on vouches for nothing beyond its end, so what others have beyond the nearest such end waits
for the next page; and cursors, which are places in the order of the whole, serve all nodes alike.
Where a node does not answer there is no page: a list that leaves something out does not say so.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from aiohttp import web

from rota.core.errors import Refused
from rota.node.api.requests.request_reader import target_of
from rota.node.api.routing.forwarding import (
    OF_SHARDS,
    NobodyAnswers,
    Owners,
    ask_parts,
    bits_of,
    headers_of,
)
from rota.node.peers.peer_apis import PeerRequest

T = TypeVar("T")
PageT = TypeVar("PageT")
Place = Callable[[str], tuple[object, ...]]
"""Makes of a cursor what the order of the list compares."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page: things in the order of the list, and where it goes on, if it does."""

    items: Sequence[T]
    next_cursor: str | None


async def pages_of(request: web.Request, owners: Owners, kind: type[PageT]) -> list[PageT]:
    """Return the pages of all other nodes.

    Raises:
        NobodyAnswers: One of them did not give its page.
    """
    asked = {
        node_id: PeerRequest(
            method="GET",
            target=target_of(request),
            headers=headers_of(request, **{OF_SHARDS: bits_of(shards)}),
        )
        for node_id, shards in owners.there.items()
    }
    pages: list[PageT] = []
    for node_id, page in (await ask_parts(request, asked, kind)).items():
        if isinstance(page, Refused):
            numbers = (shard.id for shard in owners.there[node_id])
            raise NobodyAnswers(numbers, f"{node_id}: {page.detail}")
        pages.append(page)
    return pages


def merged(
    pages: Sequence[Page[T]],
    limit: int,
    *,
    cursor_of: Callable[[T], str],
    place: Place,
    is_descending: bool = False,
) -> Page[T]:
    """Return the first page of all that *pages* are the first of.

    Args:
        pages: Each in order, and with other things.
        limit: How many it may have.
        cursor_of: Makes the cursor after a thing.
        place: Makes of a cursor what the order compares.
        is_descending: The order.
    """

    def place_of(item: T) -> tuple[object, ...]:
        return place(cursor_of(item))

    ends = [page.next_cursor for page in pages if page.next_cursor is not None]
    nearest = max if is_descending else min
    end = nearest(ends, key=place) if ends else None
    items: list[T] = []
    for item in heapq.merge(*(page.items for page in pages), key=place_of, reverse=is_descending):
        if end is not None and _is_beyond(place_of(item), place(end), is_descending):
            break
        if len(items) == limit:
            return Page(items, cursor_of(items[-1]))
        items.append(item)
    return Page(items, end)


def _is_beyond(place: tuple[object, ...], end: tuple[object, ...], is_descending: bool) -> bool:
    return place < end if is_descending else place > end
