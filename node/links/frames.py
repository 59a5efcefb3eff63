"""Frames of a link, encoded with msgpack, one in each WebSocket message.

    [0, [[shard, message], ...]]   a batch of waiting messages
    [1, lane, is_last, bytes]      a chunk of a message that is sent in parts
    [2, sent_at]                   a ping
    [3, sent_at]                   a pong, the answer to a ping

Every field of a frame is checked during decoding: types, forms of ids and names, ranges of numbers.
A frame is therefore either valid or garbage, and garbage ends its link before any part of the frame
is used.
"""

from enum import IntEnum
from typing import Annotated

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.model.checked_fields import CheckedInstant, CheckedShard
from rota.core.model.ids import ShardId
from rota.node.peers.messages import NODE_KINDS, Sent

FRAME_BYTES_MAX = 1 << 20
"""The largest frame: enough for the entries of four shards in a busy turn, and small enough to be
decoded without a delay of the event loop."""
CHUNK_BYTES = 64 << 10
"""The largest chunk of a snapshot, sent between other messages: half a millisecond at 1 Gbit/s."""
MESSAGE_BYTES_MAX = 128 << 20
"""The largest message in chunks; an entry holds at most the decisions of one turn."""
OVERHEAD_BYTES = 64
"""Upper bound of the bytes of a frame besides its content."""
BATCH_MAX = 4_096
"""The most messages in one frame, which take the receiver 20 ms."""
PARTIAL_BYTES_MAX = 256 << 20
"""The most bytes of incomplete messages in chunks, over all links of a node."""

Item = tuple[CheckedShard | None, Sent]
"""A message in its envelope: the shard that it is about; None for a message of `NODE_KINDS`."""


class Lane(IntEnum):
    """A sequence of messages that keeps its order; messages of one lane may overtake the other."""

    ORDERED = 0
    """All messages except parts of snapshots."""
    BULK = 1
    """Parts of snapshots, which are independent of other messages; beats and entries do not wait
    for them."""


class Batch(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """Messages, in the order in which they were sent."""

    items: Annotated[list[Item], msgspec.Meta(max_length=BATCH_MAX)]


class Chunk(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A piece of the message that is being sent in a lane."""

    lane: Lane
    is_last: bool
    piece: bytes


class Ping(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A request for a sign of life.

    Attributes:
        sent_at: The time of the request by the sender's clock.
    """

    sent_at: CheckedInstant


class Pong(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The answer to a ping.

    Attributes:
        sent_at: The same as in the ping.
    """

    sent_at: CheckedInstant


Frame = Batch | Chunk | Ping | Pong

_encoder = msgspec.msgpack.Encoder()
_frames: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)
_items: msgspec.msgpack.Decoder[Item] = msgspec.msgpack.Decoder(Item)


class Garbage(Exception):
    """Data received over a link are not what a node of this cluster sends."""


def encode(frame: Chunk | Ping | Pong) -> bytes:
    """Return the bytes of a frame."""
    return _encoder.encode(frame)


def encode_item(shard: ShardId | None, message: Sent) -> bytes:
    """Return the bytes of a message in the form of an item of a batch."""
    return _encoder.encode((shard, message))


def batch_of(items: list[bytes]) -> bytes:
    """Return the frame of a batch of encoded messages, which must be fewer than 2^16."""
    # The headers of a batch and of its list are written here, so that nothing is encoded twice.
    return b"".join((b"\x92\x00\xdc", len(items).to_bytes(2, "big"), *items))


def decode(frame: bytes) -> Frame:
    """Return the decoded frame.

    Raises:
        Garbage: The bytes are not a valid frame.
    """
    try:
        return _frames.decode(frame)
    except UNDECODABLE as error:
        raise Garbage(f"a frame cannot be read: {error}") from error


def decode_item(item: bytes | bytearray) -> Item:
    """Return the message that was received in chunks.

    Raises:
        Garbage: The bytes are not a valid message.
    """
    try:
        return _items.decode(item)
    except UNDECODABLE as error:
        raise Garbage(f"a message cannot be read: {error}") from error


def check_envelope(shard: ShardId | None, message: Sent) -> None:
    """Check that a message names a shard if and only if its kind requires one.

    Raises:
        Garbage: The message lacks a required shard, or names one that its kind does not have.
    """
    if (shard is None) != (type(message) in NODE_KINDS):
        about = "no shard" if shard is None else f"shard {shard}"
        raise Garbage(f"a message of the kind {type(message).__name__} is about {about}")


class Partials:
    """The count of bytes of incomplete messages, over all links of a node.

    Attributes:
        size: The number of bytes.
    """

    def __init__(self) -> None:
        self.size = 0

    def add(self, size: int) -> None:
        """Count *size* more bytes.

        Raises:
            Garbage: The number of bytes would exceed the limit.
        """
        if self.size + size > PARTIAL_BYTES_MAX:
            raise Garbage(
                f"incomplete messages of all links would fill more than {PARTIAL_BYTES_MAX} bytes"
            )
        self.size += size


class Joining:
    """The joining of the chunks of one link's messages.

    Args:
        partials: The count of bytes of incomplete messages, over all links.
    """

    def __init__(self, partials: Partials) -> None:
        self._partials = partials
        self._begun = {lane: bytearray() for lane in Lane}

    def add(self, chunk: Chunk) -> Item | None:
        """Add a chunk; return the message that it completes, or None.

        Raises:
            Garbage: The message is too long or invalid, or the incomplete messages of all links
                would have too many bytes.
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
        """Drop incomplete messages, because the link has ended."""
        for lane in Lane:
            self._drop(lane)

    def _drop(self, lane: Lane) -> None:
        self._partials.size -= len(self._begun[lane])
        self._begun[lane] = bytearray()
