"""What waits to be sent to one peer: bounded, and put into frames only when a frame can go.

Whatever is put in while the connection is busy goes with the next frame, so that the fuller it is,
the more each frame carries. What finds no room is dropped: the protocol sends it again when it is
still wanted, and by then most of it is not.
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
"""What may wait; three seconds of a full 100 Mbit/s link, after which it is broken anyway."""
COUNT_MAX = 20_000
"""Messages that may wait: with 16,384 shards, a beat for each."""


class SendQueue:
    """The messages that wait for one connection.

    Attributes:
        count: How many wait.
        size: Bytes that wait.
    """

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        self._lanes: dict[Lane, deque[bytes]] = {lane: deque() for lane in Lane}
        self._sent_of: dict[Lane, int] = dict.fromkeys(Lane, 0)
        """Bytes of a lane's first message that have gone in chunks already."""
        self._signs: deque[bytes] = deque()
        self._is_bulks_turn = False
        self._has_some = asyncio.Event()

    def put(self, shard: ShardId | None, message: Sent) -> bool:
        """Have a message sent, or return False: there is no room for it."""
        item = encode_item(shard, message)
        # Any one message finds room where nothing else waits.
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
        """Have a ping or its answer sent, before all else."""
        self._signs.append(frame)
        self._has_some.set()

    async def wait(self) -> None:
        """Return when there is something to send."""
        await self._has_some.wait()

    def next_frame(self) -> bytes | None:
        """Take what one frame carries; None if nothing waits.

        Bulk has every other frame, if there is any, so that neither lane waits for the other's end.
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
