"""Signatures of the heads of the chains of changes, with keys derived from the key ring.

A signature is an HMAC-SHA256. A person who can write to the disks of all nodes but does not have
the key ring can rewrite a chain with all of its hashes, and cannot sign its new head.
"""

import hmac

from rota.core.model.ids import ShardId
from rota.core.timing.instants import Instant
from rota.core.vocabulary.change_chain import SignedHead
from rota.wire.key_rings import KeyRing

_USE = b"rota head of changes"
"""The use of the derived key, so that it differs from the key that encrypts secrets."""


def sign_head(
    key: str, digest: bytes, ring: KeyRing, *, cluster: str, shard: ShardId, at: Instant
) -> SignedHead:
    """Return the signature of a change by the key in use.

    Args:
        key: The key of the change.
        digest: The hash of the change.
        ring: The key ring.
        cluster: The name of the cluster.
        shard: The shard of the change.
        at: The time of the signature.
    """
    unsigned = SignedHead(key=key, hash=digest, at=at, signer=ring.in_use, mac=b"")
    mac = _mac(unsigned, ring.keys[ring.in_use], cluster, shard)
    return SignedHead(key=key, hash=digest, at=at, signer=ring.in_use, mac=mac)


def fault_of_signature(head: SignedHead, ring: KeyRing, *, cluster: str, shard: ShardId) -> str:
    """Return why a signature does not count, in a sentence; empty if it counts."""
    signer = ring.keys.get(head.signer)
    if signer is None:
        return (
            f"change {head.number} was signed with the key {head.signer}, which the key ring of "
            "the node lacks"
        )
    if not hmac.compare_digest(head.mac, _mac(head, signer, cluster, shard)):
        return f"the signature of change {head.number} is wrong"
    return ""


def _mac(head: SignedHead, key: bytes, cluster: str, shard: ShardId) -> bytes:
    derived = hmac.digest(key, _USE, "sha256")
    # No part contains the separator; names of clusters have neither spaces nor control characters.
    parts = ("1", cluster, str(shard), head.key, head.hash.hex(), str(head.at))
    return hmac.digest(derived, "\n".join(parts).encode(), "sha256")
