"""Connection to one peer, from the handshake to its end.

Three asyncio tasks run concurrently: one reads frames, one writes the messages in the send queue,
and one sends pings. When one of them ends, all end. Messages under way at the end of a link are
lost and never sent again, so no message arrives twice.
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
"""The time without a frame of the peer after which a link is replaced. TCP would retry for minutes,
and would continue after a partition only at the end of its own pause, which grows."""
CLOSE_S = 0.5
"""The time limit of an orderly end."""
SOCKET_BYTES_MAX = FRAME_BYTES_MAX + 1_024
"""The largest WebSocket message that is accepted."""


class Link:
    """A connection over which two nodes have agreed to exchange messages.

    Args:
        socket: The connection.
        peer: The node at the other end of the connection.
        shard_count: The number of shards of the cluster.
        partials: The count of bytes of incomplete messages, over all links of this node.
        garbage_log: Gets a line if the link ends because the peer sent garbage.
        clock: The clock that measures round trips.
        metrics: Count the frames, and measure the round trips.
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
        """The number of bytes of messages that wait to be sent."""
        return self._outbox.size

    def send(self, shard: ShardId | None, message: Sent) -> bool:
        """Queue a message to be sent; return False if the queue has no room for it."""
        return self._outbox.put(shard, message)

    def give_up(self) -> None:
        """End the link soon, because it was replaced, the peer is gone, or this node stops."""
        self._is_given_up.set()

    async def run(self, deliver: OnMessage) -> str:
        """Exchange messages until the connection ends; return the reason of its end.

        Args:
            deliver: Called with each received message.
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
        finally:  # Also if this method is cancelled.
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
                return f"the peer sent garbage: {garbage}"
            for shard, message in items:
                deliver(shard, self.peer.node_id, message)

    def _understand(self, frame: Frame) -> list[Item]:
        """Return the messages that *frame* completes; answer a ping, and measure a pong.

        Raises:
            Garbage: The frame is not one that a node of this cluster sends.
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
                    # This waits while the peer does not receive; then the queue fills, and drops.
                    await self._socket.send_bytes(frame)
                except (ConnectionError, aiohttp.ClientError) as error:
                    return f"the connection broke: {error}"
                self._metrics.sent(len(frame))

    async def _ask_for_signs(self) -> str:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(PING_S):
                    await self._is_given_up.wait()
                    return "this node gave up the link"
            now = self._clock.elapsed()
            if now - self._heard_at > SILENT_S * SECOND:
                return f"nothing was received for {SILENT_S} s"
            self._outbox.put_sign(encode(Ping(sent_at=Instant(now))))


def _why_ended(came: aiohttp.WSMessage) -> str:
    if came.type is aiohttp.WSMsgType.ERROR:
        return f"the connection broke: {came.data}"
    if came.type is aiohttp.WSMsgType.TEXT:
        return "the peer sent garbage: text"
    return "the peer closed the connection"
