"""What goes over a link: frames of msgpack, one to a WebSocket message.

    [0, [[shard, message], ...]]   a batch: all that one turn of the loop sends
    [1, lane, is_last, bytes]      a chunk of a message that is too long for that
    [2, sent_at]                   a ping
    [3, sent_at]                   its answer

What is decoded is checked to its last field: types, forms of ids and names, ranges of numbers. So a
frame is either sound or garbage, and garbage ends its link before any of it is acted on.
"""

from enum import IntEnum
from typing import Annotated

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.model.checked_fields import CheckedInstant, CheckedShard
from rota.core.model.ids import ShardId
from rota.node.peers.messages import NODE_KINDS, Sent

FRAME_BYTES_MAX = 1 << 20
"""Limit of a frame: four shards' entries of a busy turn; decoding it does not delay the loop."""
CHUNK_BYTES = 64 << 10
"""Part of a snapshot between other messages: half a millisecond at 1 Gbit/s."""
MESSAGE_BYTES_MAX = 128 << 20
"""Limit of a message in chunks: an entry holds at most the decisions of one turn."""
OVERHEAD_BYTES = 64
"""Upper bound of the bytes of a frame besides its content."""
BATCH_MAX = 4_096
"""Messages in one frame: 20 ms of work for the receiver."""
PARTIAL_BYTES_MAX = 256 << 20
"""Of messages in chunks that are not complete, over all links of a node."""

Item = tuple[CheckedShard | None, Sent]
"""A message in its envelope: the shard that it is about, or none if it is one of `NODE_KINDS`."""


class Lane(IntEnum):
    """What keeps its order; one lane may overtake the other."""

    ORDERED = 0
    """Everything but snapshots."""
    BULK = 1
    """Parts of snapshots, each understood by itself: beats and entries do not wait for them."""


class Batch(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """Messages, in the order in which they were sent."""

    items: Annotated[list[Item], msgspec.Meta(max_length=BATCH_MAX)]


class Chunk(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A piece of the message that its lane is busy with."""

    lane: Lane
    is_last: bool
    piece: bytes


class Ping(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Asks for a sign of life; *sent_at* by the sender's clock."""

    sent_at: CheckedInstant


class Pong(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The answer, with what the ping said."""

    sent_at: CheckedInstant


Frame = Batch | Chunk | Ping | Pong

_encoder = msgspec.msgpack.Encoder()
_frames: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)
_items: msgspec.msgpack.Decoder[Item] = msgspec.msgpack.Decoder(Item)


class Garbage(Exception):
    """What came over a link is not what a node of this cluster sends."""


def encode(frame: Chunk | Ping | Pong) -> bytes:
    """Return the bytes of a frame."""
    return _encoder.encode(frame)


def encode_item(shard: ShardId | None, message: Sent) -> bytes:
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


def check_envelope(shard: ShardId | None, message: Sent) -> None:
    """Check that a message is about a shard, or about none, as its kind demands.

    Raises:
        Garbage: It is not.
    """
    if (shard is None) != (type(message) in NODE_KINDS):
        about = "no shard" if shard is None else f"shard {shard}"
        raise Garbage(f"a message of the kind {type(message).__name__} is about {about}")


class Partials:
    """The bytes of incomplete messages, over all links of a node.

    Attributes:
        size: Their number.
    """

    def __init__(self) -> None:
        self.size = 0

    def add(self, size: int) -> None:
        """Count *size* more bytes.

        Raises:
            Garbage: There is no room for them.
        """
        if self.size + size > PARTIAL_BYTES_MAX:
            raise Garbage(
                f"incomplete messages of all links would fill more than {PARTIAL_BYTES_MAX} bytes"
            )
        self.size += size


class Joining:
    """Joins the chunks of one link's messages.

    Args:
        partials: Of all links.
    """

    def __init__(self, partials: Partials) -> None:
        self._partials = partials
        self._begun = {lane: bytearray() for lane in Lane}

    def add(self, chunk: Chunk) -> Item | None:
        """Return the message that *chunk* completes, if it does.

        Raises:
            Garbage: It would be too long, or is none, or there is no room for it.
        """
        begun = self._begun[chunk.lane]
        if len(begun) + len(chunk.piece) > MESSAGE_BYTES_MAX:
            raise Garbage(f"a message has more than {MESSAGE_BYTES_MAX} bytes")
        self._partials.add(len(chunk.piece))
        begun += chunk.piece
        if not chunk.is_last:
            return None
        self._drop(chunk.lane)
        return decode_item(begun)

    def close(self) -> None:
        """Drop what is incomplete: the link has ended."""
        for lane in Lane:
            self._drop(lane)

    def _drop(self, lane: Lane) -> None:
        self._partials.size -= len(self._begun[lane])
        self._begun[lane] = bytearray()
