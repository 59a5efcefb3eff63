"""Queue of messages to one peer, with a limited size; frames are made only when one can be sent.

Messages that are added while the connection is busy are sent with the next frame, so frames carry
more messages if more messages wait. Messages without room are dropped: the protocol sends them
again if they are still needed, and most of them no longer are.
"""

import asyncio
from collections import deque

from rota.core.model.ids import ShardId
from rota.core.replication.messages import Part
from rota.node.links.frames import (
    BATCH_MAX,
    CHUNK_BYTES,
    FRAME_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    OVERHEAD_BYTES,
    Chunk,
    Lane,
    batch_of,
    encode,
    encode_item,
)
from rota.node.peers.messages import Sent

BYTES_MAX = 32 << 20
"""The most bytes that may wait: three seconds of a full 100 Mbit/s link; a link that is blocked for
longer soon counts as broken."""
COUNT_MAX = 20_000
"""The most messages that may wait: enough for a beat of each of 16,384 shards."""


class SendQueue:
    """The messages that wait for one connection.

    Attributes:
        count: The number of messages that wait.
        size: The number of bytes that wait.
    """

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        self._lanes: dict[Lane, deque[bytes]] = {lane: deque() for lane in Lane}
        self._sent_of: dict[Lane, int] = dict.fromkeys(Lane, 0)
        """The number of bytes of each lane's first message that were already sent in chunks."""
        self._signs: deque[bytes] = deque()
        self._is_bulks_turn = False
        self._has_some = asyncio.Event()

    def put(self, shard: ShardId | None, message: Sent) -> bool:
        """Add a message; return False if there is no room for it."""
        item = encode_item(shard, message)
        # If no message waits, there is room for any one message.
        is_full = self.count >= COUNT_MAX or (self.count and self.size + len(item) > BYTES_MAX)
        if is_full or len(item) > MESSAGE_BYTES_MAX:
            return False
        lane = Lane.BULK if isinstance(message, Part) else Lane.ORDERED
        self._lanes[lane].append(item)
        self.count += 1
        self.size += len(item)
        self._has_some.set()
        return True

    def put_sign(self, frame: bytes) -> None:
        """Add a ping or a pong, which is sent before all messages."""
        self._signs.append(frame)
        self._has_some.set()

    async def wait(self) -> None:
        """Return when there is a frame to send."""
        await self._has_some.wait()

    def next_frame(self) -> bytes | None:
        """Remove and return the content of the next frame; None if nothing waits.

        If both lanes have messages, they take turns, so that neither lane waits for the end of the
        other.
        """
        if self._signs:
            return self._signs.popleft()
        ordered, bulk = self._lanes[Lane.ORDERED], self._lanes[Lane.BULK]
        if bulk and (self._is_bulks_turn or not ordered):
            self._is_bulks_turn = False
            return self._chunk(Lane.BULK, CHUNK_BYTES)
        if ordered:
            self._is_bulks_turn = True
            if len(ordered[0]) > FRAME_BYTES_MAX - OVERHEAD_BYTES:
                return self._chunk(Lane.ORDERED, FRAME_BYTES_MAX - OVERHEAD_BYTES)
            return self._batch(ordered)
        self._has_some.clear()
        return None

    def _batch(self, waiting: deque[bytes]) -> bytes:
        items: list[bytes] = []
        room = FRAME_BYTES_MAX - OVERHEAD_BYTES
        while waiting and len(items) < BATCH_MAX and len(waiting[0]) <= room:
            item = waiting.popleft()
            room -= len(item)
            items.append(item)
            self._gone(item)
        return batch_of(items)

    def _chunk(self, lane: Lane, size: int) -> bytes:
        item, begin = self._lanes[lane][0], self._sent_of[lane]
        end = begin + size
        is_last = end >= len(item)
        if is_last:
            self._lanes[lane].popleft()
            self._gone(item)
        self._sent_of[lane] = 0 if is_last else end
        return encode(Chunk(lane=lane, is_last=is_last, piece=item[begin:end]))

    def _gone(self, item: bytes) -> None:
        self.count -= 1
        self.size -= len(item)
