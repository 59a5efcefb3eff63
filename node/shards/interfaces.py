"""Interfaces of the shards: effects, group commit, other copies, and swap requests."""

from collections.abc import Iterable
from typing import Protocol

from rota.core.model.ids import NodeId, ShardId
from rota.core.replication.messages import Message, QuietMessage
from rota.core.timing.instants import Duration
from rota.core.vocabulary.commands import Command
from rota.core.vocabulary.decision import FreeSlots
from rota.core.vocabulary.effects import Effect
from rota.core.vocabulary.shard_configuration import Swap
from rota.node.shards.shard import Shard
from rota.storage.store import Ticket


class EffectHandler(Protocol):
    """Handler of the effects of shards on this node."""

    def slots_for(self, command: Command) -> FreeSlots:
        """Return the nodes on which *command* may start attempts now, and how many."""
        ...

    def decided(self, command: Command, started: int) -> None:
        """Record that *command* was decided and starts *started* attempts."""
        ...

    def committed(self, took: Duration) -> None:
        """Record that an entry is released, *took* after it was decided."""
        ...

    def perform(self, shard: Shard, effect: Effect, /) -> None:
        """Carry out a committed effect; after a takeover, the same effect may be passed again."""
        ...

    def opened(self, shard: Shard, /) -> None:
        """Begin to act for a shard whose primary this node has become."""
        ...

    def unreadable(self, shard: Shard, /) -> None:
        """Record that a shard stays closed because its state cannot be read."""
        ...

    def closed(self, shard: Shard, /) -> None:
        """Stop acting for a shard: drop its timers, waits for slots and outbox items."""
        ...

    def unstarted(self, count: int, /) -> None:
        """Free the slots of *count* attempts that were decided but will not be launched."""
        ...


class Durable(Protocol):
    """The receiver of a group commit's reports."""

    def made_durable(self, ticket: Ticket, /) -> None:
        """Record that all writes up to *ticket* now survive a loss of power."""
        ...

    def sync_failed(self, error: Exception, /) -> None:
        """Fail, because writes may be lost and the store must not be used any more."""
        ...


class Commit(Protocol):
    """The group commit, which makes writes to the store durable (`rota.storage.group_commit`)."""

    sync_count: int

    def wrote(self, ticket: Ticket) -> None:
        """Make *ticket* durable soon, and then call `Durable.made_durable`."""
        ...

    def close(self) -> None:
        """Wait for the last sync, whose end is still reported."""
        ...


class Peers(Protocol):
    """The other copies of shards, on other nodes."""

    def send(self, shard: ShardId, messages: Iterable[tuple[NodeId, Message]], /) -> None:
        """Send messages to the replicas of a shard on other nodes, soon and together."""
        ...

    def send_quiet(self, messages: Iterable[tuple[NodeId, QuietMessage]], /) -> None:
        """Send messages about many shards to other nodes, soon."""
        ...


class SwapRequests(Protocol):
    """Requests of replicas to the coordinator."""

    def swap(self, swap: Swap, /) -> None:
        """Request a change of a configuration; the answer goes to `Shards.swapped`.

        A replica has at most one unanswered swap.
        """
        ...

    def look(self) -> None:
        """Request a read of the coordinator's view; its configurations go to `Shards.learn`."""
        ...
