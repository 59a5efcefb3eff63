"""Key rings for tests."""

import os
from pathlib import Path

from rota.wire.key_rings import KEY_BYTES, KeyRing, content_of, id_of


def new_key() -> bytes:
    """Return a new key."""
    return os.urandom(KEY_BYTES)


def ring_of(*keys: bytes, in_use: int = 0) -> KeyRing:
    """Return a key ring of *keys*, of which that with the number *in_use* encrypts."""
    return KeyRing(id_of(keys[in_use]), {id_of(key): key for key in keys})


def key_ring_file(folder: Path, ring: KeyRing | None = None) -> Path:
    """Write a key ring, by default of one new key, to a file in *folder*; return its path."""
    file = folder / "keyring"
    fresh = folder / "keyring.new"
    fresh.touch(mode=0o600)
    fresh.write_bytes(content_of(ring or ring_of(new_key())))
    fresh.rename(file)
    return file
