"""Wiring of the secrets of a node."""

from dataclasses import dataclass

from rota.core.model.attempt import Order
from rota.executor.secret_values import SecretValues
from rota.node.cluster.shared_documents import SharedDocuments
from rota.node.links.identity_proof import draw_bytes
from rota.node.runtime.foundation import NodeFoundation
from rota.node.secrets.live_key_ring import LiveKeyRing
from rota.node.secrets.sealed_texts import SealedTexts, with_sealed
from rota.node.secrets.secret_store import SecretStore

_DRAWN = 8
"""The number of bytes that are drawn at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SecretParts:
    """The secrets, sealed texts, and the key ring, which follows its file in the background."""

    store: SecretStore
    sealed_texts: SealedTexts
    key_ring: LiveKeyRing

    def values_of(self, order: Order) -> SecretValues:
        """Return the secrets and sealed texts of an order, as `SecretStore.values_of`."""
        return with_sealed(self.store.values_of(order), self.sealed_texts.values_of(order))


def wire_secrets(base: NodeFoundation, documents: SharedDocuments) -> SecretParts:
    """Return the secrets of a node with *documents*."""
    key_ring = LiveKeyRing(base.config.keyring)

    def random(count: int) -> bytes:
        return draw_bytes(base.entropy, -(-count // _DRAWN) * _DRAWN)[:count]

    store = SecretStore(documents, key_ring, base.clock, cluster=base.config.cluster, random=random)
    sealed_texts = SealedTexts(store, cluster=base.config.cluster, random=random)
    return SecretParts(store=store, sealed_texts=sealed_texts, key_ring=key_ring)
