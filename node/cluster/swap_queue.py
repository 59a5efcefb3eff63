"""Queue of requests to the coordinator: swaps of configurations, and reads of the view."""

import asyncio

from rota.core.model.ids import ShardId
from rota.core.vocabulary.shard_configuration import Swap


class SwapQueue:
    """The swaps that are still to be requested (`rota.node.shards.interfaces.SwapRequests`).

    Attributes:
        view_wanted: Set when a read of the view is requested; cleared before the read.
    """

    def __init__(self) -> None:
        self.view_wanted = asyncio.Event()
        self._swaps: dict[ShardId, Swap] = {}
        self._has_swaps = asyncio.Event()

    def __len__(self) -> int:
        return len(self._swaps)

    def swap(self, swap: Swap) -> None:
        """Add a swap; it replaces an earlier swap of the same shard."""
        self._swaps[swap.shard] = swap
        self._has_swaps.set()

    def look(self) -> None:
        """Request a read of the view."""
        self.view_wanted.set()

    async def wait_swap(self) -> None:
        """Return when there is at least one swap."""
        await self._has_swaps.wait()

    def take(self, limit: int) -> list[Swap]:
        """Remove and return the oldest swaps, at most *limit*."""
        swaps = list(self._swaps.values())[:limit]
        for swap in swaps:
            del self._swaps[swap.shard]
        if not self._swaps:
            self._has_swaps.clear()
        return swaps
