"""Journal entries: their bytes on disk and on the wire, and their hash chain.

    offset  size
         0     1  format, 1
         1     1  kind
         2     8  epoch
        10     8  index
        18     8  shard time in microseconds, never less than that of the entry before
        26     8  hash of the entry before (BLAKE2b of its bytes)
        34     4  CRC-32 of all bytes except these four
        38        body

All integers are big-endian. The checksum detects damage; the chain detects an intact entry that is
not the successor of the entry before (PROTOCOL R7, I5). The format does not depend on the number of
replicas.
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
"""The previous hash in the first entry of a shard."""

_HEAD = struct.Struct(">BBQQq8s")
_CRC = struct.Struct(">I")
_BODY_AT = _HEAD.size + _CRC.size


class EntryKind(IntEnum):
    """The kind of an entry."""

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
    """The bytes are not the expected journal entry; the message continues a sentence about it."""

    code = "damaged_entry"


def encode_entry(entry: Entry) -> bytes:
    """Return *entry* encoded, as it is stored and sent."""
    head = _HEAD.pack(FORMAT, entry.kind, entry.epoch, entry.index, entry.at, entry.previous_hash)
    return head + _CRC.pack(crc32(entry.body, crc32(head))) + entry.body


def decode_entry(value: bytes) -> Entry:
    """Return the entry decoded from *value*.

    Raises:
        DamagedEntry: *value* is too short, of another format, or does not match its checksum.
    """
    if len(value) < _BODY_AT:
        raise DamagedEntry(f"is cut short: {len(value)} bytes")
    form, kind, epoch, index, at, previous_hash = _HEAD.unpack_from(value)
    if form != FORMAT:
        raise DamagedEntry(f"has format {form}; this version of rota reads format {FORMAT}")
    (checksum,) = _CRC.unpack_from(value, _HEAD.size)
    body = value[_BODY_AT:]
    if crc32(body, crc32(value[: _HEAD.size])) != checksum:
        raise DamagedEntry("does not match its checksum")
    if kind not in _KINDS:
        raise DamagedEntry(f"is of kind {kind}, which this version of rota does not have")
    return Entry(EntryKind(kind), Epoch(epoch), Index(index), Instant(at), previous_hash, body)


def hash_of(value: bytes) -> bytes:
    """Return the hash of the encoded entry *value*, which the next entry contains."""
    return blake2b(value, digest_size=8).digest()


class Tip(msgspec.Struct, frozen=True):
    """The end of a journal: position, time and hash of its last entry."""

    epoch: Epoch
    index: Index
    at: Instant
    hash: bytes


ORIGIN = Tip(Epoch(0), Index(0), Instant(0), ORIGIN_HASH)
"""The tip of an empty journal."""


def follow(tip: Tip, value: bytes) -> tuple[Entry, Tip]:
    """Return the entry in *value*, which must follow *tip*, and the tip after it.

    Raises:
        DamagedEntry: The entry is damaged, or intact but not the successor of *tip*.
    """
    entry = decode_entry(value)
    if entry.index != tip.index + 1:
        raise DamagedEntry(f"is entry {entry.index} instead of entry {tip.index + 1}")
    if entry.previous_hash != tip.hash:
        raise DamagedEntry("does not follow the entry before it (chain hash)")
    if entry.epoch < tip.epoch or entry.at < tip.at:
        raise DamagedEntry("has a lower epoch or an earlier time than the entry before it")
    return entry, Tip(entry.epoch, entry.index, entry.at, hash_of(value))
