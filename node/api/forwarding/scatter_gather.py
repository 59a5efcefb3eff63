"""Lists over all shards: the pages of all nodes, merged into one.

Each node makes a page of the same request over its own shards. A page with a next cursor is
complete only up to that cursor. The merged page therefore ends at the nearest of these cursors, and
later items follow on the next page. Cursors are positions in the order of the whole list, so they
are valid on every node. If a node does not respond, the request is refused, because a client could
not detect that items are missing.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rota.core.errors import Refused
from rota.node.api.forwarding.peer_requests import (
    NoPrimaryReachable,
    ShardOwners,
    ask_peers,
    forwarded_headers,
    shard_bits,
)
from rota.node.api.requests.node_headers import OF_SHARDS
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import target_of
from rota.node.peers.peer_apis import PeerRequest

T = TypeVar("T")
PageT = TypeVar("PageT")
Position = Callable[[str], tuple[object, ...]]
"""Returns the position of a cursor in the order of the list."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page: items in the order of the list, and the cursor of the next page, if there is one."""

    items: Sequence[T]
    next_cursor: str | None


async def pages_of(request: RequestContext, owners: ShardOwners, kind: type[PageT]) -> list[PageT]:
    """Return the pages of all other nodes.

    Raises:
        NoPrimaryReachable: One of these nodes did not return its page.
    """
    sent = {
        node_id: PeerRequest(
            method="GET",
            target=target_of(request.http),
            headers=forwarded_headers(request, **{OF_SHARDS: shard_bits(shards)}),
        )
        for node_id, shards in owners.remote.items()
    }
    pages: list[PageT] = []
    for node_id, page in (await ask_peers(request, sent, kind)).items():
        if isinstance(page, Refused):
            numbers = (shard.id for shard in owners.remote[node_id])
            raise NoPrimaryReachable(numbers, f"{node_id}: {page.detail}")
        pages.append(page)
    return pages


def merged(
    pages: Sequence[Page[T]],
    limit: int,
    *,
    cursor_of: Callable[[T], str],
    position: Position,
    is_descending: bool = False,
) -> Page[T]:
    """Return the first page of the list whose parts begin with *pages*.

    Args:
        pages: Pages in order, without common items.
        limit: The most items on the returned page.
        cursor_of: Returns the cursor after an item.
        position: Returns the position of a cursor.
        is_descending: Whether positions descend.
    """

    def position_of(item: T) -> tuple[object, ...]:
        return position(cursor_of(item))

    ends = [page.next_cursor for page in pages if page.next_cursor is not None]
    nearest = max if is_descending else min
    end = nearest(ends, key=position) if ends else None
    items: list[T] = []
    ordered = heapq.merge(*(page.items for page in pages), key=position_of, reverse=is_descending)
    for item in ordered:
        if end is not None and _is_beyond(position_of(item), position(end), is_descending):
            break
        if len(items) == limit:
            return Page(items, cursor_of(items[-1]))
        items.append(item)
    return Page(items, end)


def _is_beyond(position: tuple[object, ...], end: tuple[object, ...], is_descending: bool) -> bool:
    return position < end if is_descending else position > end
