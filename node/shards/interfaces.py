"""Interfaces of the shards: effects, group commit, other copies, and swap requests."""

from collections.abc import Iterable
from typing import Protocol

from rota.core.model.ids import NodeId, ShardId
from rota.core.replication.messages import Message
from rota.core.timing.instants import Duration
from rota.core.vocabulary.commands import Command
from rota.core.vocabulary.decision import FreeSlots
from rota.core.vocabulary.effects import Effect
from rota.core.vocabulary.shard_configuration import Swap
from rota.node.shards.shard import Shard
from rota.storage.store import Ticket


class EffectHandler(Protocol):
    """Carries out the effects of shards on this node."""

    def slots_for(self, command: Command) -> FreeSlots:
        """Return where *command* may start attempts now, and how many."""
        ...

    def decided(self, command: Command, started: int) -> None:
        """Note that *command* was decided and starts *started* attempts."""
        ...

    def committed(self, took: Duration) -> None:
        """Note that an entry is committed, *took* after it was decided."""
        ...

    def perform(self, shard: Shard, effect: Effect, /) -> None:
        """Carry out a committed effect; called twice for the same one after a takeover."""
        ...

    def opened(self, shard: Shard, /) -> None:
        """Begin to act for a shard whose primary this node has become."""
        ...

    def unreadable(self, shard: Shard, /) -> None:
        """Note that a shard stays closed because its state cannot be read."""
        ...

    def closed(self, shard: Shard, /) -> None:
        """Cease to act for a shard: timers, tasks that wait for a slot, outbox items."""
        ...

    def unstarted(self, count: int, /) -> None:
        """Free the slots of attempts that were decided and are never launched."""
        ...


class Durable(Protocol):
    """The receiver of a group commit's reports."""

    def made_durable(self, ticket: Ticket, /) -> None:
        """Note that all writes up to *ticket* survive a loss of power now."""
        ...

    def sync_failed(self, error: Exception, /) -> None:
        """Fail: writes may be lost, and the store must not be used any more."""
        ...


class Commit(Protocol):
    """Makes writes to the store durable; see `rota.storage.group_commit`."""

    sync_count: int

    def wrote(self, ticket: Ticket) -> None:
        """Make *ticket* durable soon, and call `Durable.made_durable` then."""
        ...

    def close(self) -> None:
        """Wait for the last sync, which is still reported."""
        ...


class Peers(Protocol):
    """The other copies of shards, on other nodes."""

    def send(self, shard: ShardId, messages: Iterable[tuple[NodeId, Message]], /) -> None:
        """Send messages to other nodes' replicas of a shard, soon and together."""
        ...


class SwapRequests(Protocol):
    """Requests of replicas to the coordinator."""

    def swap(self, swap: Swap, /) -> None:
        """Request a change of a configuration; the answer goes to `Shards.swapped`.

        A replica has at most one swap on its way.
        """
        ...

    def look(self) -> None:
        """Request a read of the coordinator's view; its configurations go to `Shards.learn`."""
        ...
