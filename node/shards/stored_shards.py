"""All shards of one store, as its group commit sees them."""

from rota.node.shards.fallback_shards import FallbackShards
from rota.node.shards.local_shards import Shards
from rota.storage.store import Ticket


class StoredShards:
    """The shards of one store (`rota.node.shards.seams.Durable`).

    Args:
        shards: The shards of this node.
        fallback_shards: Its fallback shards, which share the store.
    """

    def __init__(self, shards: Shards, fallback_shards: FallbackShards) -> None:
        self._shards = shards
        self._fallback_shards = fallback_shards

    def made_durable(self, ticket: Ticket) -> None:
        """Note that everything written up to *ticket* survives a power loss now."""
        self._shards.made_durable(ticket)
        if self._fallback_shards.is_writing:
            self._fallback_shards.made_durable(ticket)

    def sync_failed(self, error: Exception) -> None:
        """Fail: what was written may be lost, and the store must not be used any more (R25)."""
        self._shards.sync_failed(error)
