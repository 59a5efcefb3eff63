"""What nodes tell of themselves with the messages that go between them anyway (PROTOCOL R19, R20).

A beacon goes with an entry or a beat, and with the answer to one, once in a beat to each peer
however many shards the two have in common. Who gets a message without one lacks nothing.
"""

from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from rota.core.model.ids import NodeId
from rota.core.replication.authority.clock_skew import ClockSkew
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.messages import Append, Appended, Beacon
from rota.core.timing.instants import Duration, Instant
from rota.node.system.clock import Clock

M = TypeVar("M")


class HealthGossip:
    """The beacons of one node.

    Args:
        clock_skew: Of the others, kept up to date here.
        liveness: Of this node; who is unfit is kept up to date here.
        clock: Both of its times are told.
        every: How often each peer is told.
        lendable: Returns how many places this node has to spare.

    Attributes:
        free: Places that each of the others had to spare when it told last.
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
        """Return *message* with a beacon, if it can have one and it is time for it."""
        if not isinstance(message, Append | Appended):
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
        """Put one on the next message to each peer: there is news."""
        self._sent_at.clear()

    def take_from(self, message: object, sender: NodeId) -> None:
        """Take note of what the sender of *message* tells of itself, if it does."""
        if not isinstance(message, Append | Appended) or message.beacon is None:
            return
        self._clock_skew.record(sender, message.beacon, self._clock.elapsed())
        self.free[sender] = message.beacon.free
        self._liveness.record_peer(
            sender,
            is_fit=message.beacon.is_fit,
            is_prompt=message.beacon.is_prompt,
            is_leaving=message.beacon.is_leaving,
        )
