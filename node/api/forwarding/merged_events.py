"""The live events of all nodes as one stream.

Each node publishes the events of the shards of which it is the primary. The node that receives the
request reads the events of all connected nodes and of its own, and sends each node's events in
their order. An event id has a position in the events of every node, so that a client can resume
after it on any node.

The stream ends when a node joins or leaves, and the client resumes after its last id. If the
position on a node is missing, because the node is not connected or is new, events may have been
missed; the stream then has an event of type ``stream.gap``.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import NamedTuple

import aiohttp
import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.model.ids import NodeId
from rota.node.api.forwarding.peer_requests import NoPrimaryReachable, peer_headers
from rota.node.api.requests.request_context import RequestContext
from rota.node.feeds.events import EncodedEvent, Reader, Seen, format_seen, parse_seen
from rota.node.peers.peer_apis import PeerApis, PeerRequest, Unreached
from rota.node.system.background import beside
from rota.wire.documents import EventView

OPEN_S = 3.0
"""The time within which all nodes must send their first event."""
LOOK_S = 0.5
"""The interval of checks for nodes that joined or left."""
WAITING_MAX = 64
"""The most batches that are buffered for a slow client; until it reads, no more are read."""
OPENED, GAP, CLOSED = "stream.opened", "stream.gap", "stream.closed"
LAST = (CLOSED, "stream.dropped")
"""The types of the last event of a node's stream."""

_decode = msgspec.json.Decoder(EventView).decode

Batch = list[EncodedEvent]


@asynccontextmanager
async def merged_batches(
    request: RequestContext, others: PeerApis, reader: Reader, target: str, after: Seen | None
) -> AsyncGenerator[AsyncGenerator[Batch]]:
    """Read the events of all nodes while the body runs, and yield a generator of their batches.

    Args:
        request: The client's request.
        others: The other nodes.
        reader: The events of this node.
        target: Path and query of the request to the other nodes.
        after: The positions after which the client resumes; None for new events only.

    Raises:
        NoPrimaryReachable: The stream of a node did not begin in time.
    """
    nodes = others.reached
    stream = _MergedEvents(request, others, nodes, target, after)
    async with beside(stream.pump(reader)):
        opening = await stream.opened()
        yield stream.batches(opening)


class _End(NamedTuple):
    """The end of a node's stream."""

    reason: str


class _MergedEvents:
    def __init__(
        self,
        request: RequestContext,
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

    # -- events from the nodes ------------------------------------------------------------------

    async def pump(self, reader: Reader) -> None:
        """Queue the batches of all nodes until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pump_own(reader))
            for node_id in self._nodes:
                group.create_task(self._pump_other(node_id))

    async def _pump_own(self, reader: Reader) -> None:
        async with aclosing(reader.batches()) as batches:
            async for batch in batches:
                await self._waiting.put(batch)

    async def _pump_other(self, node_id: NodeId) -> None:
        headers = {**peer_headers(self._request), "Accept": "application/x-ndjson"}
        if self._after is not None:
            headers["Last-Event-ID"] = format_seen(self._after)
        sent = PeerRequest(method="GET", target=self._target, headers=headers)
        reason = f"the stream of {node_id} ended"
        try:
            async with self._others.ask(node_id, sent) as response:
                if response.status == 200:
                    async for batch in _batches_in(response.content):
                        await self._waiting.put(batch)
        except (Unreached, *UNDECODABLE) as error:
            reason = f"{reason}: {error}"
        await self._waiting.put(_End(reason))

    # -- events to the client -------------------------------------------------------------------

    async def opened(self) -> list[Batch]:
        """Return the first batches, once the streams of all nodes have begun.

        Raises:
            NoPrimaryReachable: The stream of a node did not begin in time.
        """
        openings: Batch = []
        early: Batch = []
        with suppress(TimeoutError):
            async with asyncio.timeout(OPEN_S):
                while len(openings) <= len(self._nodes):
                    batch = await self._waiting.get()
                    if isinstance(batch, _End):
                        raise NoPrimaryReachable((), batch.reason)
                    openings += [event for event in batch if event.type == OPENED]
                    early += [event for event in batch if event.type != OPENED]
        if len(openings) <= len(self._nodes):
            missing = 1 + len(self._nodes) - len(openings)
            raise NoPrimaryReachable(
                (), f"the event streams of {missing} nodes did not begin within {OPEN_S:g} s"
            )
        for opening in openings:
            self._seen |= parse_seen(opening.id)
        begin = [openings[0]]
        if self._after is not None and self._after.keys() - self._seen.keys():
            begin.append(_stream_event(GAP, openings[0], "events may have been missed; list again"))
        return [self._with_merged_ids(begin), self._with_merged_ids(early)]

    async def batches(self, opening: list[Batch]) -> AsyncGenerator[Batch]:
        """Yield the batches to send; the last batch has the reason why the stream ends."""
        for batch in opening:
            yield batch
        newest = opening[0][0]
        while True:
            received = await self._next()
            if isinstance(received, _End):
                yield self._with_merged_ids([_stream_event(CLOSED, newest, received.reason)])
                return
            yield self._with_merged_ids(received)
            if received:
                newest = received[-1]
            if newest.type in LAST:
                return

    async def _next(self) -> Batch | _End:
        while set(self._others.reached) == set(self._nodes):
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    return await self._waiting.get()
        return _End("a node joined or left; resume after this id")

    def _with_merged_ids(self, batch: Batch) -> Batch:
        """Return one node's events with ids that have a position on every node."""
        merged: Batch = []
        for event in batch:
            self._seen |= parse_seen(event.id)
            if event.type == GAP and self._has_gap:
                continue
            self._has_gap |= event.type == GAP
            event_id = format_seen(self._seen)
            view = msgspec.structs.replace(_decode(event.document), id=event_id)
            merged.append(EncodedEvent(event_id, event.type, msgspec.json.encode(view)))
        return merged


def _stream_event(kind: str, neighbour: EncodedEvent, detail: str) -> EncodedEvent:
    """Return an event about the stream itself, with the id and instant of *neighbour*."""
    at = _decode(neighbour.document).at
    view = EventView(id=neighbour.id, type=kind, at=at, detail=detail)
    return EncodedEvent(view.id, kind, msgspec.json.encode(view))


async def _batches_in(content: aiohttp.StreamReader) -> AsyncGenerator[Batch]:
    """Yield the events of a stream of lines; empty lines are keep-alives and are skipped."""
    rest = b""
    async for part in content.iter_any():
        *lines, rest = (rest + part).split(b"\n")
        views = [(line, _decode(line)) for line in lines if line]
        if views:
            yield [EncodedEvent(view.id, view.type, line) for line, view in views]
