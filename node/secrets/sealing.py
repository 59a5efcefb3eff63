"""Encryption of secrets: a data key for each version of a secret, itself encrypted by the key ring.

Both encryptions are AES-256-GCM with a random nonce of 96 bits, and authenticate to which version
of which secret they belong. A data key encrypts one value only, so its nonce cannot repeat.
"""

import base64
import binascii
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.model.shared_document import Definition
from rota.wire.key_rings import KEY_BYTES, KeyRing

if TYPE_CHECKING:  # For speed, not to avoid a cycle.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_BYTES = 12

Random = Callable[[int], bytes]
"""Returns a number of random bytes from a cryptographic source."""


class CannotOpen(Exception):
    """A value cannot be decrypted; the text has the reason, and never a value or a key."""


class Identity(NamedTuple):
    """The properties to which a box is bound.

    Attributes:
        cluster: The name of the cluster.
        namespace: The namespace of the secret.
        name: The name of the secret.
        version: The version of the secret.
    """

    cluster: str
    namespace: str
    name: str
    version: int

    def bound(self, use: str) -> bytes:
        """Return the data that are authenticated together with *use*; no part contains ``|``."""
        return "|".join((use, self.cluster, self.namespace, self.name, str(self.version))).encode()


class Sealed(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One version of a secret, as it is stored.

    Attributes:
        version: The version of the value; higher than that of each earlier value of this name.
        kek: The id of the key of the key ring that encrypts the data key.
        wrapped: The encrypted data key, in base64.
        box: The encrypted value, in base64.
        set_at: When the value was set.
        set_by: The principal that set it.
    """

    version: Annotated[int, msgspec.Meta(ge=1)]
    kek: str
    wrapped: str
    box: str
    set_at: str = ""
    set_by: str = ""


def sealed_in(definition: Definition) -> Sealed:
    """Return the secret in a document.

    Raises:
        CannotOpen: The definition was written by another program or version.
    """
    try:
        return msgspec.convert(definition, Sealed)
    except UNDECODABLE as error:
        raise CannotOpen(f"its document is not understood: {error}") from error


def seal(
    value: bytes, identity: Identity, ring: KeyRing, random: Random, *, set_at: str, set_by: str
) -> Sealed:
    """Return *value* encrypted with a new data key.

    Args:
        value: The value.
        identity: The version of the secret.
        ring: The key ring, whose key in use encrypts the data key.
        random: The source of the data key and of the nonces.
        set_at: When the value is set.
        set_by: The principal that sets it.
    """
    data_key = random(KEY_BYTES)
    box = _encrypt(data_key, value, identity.bound("value"), random)
    wrapped = _encrypt(ring.keys[ring.in_use], data_key, identity.bound("key"), random)
    return Sealed(
        version=identity.version,
        kek=ring.in_use,
        wrapped=wrapped,
        box=box,
        set_at=set_at,
        set_by=set_by,
    )


def open_sealed(sealed: Sealed, identity: Identity, ring: KeyRing) -> bytes:
    """Return the value.

    Raises:
        CannotOpen: The key ring lacks the key, or the box does not belong to *identity*.
    """
    data_key = _data_key(sealed, identity, ring)
    return _decrypt(data_key, sealed.box, identity.bound("value"))


def rewrapped(sealed: Sealed, identity: Identity, ring: KeyRing, random: Random) -> Sealed:
    """Return the same box with its data key encrypted by the key in use.

    Raises:
        CannotOpen: As for `open_sealed`.
    """
    data_key = _data_key(sealed, identity, ring)
    wrapped = _encrypt(ring.keys[ring.in_use], data_key, identity.bound("key"), random)
    return msgspec.structs.replace(sealed, kek=ring.in_use, wrapped=wrapped)


def _data_key(sealed: Sealed, identity: Identity, ring: KeyRing) -> bytes:
    kek = ring.keys.get(sealed.kek)
    if kek is None:
        held = ", ".join(ring.keys)
        raise CannotOpen(f"the key ring of this node lacks the key {sealed.kek}; it has {held}")
    return _decrypt(kek, sealed.wrapped, identity.bound("key"))


def _encrypt(key: bytes, data: bytes, bound: bytes, random: Random) -> str:
    nonce = random(NONCE_BYTES)
    return base64.b64encode(nonce + cipher_of(key).encrypt(nonce, data, bound)).decode()


def _decrypt(key: bytes, text: str, bound: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag

    try:
        content = base64.b64decode(text, validate=True)
        return cipher_of(key).decrypt(content[:NONCE_BYTES], content[NONCE_BYTES:], bound)
    except (InvalidTag, binascii.Error, ValueError) as error:
        detail = "its box is damaged, or belongs to another secret, version or cluster"
        raise CannotOpen(f"{detail}: set the secret again") from error


def cipher_of(key: bytes) -> "AESGCM":
    """Return AES-256-GCM with *key*."""
    # Imported here, because most nodes start without secrets, and the import takes 30 ms.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)
