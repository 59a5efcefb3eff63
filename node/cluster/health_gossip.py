"""Health reports of nodes, attached to messages of replicas (PROTOCOL R19, R20).

A beacon is attached to an entry, a beat or an answer to one of them. Each peer gets at most one
beacon per beat, however many shards the two nodes have in common. A message without a beacon is
complete.
"""

from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from rota.core.model.ids import NodeId
from rota.core.replication.authority.clock_skew import ClockSkew
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.messages import (
    Append,
    Appended,
    Beacon,
    QuietBeat,
    QuietResponse,
)
from rota.core.timing.instants import Duration, Instant
from rota.node.system.clock import Clock

M = TypeVar("M")
_CARRIERS = Append, Appended, QuietBeat, QuietResponse
"""The messages to which a beacon may be attached."""


class HealthGossip:
    """The beacons of one node.

    Args:
        clock_skew: Updated with the clocks in received beacons.
        liveness: Updated with the health in received beacons.
        clock: The clock of this node, whose wall-clock time and elapsed time are sent.
        every: The least time between two beacons to one peer.
        lendable: Returns the number of slots that this node can lend.

    Attributes:
        free: The number of slots that each other node could lend, by its last beacon.
    """

    def __init__(
        self,
        clock_skew: ClockSkew,
        liveness: Liveness,
        clock: Clock,
        *,
        every: Duration,
        lendable: Callable[[], int],
    ) -> None:
        self._clock_skew = clock_skew
        self._liveness = liveness
        self._clock = clock
        self._every = every
        self._lendable = lendable
        self.free: dict[NodeId, int] = {}
        self._sent_at: dict[NodeId, Instant] = {}

    def put_on(self, message: M, receiver: NodeId) -> M:
        """Return *message* with a beacon, if its type allows one and one is due."""
        if not isinstance(message, _CARRIERS):
            return message
        now = self._clock.elapsed()
        sent_at = self._sent_at.get(receiver)
        if sent_at is not None and now - sent_at < self._every:
            return message
        self._sent_at[receiver] = now
        beacon = Beacon(
            wall=self._clock.now(),
            at=now,
            echo=self._clock_skew.echo(receiver, now),
            is_fit=self._liveness.is_fit,
            is_prompt=self._liveness.is_prompt,
            is_leaving=self._liveness.is_leaving,
            free=self._lendable(),
        )
        return replace(message, beacon=beacon)

    def hurry(self) -> None:
        """Attach a beacon to the next message to each peer, however recent the last beacon is."""
        self._sent_at.clear()

    def take_from(self, message: object, sender: NodeId) -> None:
        """Record the beacon of *message*, if it has one."""
        if not isinstance(message, _CARRIERS) or message.beacon is None:
            return
        self._clock_skew.record(sender, message.beacon, self._clock.elapsed())
        self.free[sender] = message.beacon.free
        self._liveness.record_peer(
            sender,
            is_fit=message.beacon.is_fit,
            is_prompt=message.beacon.is_prompt,
            is_leaving=message.beacon.is_leaving,
        )
