"""Journal entries: the bytes on disk and on the wire, and the chain that binds them.

    offset  size
         0     1  format, 1
         1     1  kind
         2     8  epoch
        10     8  index
        18     8  shard time in microseconds, never less than the entry before
        26     8  hash of the entry before (BLAKE2b of its bytes)
        34     4  CRC-32 of everything but these four bytes
        38        body

All integers are big-endian. The checksum finds damage; the chain finds an entry that is whole but
not the one that followed (PROTOCOL R7, I5). One node alone and three replicas write the same.
"""

import struct
from enum import IntEnum
from hashlib import blake2b
from zlib import crc32

import msgspec

from rota.core.errors import RotaError
from rota.core.model.ids import Epoch, Index
from rota.core.timing.instants import Instant

FORMAT = 1
ORIGIN_HASH = bytes(8)
"""What the first entry of a shard has for the hash of the entry before."""

_HEAD = struct.Struct(">BBQQq8s")
_CRC = struct.Struct(">I")
_BODY_AT = _HEAD.size + _CRC.size


class EntryKind(IntEnum):
    """What an entry is for."""

    CHANGES = 1
    TAKEOVER = 2
    """The first entry of an epoch (PROTOCOL R21); it may hold changes too."""


_KINDS = frozenset(EntryKind)


class Entry(msgspec.Struct, frozen=True):
    """One entry of a shard's journal."""

    kind: EntryKind
    epoch: Epoch
    index: Index
    at: Instant
    previous_hash: bytes
    body: bytes


class DamagedEntry(RotaError):
    """Bytes that are not the journal entry that should stand there."""

    code = "damaged_entry"


def encode_entry(entry: Entry) -> bytes:
    """Return *entry* as it is stored and sent."""
    head = _HEAD.pack(FORMAT, entry.kind, entry.epoch, entry.index, entry.at, entry.previous_hash)
    return head + _CRC.pack(crc32(entry.body, crc32(head))) + entry.body


def decode_entry(value: bytes) -> Entry:
    """Return the entry that *value* holds.

    Raises:
        DamagedEntry: Too short, of another format, or not what its checksum says.
    """
    if len(value) < _BODY_AT:
        raise DamagedEntry(f"is cut short: {len(value)} bytes")
    form, kind, epoch, index, at, previous_hash = _HEAD.unpack_from(value)
    if form != FORMAT:
        raise DamagedEntry(f"has format {form}; this rota reads format {FORMAT}")
    (checksum,) = _CRC.unpack_from(value, _HEAD.size)
    body = value[_BODY_AT:]
    if crc32(body, crc32(value[: _HEAD.size])) != checksum:
        raise DamagedEntry("does not match its checksum")
    if kind not in _KINDS:
        raise DamagedEntry(f"is of kind {kind}, which this rota does not know")
    return Entry(EntryKind(kind), Epoch(epoch), Index(index), Instant(at), previous_hash, body)


def hash_of(value: bytes) -> bytes:
    """Return the hash by which the next entry refers to the encoded entry *value*."""
    return blake2b(value, digest_size=8).digest()


class Tip(msgspec.Struct, frozen=True):
    """Where a journal ends: what the next entry has to follow."""

    epoch: Epoch
    index: Index
    at: Instant
    hash: bytes


ORIGIN = Tip(Epoch(0), Index(0), Instant(0), ORIGIN_HASH)
"""The tip of an empty journal."""


def follow(tip: Tip, value: bytes) -> tuple[Entry, Tip]:
    """Return the entry in *value*, which must follow *tip*, and the tip after it.

    Raises:
        DamagedEntry: It is damaged, or whole but another entry than the one that followed.
    """
    entry = decode_entry(value)
    if entry.index != tip.index + 1:
        raise DamagedEntry(f"is entry {entry.index} in the place of entry {tip.index + 1}")
    if entry.previous_hash != tip.hash:
        raise DamagedEntry("does not follow the entry before it (chain hash)")
    if entry.epoch < tip.epoch or entry.at < tip.at:
        raise DamagedEntry("goes back in epoch or in time")
    return entry, Tip(entry.epoch, entry.index, entry.at, hash_of(value))
