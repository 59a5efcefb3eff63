"""The sides of this node: what it decides in place of primaries that it does not hear.

A side is a shard of one copy (docs/explanation/available.md), and a node's sides are the shards of
a cluster that consists of this node alone: they decide, commit and act like any other, and what
they wrote is found again by the node's next life. They are made when they are needed.
"""

import asyncio
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from rota.core.model.fallback_ids import fallback_shard_of, inward, is_of_fallback
from rota.core.model.ids import AllocationId, Epoch, NodeId, Session, ShardId
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.coordinator_continuity import CoordinatorContinuity
from rota.core.replication.messages import Message
from rota.core.replication.primary import Copies
from rota.core.replication.timeouts import Timing
from rota.core.timing.instants import LATEST_INSTANT, Duration
from rota.core.vocabulary.commands import FinishAttempt, ReportAttempt
from rota.core.vocabulary.decision import Limits
from rota.core.vocabulary.shard_configuration import Swap
from rota.node.peers.messages import DeliveredCommand
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Shard
from rota.node.system.clock import Clock
from rota.node.system.entropy import Entropy
from rota.storage.shards import stored_shards
from rota.storage.store import Store

EXECUTIONS_MAX = 1_000
"""Executions of one side that are not told yet: a megabyte or two, and minutes of telling."""
_ALONE = Copies(wanted=1, least=1)
_SESSION = Session("stand-in")
"""Never over: nobody else can ever decide for a side."""


class FallbackShards(Shards):
    """Fallback shards of this node, by number (`rota.core.model.fallback_ids.fallback_shard_of`).

    Args:
        store: That of the node's shards.
        node_id: This node.
        timing: The cluster's.
        clock: Gives the instants of decisions.
        entropy: Gives their chance.
        look_at_calendar: Called before anything is stamped by it.
        failure: Gets the error that ends this node.
    """

    def __init__(
        self,
        store: Store,
        node_id: NodeId,
        *,
        timing: Timing,
        clock: Clock,
        entropy: Entropy,
        look_at_calendar: Callable[[], object],
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
            look_at_calendar=look_at_calendar,
            failure=failure,
        )
        self._by_number: dict[ShardId, Shard] = {}
        for number in stored_shards(store, fallback_shard_of(ShardId(0))):
            self[number]

    def __getitem__(self, number: ShardId) -> Shard:
        side = self._by_number.get(number)
        if side is None:
            side = self._by_number[number] = self._make(number)
            self._shards.append(side)
        return side

    @property
    def open_numbers(self) -> list[ShardId]:
        """Those that are open."""
        return [side.id for side in self.opened]

    def of(self, shard: Shard) -> Shard:
        """Return the side of a shard, which may be nothing yet."""
        return self[fallback_shard_of(shard.id)]

    def opened_of(self, shard: Shard) -> Shard | None:
        """Return the side of a shard, if it is open."""
        side = self._by_number.get(fallback_shard_of(shard.id))
        return side if side is not None and side.is_open else None

    def begin(self, shard: Shard) -> None:
        """Make a side of *shard*, empty; it is open when that is durable.

        Its tokens are of the epoch before that of the last entry applied here. What it fires the
        shard itself may fire in any entry after that, be it one that is here and not committed, so
        they are lower than those of the shard's own attempts. Nor does its time begin before the
        shard's.
        """
        side, applied = self.of(shard), shard.replica.copy.base()
        before = Epoch(max(0, applied.epoch - 1))
        base = replace(applied, epoch=before, at=shard.replica.copy.tip.at)
        allocation, now = AllocationId(f"{self._entropy.draw():016x}"), self._clock.elapsed()
        self._move(side, lambda: side.replica.begin_alone(base, allocation, now))

    def go_on(self) -> None:
        """Open the sides that an earlier life of this node left."""
        for side in self:
            if side.replica.copy.allocation is not None:
                self._go_on(side)

    def _go_on(self, side: Shard) -> None:
        self._move(side, lambda: side.replica.go_on_alone(self._clock.elapsed()))

    def end(self, side: Shard) -> None:
        """Wipe a side of which all is told."""
        assert side.unreleased is None, side.id
        self._move(side, side.replica.give_up_alone)


class NoReplication:
    """The peers and swap requests of fallback shards, which need neither.

    They have one copy (`rota.node.shards.seams.Peers`), and a configuration that never changes
    (`rota.node.shards.seams.SwapRequests`).
    """

    def send(self, shard: ShardId, messages: Iterable[tuple[NodeId, Message]]) -> None:
        """Check that there is no message."""
        assert not list(messages), shard

    def swap(self, swap: Swap) -> None:
        """Raise `AssertionError`."""
        raise AssertionError(swap)

    def look(self) -> None:
        """Raise `AssertionError`."""
        raise AssertionError("a fallback shard reads no view")


def inward_commands(commands: tuple[DeliveredCommand, ...]) -> tuple[DeliveredCommand, ...]:
    """Return *commands* as a side knows them, if they are of its attempts; else none."""
    return tuple(
        replace(command, attempt=inward(command.attempt))
        for command in commands
        if isinstance(command, FinishAttempt | ReportAttempt) and is_of_fallback(command.attempt)
    )
