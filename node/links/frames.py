"""What goes over a link: frames of msgpack, one to a WebSocket message.

    [0, [[shard, message], ...]]   a batch: all that one turn of the loop sends
    [1, lane, is_last, bytes]      a chunk of a message that is too long for that
    [2, sent_at]                   a ping
    [3, sent_at]                   its answer

What is decoded is checked to its last field, so a frame is either sound or garbage.
"""

from enum import IntEnum

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.ids import ShardId
from rota.core.instants import Instant
from rota.node.messages import Sent

FRAME_BYTES_MAX = 1 << 20
"""Of a frame. Four shards' entries of a busy turn, and few enough that decoding stalls nobody."""
CHUNK_BYTES = 64 << 10
"""Of a snapshot, after which other messages have their turn: half a millisecond at 1 Gbit/s."""
MESSAGE_BYTES_MAX = 128 << 20
"""Of a message in chunks: an entry holds at most what one turn decided."""
OVERHEAD_BYTES = 64
"""More than a frame needs for itself."""

Item = tuple[ShardId, Sent]


class Lane(IntEnum):
    """What keeps its order; one lane may overtake the other."""

    ORDERED = 0
    """Everything but snapshots."""
    BULK = 1
    """Parts of snapshots, each understood by itself: beats and entries do not wait for them."""


class Batch(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """Messages, in the order in which they were sent."""

    items: list[Item]


class Chunk(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A piece of the message that its lane is busy with."""

    lane: Lane
    is_last: bool
    piece: bytes


class Ping(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Asks for a sign of life; *sent_at* by the sender's clock."""

    sent_at: Instant


class Pong(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The answer, with what the ping said."""

    sent_at: Instant


Frame = Batch | Chunk | Ping | Pong

_encoder = msgspec.msgpack.Encoder()
_frames: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)
_items: msgspec.msgpack.Decoder[Item] = msgspec.msgpack.Decoder(Item)


class Garbage(Exception):
    """What came over a link is not what a node of this cluster sends."""


def encode(frame: Chunk | Ping | Pong) -> bytes:
    """Return the bytes of a frame."""
    return _encoder.encode(frame)


def encode_item(shard: ShardId, message: Sent) -> bytes:
    """Return the bytes of a message, as they stand in a batch."""
    return _encoder.encode((shard, message))


def batch_of(items: list[bytes]) -> bytes:
    """Return the frame of messages that are encoded already, fewer than 2^16."""
    # Header of a batch, then of a list of so many: joined, so that nothing is encoded twice.
    return b"".join((b"\x92\x00\xdc", len(items).to_bytes(2, "big"), *items))


def decode(frame: bytes) -> Frame:
    """Return what a frame says.

    Raises:
        Garbage: It is none.
    """
    try:
        return _frames.decode(frame)
    except UNDECODABLE as error:
        raise Garbage(f"a frame cannot be read: {error}") from error


def decode_item(item: bytes | bytearray) -> Item:
    """Return the message that came in chunks.

    Raises:
        Garbage: It is none.
    """
    try:
        return _items.decode(item)
    except UNDECODABLE as error:
        raise Garbage(f"a message cannot be read: {error}") from error


class Joining:
    """Puts the chunks of messages together again."""

    def __init__(self) -> None:
        self._begun = {lane: bytearray() for lane in Lane}

    def add(self, chunk: Chunk) -> Item | None:
        """Return the message that *chunk* completes, if it does.

        Raises:
            Garbage: It would be too long, or is none.
        """
        begun = self._begun[chunk.lane]
        if len(begun) + len(chunk.piece) > MESSAGE_BYTES_MAX:
            raise Garbage(f"a message has more than {MESSAGE_BYTES_MAX} bytes")
        begun += chunk.piece
        if not chunk.is_last:
            return None
        self._begun[chunk.lane] = bytearray()
        return decode_item(begun)
