"""Wiring of the secrets of a node."""

from dataclasses import dataclass

from rota.node.cluster.shared_documents import SharedDocuments
from rota.node.links.identity_proof import draw_bytes
from rota.node.runtime.foundation import NodeFoundation
from rota.node.secrets.live_key_ring import LiveKeyRing
from rota.node.secrets.secret_store import SecretStore

_DRAWN = 8
"""The number of bytes that are drawn at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SecretParts:
    """The secrets, and the key ring, which follows its file in the background."""

    store: SecretStore
    key_ring: LiveKeyRing


def wire_secrets(base: NodeFoundation, documents: SharedDocuments) -> SecretParts:
    """Return the secrets of a node with *documents*."""
    key_ring = LiveKeyRing(base.config.keyring)

    def random(count: int) -> bytes:
        return draw_bytes(base.entropy, -(-count // _DRAWN) * _DRAWN)[:count]

    store = SecretStore(documents, key_ring, base.clock, cluster=base.config.cluster, random=random)
    return SecretParts(store=store, key_ring=key_ring)
