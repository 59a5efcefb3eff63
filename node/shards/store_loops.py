"""Loops of all shards in one store, and the group commit that they share."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rota.node.shards.fallback_shards import FallbackShards, NoReplication
from rota.node.shards.interfaces import Commit, Durable, EffectHandler, Peers, SwapRequests
from rota.node.shards.local_shards import Shards
from rota.storage.store import Ticket


class StoreLoops:
    """The loops of a node's shards and of its fallback shards.

    The class implements `rota.node.shards.interfaces.Durable`.

    Args:
        shards: The shards of this node.
        fallback_shards: The fallback shards of this node, which share the store.
        effects: Carries out the effects of the shards.
        fallback_effects: Carries out the effects of the fallback shards.
        peers: The other copies of the shards.
        swap_requests: Requests changes of the shards' configurations.
        make_commit: Returns the group commit of the store, which reports to its argument.

    Attributes:
        commit: The group commit of the store.
    """

    def __init__(
        self,
        shards: Shards,
        fallback_shards: FallbackShards,
        *,
        effects: EffectHandler,
        fallback_effects: EffectHandler,
        peers: Peers,
        swap_requests: SwapRequests,
        make_commit: Callable[[Durable], Commit],
    ) -> None:
        self._shards = shards
        self.commit = make_commit(self)
        none = NoReplication()
        self._loop = shards.loop(effects, peers, swap_requests, self.commit)
        self._fallback_loop = fallback_shards.loop(fallback_effects, none, none, self.commit)

    @contextmanager
    def running(self) -> Generator[None]:
        """Run the turns of both loops while the body runs."""
        with self._loop.running(), self._fallback_loop.running():
            yield

    async def stop(self) -> None:
        """Decide and commit the waiting commands, then refuse others; a refusal ends the wait."""
        await self._loop.stop()
        await self._fallback_loop.stop()

    def made_durable(self, ticket: Ticket) -> None:
        """Record that all writes up to *ticket* now survive a loss of power."""
        self._loop.made_durable(ticket)
        if self._fallback_loop.is_writing:
            self._fallback_loop.made_durable(ticket)

    def sync_failed(self, error: Exception) -> None:
        """Fail, because writes may be lost and the store must not be used any more (R25)."""
        self._shards.fail(error)
