"""Key rings: files with the keys that encrypt the data keys of secrets.

A key ring is JSON: a format, the id of the key in use, and the keys, each 256 bits in base64. All
keys decrypt, and the one in use encrypts. The id of a key follows from the key, so two keys never
have the same id, and a damaged key is detected. Commands of ``rota keyring`` write the file.
"""

import base64
import binascii
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import msgspec

from rota.core.decoding import UNDECODABLE

FORMAT = 1
KEY_BYTES = 32
KEYS_MAX = 32
FILE_BYTES_MAX = 64 << 10
OTHERS = 0o077
"""The permissions that only users other than the owner have."""
_ID_DIGITS = 8


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The keys of a key ring.

    Attributes:
        in_use: The id of the key that encrypts.
        keys: The keys by their ids, oldest first.
    """

    in_use: str
    keys: Mapping[str, bytes] = field(repr=False)


class KeyRingInvalid(ValueError):
    """A file is not a usable key ring; the text never has a key."""


class _StoredKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    key: str


class _Stored(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    format: int
    in_use: str
    keys: list[_StoredKey]


def id_of(key: bytes) -> str:
    """Return the id of a key."""
    return "k" + sha256(b"rota key ring\0" + key).hexdigest()[:_ID_DIGITS]


def ring_of(key: bytes) -> KeyRing:
    """Return the key ring of one key, which is in use."""
    return KeyRing(id_of(key), {id_of(key): key})


def read_key_ring(file: Path) -> KeyRing:
    """Return the key ring in *file*.

    Raises:
        KeyRingInvalid: The file cannot be read, other users may read or replace its content, or it
            is not a key ring.
    """
    try:
        with file.open("rb") as opened:
            found = os.fstat(opened.fileno())
            content = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise KeyRingInvalid(f"{file} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode):
        raise KeyRingInvalid(f"{file} is not a file")
    if found.st_mode & OTHERS:
        mode = f"{stat.S_IMODE(found.st_mode):04o}"
        raise KeyRingInvalid(
            f"{file} has the mode {mode}, so that other users can access it: run chmod 600 {file}"
        )
    if found.st_uid not in (0, os.geteuid()):
        raise KeyRingInvalid(f"{file} belongs to another user: it has to belong to this one")
    return key_ring_in(content, file)


def key_ring_in(content: bytes, file: Path) -> KeyRing:
    """Return the key ring with the JSON *content*; *file* is named in errors.

    Raises:
        KeyRingInvalid: The content is not a key ring.
    """
    if len(content) > FILE_BYTES_MAX:
        raise KeyRingInvalid(f"{file} is longer than {FILE_BYTES_MAX} bytes: it is no key ring")
    try:
        stored = msgspec.json.decode(content, type=_Stored)
    except UNDECODABLE as error:
        # The text of a decoder could have a part of the content.
        hint = "`rota keyring init` makes one"
        raise KeyRingInvalid(f"{file} is not a key ring in JSON; {hint}") from error
    if stored.format != FORMAT:
        detail = f"{file} has the format {stored.format}, and this version reads {FORMAT}"
        raise KeyRingInvalid(f"{detail}; use a newer rota")
    if not 1 <= len(stored.keys) <= KEYS_MAX:
        raise KeyRingInvalid(f"{file} has {len(stored.keys)} keys; 1 to {KEYS_MAX} are needed")
    keys = {each.id: _key(each, file) for each in stored.keys}
    if stored.in_use not in keys:
        detail = f"the key in use, {stored.in_use!r}, is not among the keys of {file}"
        raise KeyRingInvalid(f"{detail}; choose one of them with `rota keyring use`")
    return KeyRing(stored.in_use, keys)


def content_of(ring: KeyRing) -> bytes:
    """Return the content of the file of *ring*."""
    keys = [_StoredKey(name, base64.b64encode(key).decode()) for name, key in ring.keys.items()]
    stored = _Stored(format=FORMAT, in_use=ring.in_use, keys=keys)
    return msgspec.json.format(msgspec.json.encode(stored), indent=2) + b"\n"


def _key(stored: _StoredKey, file: Path) -> bytes:
    try:
        key = base64.b64decode(stored.key, validate=True)
    except binascii.Error:
        key = b""
    if len(key) != KEY_BYTES or id_of(key) != stored.id:
        raise KeyRingInvalid(
            f"the key {stored.id!r} in {file} is damaged: restore the file from its copy"
        )
    return key
