"""Batches that several nodes decide: each item goes to the node that decides for its shard.

A part of a batch is a batch of its own, and a header says which numbers its items have in the
whole: what its node says of them, and the idempotency keys that follow from the numbers, are then
as if one node had them all.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import msgspec
from aiohttp import web

from rota.core.decoding import UNDECODABLE
from rota.core.errors import Refused, invalid
from rota.core.model.ids import NodeId
from rota.node.api.requests.parameters import number_in
from rota.node.api.requests.request_reader import CONTEXT, check_count, read_body, target_of
from rota.node.api.routing.forwarding import (
    OF_ITEMS,
    ask_parts,
    headers_of,
    is_forwarded,
    owners_of,
)
from rota.node.peers.peer_apis import PeerRequest
from rota.node.shards.shard import Shard
from rota.wire.documents import ITEMS_MAX

ResultT = TypeVar("ResultT")


class Items(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a batch, its items not yet looked at."""

    items: list[msgspec.Raw]


class Item(NamedTuple):
    """An item of a batch, and its number in the whole."""

    number: int
    raw: msgspec.Raw


class Results(Protocol[ResultT]):
    """What a node answers to a batch."""

    @property
    def items(self) -> list[ResultT]:
        """In the order of the items."""
        ...


@dataclass(frozen=True, slots=True)
class Split:
    """The items of a batch, by the node that is to decide them.

    Attributes:
        here: Those of this node.
        there: Those of each other; none in a part of a batch.
    """

    here: list[Item]
    there: dict[NodeId, list[Item]]


async def read_split(request: web.Request, shard_of: Callable[[msgspec.Raw], Shard]) -> Split:
    """Return the items of a batch by who is to decide them.

    Args:
        request: With the batch.
        shard_of: Makes the shard of an item; raises `msgspec.DecodeError` if it cannot be read,
            and then this node says what is wrong with it.

    Raises:
        Refused: It is no batch; or some items are nobody's at the moment, and so none is decided.
    """
    body = await read_body(request, Items)
    check_count(len(body.items), "/items")
    if request.app[CONTEXT].others is None or is_forwarded(request):
        return Split(_numbered(request, body.items), {})
    here: list[Item] = []
    by_shard: dict[Shard, list[Item]] = defaultdict(list)
    for item in _numbered(request, body.items):
        try:
            by_shard[shard_of(item.raw)].append(item)
        except UNDECODABLE:
            here.append(item)
    owners = owners_of(request, by_shard)
    here += [item for shard in owners.here for item in by_shard[shard]]
    there = {
        node_id: [item for shard in shards for item in by_shard[shard]]
        for node_id, shards in owners.there.items()
    }
    return Split(sorted(here), there)


def _numbered(request: web.Request, raws: list[msgspec.Raw]) -> list[Item]:
    given = request.headers.get(OF_ITEMS)
    if given is None:
        return [Item(*pair) for pair in enumerate(raws)]
    try:
        numbers = [number_in(each, least=0, most=ITEMS_MAX - 1) for each in given.split(",")]
    except ValueError as error:
        raise invalid("invalid_body", f"{OF_ITEMS}: {error}") from error
    if len(numbers) != len(raws):
        raise invalid("invalid_body", f"{OF_ITEMS} does not number the {len(raws)} items")
    return [Item(*pair) for pair in zip(numbers, raws, strict=True)]


async def each_answered(
    request: web.Request,
    split: Split,
    decide_here: Callable[[list[Item]], Awaitable[list[ResultT]]],
    kind: type[Results[ResultT]],
    refused: Callable[[Refused], ResultT],
) -> list[ResultT]:
    """Return what came of each item, in their order, whoever decides it.

    Args:
        request: With the batch.
        split: Its items.
        decide_here: Decides those of this node.
        kind: What other nodes answer.
        refused: Makes the result of an item whose node refuses all that it was asked.

    Raises:
        Refused: All of them, by this node, which decides them alone.
    """
    if not split.there:
        return await decide_here(split.here)

    async def decide() -> list[ResultT]:
        try:
            return await decide_here(split.here)
        except Refused as refusal:
            return [refused(refusal)] * len(split.here)

    async with asyncio.TaskGroup() as group:
        deciding = group.create_task(decide())
        answers = await ask_parts(request, _parts_of(request, split), kind)
    results = dict(zip((item.number for item in split.here), deciding.result(), strict=True))
    for node_id, items in split.there.items():
        answer = answers[node_id]
        told = [refused(answer)] * len(items) if isinstance(answer, Refused) else answer.items
        results.update(zip((item.number for item in items), told, strict=True))
    return [results[number] for number in sorted(results)]


def _parts_of(request: web.Request, split: Split) -> dict[NodeId, PeerRequest]:
    """Return what to ask each other node."""
    return {
        node_id: PeerRequest(
            method="POST",
            target=target_of(request),
            headers=headers_of(request, **{OF_ITEMS: ",".join(str(item.number) for item in items)}),
            body=msgspec.json.encode(Items(items=[item.raw for item in items])),
        )
        for node_id, items in split.there.items()
    }
