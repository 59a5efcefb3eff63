"""Batches across nodes: each item is decided by the primary of its shard.

A part of a batch is itself a batch. A header has the numbers of its items in the whole batch, so
that error pointers, and the idempotency keys derived from the numbers, are the same as if one node
had decided all items.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.errors import Refused, invalid
from rota.core.model.ids import NodeId
from rota.node.api.forwarding.peer_requests import ask_peers, forwarded_headers, owners_of
from rota.node.api.requests.node_headers import OF_ITEMS
from rota.node.api.requests.parameters import number_in
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import check_count, read_content, target_of
from rota.node.peers.peer_apis import PeerRequest
from rota.node.shards.shard import Shard
from rota.wire.bodies.json_decoding import decode
from rota.wire.documents import ITEMS_MAX

ResultT = TypeVar("ResultT")


class Items(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a batch, with items that are not decoded yet."""

    items: list[msgspec.Raw]


class Item(NamedTuple):
    """An item of a batch, and its number in the whole batch."""

    number: int
    raw: msgspec.Raw


class Results(Protocol[ResultT]):
    """The response to a batch."""

    @property
    def items(self) -> list[ResultT]:
        """The results, in the order of the items."""
        ...


@dataclass(frozen=True, slots=True)
class Split:
    """The items of a batch, by the node that decides them.

    Attributes:
        local: The items of this node.
        remote: The items of each other node; empty if the request is a part of a batch.
    """

    local: list[Item]
    remote: dict[NodeId, list[Item]]


async def read_split(request: RequestContext, shard_of: Callable[[msgspec.Raw], Shard]) -> Split:
    """Return the items of a batch by the node that decides them.

    Args:
        request: The batch.
        shard_of: Returns the shard of an item; raises an error of `UNDECODABLE` for a malformed
            item, which this node then refuses.

    Raises:
        Refused: The body is not a batch; or some shards have no primary that can be reached. No
            item is decided in either case.
    """
    body = decode(await read_content(request), Items)
    check_count(len(body.items), "/items")
    if request.node.others is None or request.is_forwarded:
        return Split(_numbered(request, body.items), {})
    local: list[Item] = []
    by_shard: dict[Shard, list[Item]] = defaultdict(list)
    for item in _numbered(request, body.items):
        try:
            by_shard[shard_of(item.raw)].append(item)
        except UNDECODABLE:
            local.append(item)
    owners = owners_of(request, by_shard)
    local += [item for shard in owners.local for item in by_shard[shard]]
    remote = {
        node_id: [item for shard in shards for item in by_shard[shard]]
        for node_id, shards in owners.remote.items()
    }
    return Split(sorted(local), remote)


def _numbered(request: RequestContext, raws: list[msgspec.Raw]) -> list[Item]:
    given = request.http.headers.get(OF_ITEMS) if request.is_forwarded else None
    if given is None:
        return [Item(*pair) for pair in enumerate(raws)]
    try:
        numbers = [number_in(each, least=0, most=ITEMS_MAX - 1) for each in given.split(",")]
    except ValueError as error:
        raise invalid("invalid_body", f"{OF_ITEMS}: {error}") from error
    if len(numbers) != len(raws):
        detail = f"the header {OF_ITEMS} has {len(numbers)} numbers for {len(raws)} items"
        raise invalid("invalid_body", detail)
    if len(set(numbers)) < len(numbers):
        repeated = next(each for each in numbers if numbers.count(each) > 1)
        raise invalid("invalid_body", f"the header {OF_ITEMS} has the number {repeated} twice")
    return [Item(*pair) for pair in zip(numbers, raws, strict=True)]


async def results_of(
    request: RequestContext,
    split: Split,
    decide_local: Callable[[list[Item]], Awaitable[list[ResultT]]],
    kind: type[Results[ResultT]],
    refused: Callable[[Refused], ResultT],
) -> list[ResultT]:
    """Return the results of all items, in their order, from all nodes.

    Args:
        request: The batch.
        split: Its items.
        decide_local: Decides the items of this node.
        kind: The document of the responses of other nodes.
        refused: Makes the result of an item if its node refuses the whole part of the batch.

    Raises:
        Refused: This node decides all items, and refuses the whole batch.
    """
    if not split.remote:
        return await decide_local(split.local)

    async def decide() -> list[ResultT]:
        try:
            return await decide_local(split.local)
        except Refused as refusal:
            return [refused(refusal)] * len(split.local)

    async with asyncio.TaskGroup() as group:
        deciding = group.create_task(decide())
        responses = await ask_peers(request, _parts_of(request, split), kind)
    results = dict(zip((item.number for item in split.local), deciding.result(), strict=True))
    for node_id, items in split.remote.items():
        part = responses[node_id]
        results_there = [refused(part)] * len(items) if isinstance(part, Refused) else part.items
        results.update(zip((item.number for item in items), results_there, strict=True))
    return [results[number] for number in sorted(results)]


def _parts_of(request: RequestContext, split: Split) -> dict[NodeId, PeerRequest]:
    """Return the request for each other node."""
    return {
        node_id: PeerRequest(
            method=request.http.method,
            target=target_of(request.http),
            headers=forwarded_headers(
                request, **{OF_ITEMS: ",".join(str(item.number) for item in items)}
            ),
            body=msgspec.json.encode(Items(items=[item.raw for item in items])),
        )
        for node_id, items in split.remote.items()
    }
