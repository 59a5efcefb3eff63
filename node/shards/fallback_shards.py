"""Fallback shards of this node: decisions in place of primaries that cannot be reached.

A fallback shard is a shard with one copy (docs/explanation/available.md), as in a cluster of this
node alone. It decides, commits and acts like any other shard, and the next process of the node
opens it again. Fallback shards are made when they are needed.
"""

import asyncio
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from rota.core.model.fallback_ids import fallback_shard_of, inward, is_of_fallback
from rota.core.model.ids import AllocationId, Epoch, NodeId, Session, ShardId
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.coordinator_continuity import CoordinatorContinuity
from rota.core.replication.messages import Message, QuietMessage
from rota.core.replication.primary import Copies
from rota.core.replication.timeouts import Timing
from rota.core.timing.instants import LATEST_INSTANT, Duration
from rota.core.vocabulary.commands import FinishAttempt, ReportAttempt
from rota.core.vocabulary.decision import Limits
from rota.core.vocabulary.facts import NO_QUOTAS, Facts
from rota.core.vocabulary.shard_configuration import Swap
from rota.node.peers.messages import DeliveredCommand
from rota.node.shards.local_shards import Shards
from rota.node.shards.quota_use import QuotaUse
from rota.node.shards.shard import Shard
from rota.node.system.clock import Clock
from rota.node.system.entropy import Entropy
from rota.storage.shards import stored_shards
from rota.storage.store import Store

EXECUTIONS_MAX = 1_000
"""The most executions of one fallback shard that are not transferred yet: one or two megabytes, and
minutes of transfer."""
_ALONE = Copies(wanted=1, least=1)
_SESSION = Session("stand-in")
"""A session that never ends, since no other node can be the primary of a fallback shard."""


class FallbackShards(Shards):
    """Fallback shards of this node, by number (`rota.core.model.fallback_ids.fallback_shard_of`).

    Args:
        store: The store of the node's shards.
        node_id: This node.
        timing: The timeouts of the cluster.
        facts: Returns what the shared documents say that this node has received.
        clock: Gives the times of decisions.
        entropy: Gives the random numbers of decisions.
        check_clock: Called before an instant of the wall clock is recorded.
        failure: Gets the error that ends this node.
    """

    def __init__(
        self,
        store: Store,
        node_id: NodeId,
        *,
        timing: Timing,
        facts: Callable[[], Facts],
        clock: Clock,
        entropy: Entropy,
        check_clock: Callable[[], object],
        failure: "asyncio.Future[None]",
    ) -> None:
        liveness = Liveness(
            node_id, born_at=clock.elapsed(), session=_SESSION, session_end=LATEST_INSTANT
        )
        super().__init__(
            store,
            0,
            liveness=liveness,
            continuity=CoordinatorContinuity(),
            timing=timing,
            copies=_ALONE,
            clock=clock,
            entropy=entropy,
            limits=Limits(executions=EXECUTIONS_MAX),
            ahead=Duration(0),
            # Without reports of other nodes, there is no use to compare with quotas.
            facts=lambda: replace(facts(), quotas=NO_QUOTAS),
            quota_use=QuotaUse(liveness),
            check_clock=check_clock,
            failure=failure,
        )
        self._by_number: dict[ShardId, Shard] = {}
        for number in stored_shards(store, fallback_shard_of(ShardId(0))):
            self[number]

    def __getitem__(self, number: ShardId) -> Shard:
        fallback = self._by_number.get(number)
        if fallback is None:
            fallback = self._by_number[number] = self._make(number)
            self._shards.append(fallback)
        return fallback

    @property
    def open_numbers(self) -> list[ShardId]:
        """The numbers of the open fallback shards."""
        return [fallback.id for fallback in self.opened]

    def of(self, shard: Shard) -> Shard:
        """Return the fallback shard of a shard; it may be empty."""
        return self[fallback_shard_of(shard.id)]

    def opened_of(self, shard: Shard) -> Shard | None:
        """Return the fallback shard of a shard if it is open, or None."""
        fallback = self._by_number.get(fallback_shard_of(shard.id))
        return fallback if fallback is not None and fallback.is_open else None

    def begin(self, shard: Shard) -> None:
        """Make an empty fallback shard of *shard*; it opens when its beginning is durable.

        The epoch of its tokens is the one before the epoch of the last entry applied here. The
        shard itself may decide the same fires in any later entry, even in one that this node has
        and that is not committed, so the tokens of the fallback shard are lower than those of the
        shard's own attempts. The time of the fallback shard does not begin before that of the
        shard.
        """
        fallback, applied = self.of(shard), shard.replica.copy.base()
        before = Epoch(max(0, applied.epoch - 1))
        base = replace(applied, epoch=before, at=shard.replica.copy.tip.at)
        allocation, now = AllocationId(f"{self._entropy.draw():016x}"), self._clock.elapsed()
        self._move(fallback, lambda: fallback.replica.begin_alone(base, allocation, now))

    def reopen(self) -> None:
        """Open the fallback shards of earlier processes of this node."""
        for fallback in self:
            if fallback.replica.copy.allocation is not None:
                self._reopen(fallback)

    def _reopen(self, fallback: Shard) -> None:
        self._move(fallback, lambda: fallback.replica.go_on_alone(self._clock.elapsed()))

    def end(self, fallback: Shard) -> None:
        """Wipe a fallback shard whose transfer is complete."""
        assert fallback.unreleased is None, fallback.id
        self._move(fallback, fallback.replica.give_up_alone)


class NoReplication:
    """The peers and swap requests of fallback shards, which need neither.

    Fallback shards have only one copy, so they have no messages to peers
    (`rota.node.shards.interfaces.Peers`), and their configuration never changes
    (`rota.node.shards.interfaces.SwapRequests`).
    """

    def send(self, shard: ShardId, messages: Iterable[tuple[NodeId, Message]]) -> None:
        """Check that there is no message."""
        assert not list(messages), shard

    def send_quiet(self, messages: Iterable[tuple[NodeId, QuietMessage]]) -> None:
        """Check that there is no message."""
        assert not list(messages)

    def swap(self, swap: Swap) -> None:
        """Raise `AssertionError`."""
        raise AssertionError(swap)

    def look(self) -> None:
        """Raise `AssertionError`."""
        raise AssertionError("a fallback shard reads no view")


def inward_commands(commands: tuple[DeliveredCommand, ...]) -> tuple[DeliveredCommand, ...]:
    """Return the commands about attempts of a fallback shard, in the form for that shard."""
    return tuple(
        replace(command, attempt=inward(command.attempt))
        for command in commands
        if isinstance(command, FinishAttempt | ReportAttempt) and is_of_fallback(command.attempt)
    )
