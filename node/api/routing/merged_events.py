"""The live events of all nodes as one stream.

Each node tells what happens to the shards that it decides for. Whoever is asked follows all nodes
that are there, itself among them, and hands on what each tells in its order. The id of an event
then has a place in every node's events, so that a reader goes on after it wherever it asks.

When a node comes or goes the stream ends, and the reader goes on with its last id. What cannot be
known to be everything, because a node of that id is not there or one is new, is told as a gap.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import NamedTuple

import aiohttp
import msgspec
from aiohttp import web

from rota.core.decoding import UNDECODABLE
from rota.core.model.ids import NodeId
from rota.node.api.routing.forwarding import NobodyAnswers, question_headers
from rota.node.feeds.events import Reader, Seen, Told, format_seen, parse_seen
from rota.node.peers.peer_apis import PeerApis, PeerRequest, Unreached
from rota.node.system.background import beside
from rota.wire.documents import EventView

OPEN_S = 3.0
"""How long the other nodes may take to begin to tell."""
LOOK_S = 0.5
"""How often is looked whether a node has come."""
WAITING_MAX = 64
"""Batches of all nodes that wait for the reader; then it is they that wait."""
OPENED, GAP, CLOSED = "stream.opened", "stream.gap", "stream.closed"
LAST = (CLOSED, "stream.dropped")
"""The last word of a node's stream."""

_decode = msgspec.json.Decoder(EventView).decode

Batch = list[Told]


@asynccontextmanager
async def following(
    request: web.Request, others: PeerApis, reader: Reader, target: str, after: Seen | None
) -> AsyncGenerator[AsyncGenerator[Batch]]:
    """Follow all nodes while the body runs; gives the batches of all of them.

    Args:
        request: On whose behalf.
        others: The other nodes.
        reader: Of this node's events.
        target: What to ask the others for.
        after: What the reader has seen.

    Raises:
        NobodyAnswers: One of them does not begin to tell.
    """
    nodes = others.reached
    stream = _Following(request, others, nodes, target, after)
    async with beside(stream.pump(reader)):
        opening = await stream.opened()
        yield stream.batches(opening)


class _End(NamedTuple):
    """A node tells nothing more."""

    reason: str


class _Following:
    def __init__(
        self,
        request: web.Request,
        others: PeerApis,
        nodes: tuple[NodeId, ...],
        target: str,
        after: Seen | None,
    ) -> None:
        self._request = request
        self._others = others
        self._nodes = nodes
        self._target = target
        self._after = after
        self._seen: Seen = {}
        self._waiting: asyncio.Queue[Batch | _End] = asyncio.Queue(WAITING_MAX)
        self._has_gap = False

    # -- what each node tells -------------------------------------------------------------------

    async def pump(self, reader: Reader) -> None:
        """Take what each node tells until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pump_own(reader))
            for node_id in self._nodes:
                group.create_task(self._pump_other(node_id))

    async def _pump_own(self, reader: Reader) -> None:
        async with aclosing(reader.batches()) as batches:
            async for batch in batches:
                await self._waiting.put(batch)

    async def _pump_other(self, node_id: NodeId) -> None:
        headers = {**question_headers(self._request), "Accept": "application/x-ndjson"}
        if self._after is not None:
            headers["Last-Event-ID"] = format_seen(self._after)
        asked = PeerRequest(method="GET", target=self._target, headers=headers)
        reason = f"{node_id} tells nothing more"
        try:
            async with self._others.ask(node_id, asked) as answer:
                if answer.status == 200:
                    async for batch in _batches_in(answer.content):
                        await self._waiting.put(batch)
        except (Unreached, *UNDECODABLE) as error:
            reason = f"{reason}: {error}"
        await self._waiting.put(_End(reason))

    # -- what the reader is told ----------------------------------------------------------------

    async def opened(self) -> list[Batch]:
        """Return how the stream begins, once all nodes have begun to tell.

        Raises:
            NobodyAnswers: One has not.
        """
        openings: Batch = []
        early: Batch = []
        with suppress(TimeoutError):
            async with asyncio.timeout(OPEN_S):
                while len(openings) <= len(self._nodes):
                    batch = await self._waiting.get()
                    if isinstance(batch, _End):
                        raise NobodyAnswers((), batch.reason)
                    openings += [told for told in batch if told.type == OPENED]
                    early += [told for told in batch if told.type != OPENED]
        if len(openings) <= len(self._nodes):
            raise NobodyAnswers((), f"not all nodes tell their events within {OPEN_S} s")
        for opening in openings:
            self._seen |= parse_seen(opening.id)
        begin = [openings[0]]
        if self._after is not None and self._after.keys() - self._seen.keys():
            begin.append(_says(GAP, openings[0], "something may have been missed; list again"))
        return [self._of_all(begin), self._of_all(early)]

    async def batches(self, opening: list[Batch]) -> AsyncGenerator[Batch]:
        """Yield what is to be sent next; the last batch says why it is the last."""
        for batch in opening:
            yield batch
        newest = opening[0][0]
        while True:
            told = await self._next()
            if isinstance(told, _End):
                yield self._of_all([_says(CLOSED, newest, told.reason)])
                return
            yield self._of_all(told)
            if told:
                newest = told[-1]
            if newest.type in LAST:
                return

    async def _next(self) -> Batch | _End:
        while set(self._others.reached) == set(self._nodes):
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    return await self._waiting.get()
        return _End("a node has come or gone; go on from this id")

    def _of_all(self, batch: Batch) -> Batch:
        """Return what one node tells with the ids of all."""
        told_by_all: Batch = []
        for told in batch:
            self._seen |= parse_seen(told.id)
            if told.type == GAP and self._has_gap:
                continue
            self._has_gap |= told.type == GAP
            event_id = format_seen(self._seen)
            view = msgspec.structs.replace(_decode(told.document), id=event_id)
            told_by_all.append(Told(event_id, told.type, msgspec.json.encode(view)))
        return told_by_all


def _says(kind: str, beside: Told, detail: str) -> Told:
    """Return an event of the stream itself, which stands where *beside* does."""
    view = EventView(id=beside.id, type=kind, at=_decode(beside.document).at, detail=detail)
    return Told(view.id, kind, msgspec.json.encode(view))


async def _batches_in(content: aiohttp.StreamReader) -> AsyncGenerator[Batch]:
    """Yield the events of a stream of lines; signs of life are not handed on."""
    rest = b""
    async for part in content.iter_any():
        *lines, rest = (rest + part).split(b"\n")
        views = [(line, _decode(line)) for line in lines if line]
        if views:
            yield [Told(view.id, view.type, line) for line, view in views]
