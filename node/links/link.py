"""Connection to one peer, from the handshake to its end.

Three tasks run side by side, and all end with the first: one reads frames, one writes the messages
that wait in the outbox, one sends pings. Messages under way at the end are lost and never sent
again, so none arrives twice.
"""

import asyncio
from contextlib import suppress

import aiohttp

from rota.core.model.ids import ShardId
from rota.core.timing.instants import SECOND, Instant
from rota.node.links.frames import (
    FRAME_BYTES_MAX,
    Batch,
    Chunk,
    Frame,
    Garbage,
    Item,
    Joining,
    Partials,
    Ping,
    Pong,
    check_envelope,
    decode,
    encode,
)
from rota.node.links.handshake import Peer, Socket
from rota.node.links.send_queue import SendQueue
from rota.node.peers.messages import Sent
from rota.node.peers.network import OnMessage
from rota.node.system.clock import Clock
from rota.node.system.metrics import LinkMetrics
from rota.node.system.sampled_log import SampledLog

PING_S = 1.0
SILENT_S = 4.0
"""A link is replaced after so long without a frame of the peer: TCP would retry for minutes, and
after a partition continue only at the end of its own, ever longer, pause."""
CLOSE_S = 0.5
"""Time limit of an orderly end."""
SOCKET_BYTES_MAX = FRAME_BYTES_MAX + 1_024
"""The largest WebSocket message that is accepted."""


class Link:
    """A connection over which two nodes have agreed to exchange messages.

    Args:
        socket: The connection.
        peer: The node at its other end.
        shard_count: Of the cluster.
        partials: Of all links of this node.
        garbage_log: Gets a line if the link ends because of what the peer sent.
        clock: Measures round trips.
        metrics: Where it is counted.
    """

    def __init__(
        self,
        socket: Socket,
        peer: Peer,
        *,
        shard_count: int,
        partials: Partials,
        garbage_log: SampledLog,
        clock: Clock,
        metrics: LinkMetrics,
    ) -> None:
        self.peer = peer
        self._socket = socket
        self._shard_count = shard_count
        self._clock = clock
        self._metrics = metrics
        self._garbage_log = garbage_log
        self._outbox = SendQueue()
        self._joining = Joining(partials)
        self._heard_at = clock.elapsed()
        self._is_given_up = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Bytes of messages that wait to be sent."""
        return self._outbox.size

    def send(self, shard: ShardId | None, message: Sent) -> bool:
        """Have a message sent with all others of this turn; False: there is no room for it."""
        return self._outbox.put(shard, message)

    def give_up(self) -> None:
        """End it soon: another connection has taken its place, or the peer is gone."""
        self._is_given_up.set()

    async def run(self, deliver: OnMessage) -> str:
        """Speak until the connection ends, and return why it did.

        Args:
            deliver: Called with each message that comes.
        """
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(work)
                    for work in (self._read(deliver), self._write(), self._ask_for_signs())
                ]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    task.cancel()
        finally:  # Also when we stop.
            self._joining.close()
            with suppress(TimeoutError, OSError, aiohttp.ClientError):
                async with asyncio.timeout(CLOSE_S):
                    await self._socket.close()
        return next(task.result() for task in tasks if not task.cancelled())

    # -- what comes -----------------------------------------------------------------------------

    async def _read(self, deliver: OnMessage) -> str:
        while True:
            came = await self._socket.receive()
            if came.type is not aiohttp.WSMsgType.BINARY:
                return _why_ended(came)
            self._heard_at = self._clock.elapsed()
            self._metrics.received(len(came.data))
            try:
                items = self._understand(decode(came.data))
            except Garbage as garbage:
                self._metrics.garbage()
                self._garbage_log.write(peer=self.peer.node_id, reason=str(garbage))
                return f"the peer sends garbage: {garbage}"
            for shard, message in items:
                deliver(shard, self.peer.node_id, message)

    def _understand(self, frame: Frame) -> list[Item]:
        """Return the messages that *frame* brings; answer it, if it is none of ours to deliver.

        Raises:
            Garbage: It is not what a node of this cluster sends.
        """
        match frame:
            case Batch(items=items):
                return [self._checked(item) for item in items]
            case Chunk():
                whole = self._joining.add(frame)
                return [] if whole is None else [self._checked(whole)]
            case Ping(sent_at=sent_at):
                self._outbox.put_sign(encode(Pong(sent_at=sent_at)))
            case Pong(sent_at=sent_at):
                self._metrics.round_trip(self._heard_at - sent_at)
        return []

    def _checked(self, item: Item) -> Item:
        shard, message = item
        check_envelope(shard, message)
        if shard is not None and not 0 <= shard < self._shard_count:
            raise Garbage(f"there is no shard {shard}; the cluster has {self._shard_count}")
        return item

    # -- what goes ------------------------------------------------------------------------------

    async def _write(self) -> str:
        while True:
            await self._outbox.wait()
            while frame := self._outbox.next_frame():
                try:
                    # While the peer does not take it this waits, and the outbox fills and drops.
                    await self._socket.send_bytes(frame)
                except (ConnectionError, aiohttp.ClientError) as error:
                    return f"the connection broke: {error}"
                self._metrics.sent(len(frame))

    async def _ask_for_signs(self) -> str:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(PING_S):
                    await self._is_given_up.wait()
                    return "it was given up"
            now = self._clock.elapsed()
            if now - self._heard_at > SILENT_S * SECOND:
                return f"nothing was received for {SILENT_S} s"
            self._outbox.put_sign(encode(Ping(sent_at=Instant(now))))


def _why_ended(came: aiohttp.WSMessage) -> str:
    if came.type is aiohttp.WSMsgType.ERROR:
        return f"the connection broke: {came.data}"
    if came.type is aiohttp.WSMsgType.TEXT:
        return "the peer sends garbage: text"
    return "the peer closed it"
