"""Attempts sent to this node by the primaries of their shards.

An attempt does not begin when it arrives: the message may be late or a repetition, and the attempt
may have ended or been declared lost long ago. The attempt takes a slot, and this node requests a
lease that names the attempt from the shard's present primary. The attempt begins with the response
to a request that was sent after its arrival. Thus a request has named each attempt to the primary
before it begins, and the primary may declare lost an attempt that no request has named, and start
it elsewhere: the response to a later request stops the attempt. An attempt whose start is recorded
under another session of this node is ignored, because it may have been declared lost together with
the process of that session.

    primary                         node of the attempt
      Dispatch  ----------------------->      the attempt takes a slot
                <----------------------- AskLease    naming the attempt
      GiveLease ----------------------->      the attempt begins; or is dropped, if it is to stop
"""

import asyncio
from dataclasses import dataclass

from rota.core.model.attempt import AttemptKey, Order
from rota.core.model.ids import NodeId
from rota.core.replication.authority.lease_deadlines import lease_end
from rota.core.replication.timeouts import Timing
from rota.core.timing.instants import Instant
from rota.node.attempts.attempt_leases import AttemptLeases
from rota.node.attempts.local_attempts import LocalAttempts
from rota.node.attempts.slot_lending import SlotLending
from rota.node.cluster.membership import Membership
from rota.node.peers.messages import Dispatch, GiveLease
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Shard
from rota.node.system.clock import Clock


@dataclass(frozen=True, slots=True)
class _Offer:
    """An attempt that waits to be confirmed.

    Attributes:
        order: The order to run the attempt.
        came_at: The elapsed time at which the attempt arrived.
        came_after: The time of the newest request for leases sent before the attempt arrived.
    """

    order: Order
    came_at: Instant
    came_after: Instant


class InboundAttempts:
    """The attempts that were sent to this node and have not begun.

    Each of them has a slot, so there are at most as many as this node has slots.

    Args:
        attempts: The attempts of this node.
        lending: The slots of this node.
        leases: Requests leases.
        shards: The shards of this node.
        membership: Has the present session of this node.
        timing: The timeouts of the cluster.
        clock: The clock that measures leases.
    """

    def __init__(
        self,
        attempts: LocalAttempts,
        lending: SlotLending,
        leases: AttemptLeases,
        shards: Shards,
        membership: Membership,
        *,
        timing: Timing,
        clock: Clock,
    ) -> None:
        self._attempts = attempts
        self._lending = lending
        self._leases = leases
        self._shards = shards
        self._membership = membership
        self._timing = timing
        self._clock = clock
        self._offers: dict[AttemptKey, _Offer] = {}
        self._to_ask: dict[Shard, None] = {}

    def came(self, shard: Shard, sender: NodeId, dispatch: Dispatch) -> None:
        """Accept an attempt from a primary, if there is a slot for it."""
        key = dispatch.order.key
        if key in self._offers or key in self._attempts.orders:
            return
        if dispatch.order.session != self._membership.session:
            return
        # If this node is the primary itself, an earlier primary sent the attempt.
        if shard.is_open or not self._lending.claim(sender):
            return
        self._offers[key] = _Offer(dispatch.order, self._clock.elapsed(), self._leases.asked_at)
        self._attempts.offered.add(key)
        if not self._to_ask:
            asyncio.get_running_loop().call_soon(self._ask_for_all)
        self._to_ask[shard] = None

    def _ask_for_all(self) -> None:
        """Request one lease for each shard, for all its attempts that came in one frame."""
        to_ask, self._to_ask = self._to_ask, {}
        for shard in to_ask:
            self._leases.asked(shard)

    def given(self, shard: Shard, lease: GiveLease) -> None:
        """Begin the attempts that are confirmed, and drop those that are to be stopped."""
        now = self._clock.elapsed()
        stop = frozenset(lease.stop)
        for key, offer in self._of(shard):
            if key in stop:
                self._drop(key)
            elif offer.came_after < lease.sent_at and now < lease_end(self._timing, lease.sent_at):
                self._forget(key)
                self._attempts.launch(offer.order)

    def opened(self, shard: Shard) -> None:
        """Drop the attempts of a shard whose primary this node has become."""
        for key, _ in self._of(shard):
            self._drop(key)

    def tick(self) -> None:
        """Drop attempts that were not confirmed within the duration of a lease."""
        now = self._clock.elapsed()
        for key, offer in list(self._offers.items()):
            if now - offer.came_at > self._timing.attempt_lease:
                self._drop(key)

    def _of(self, shard: Shard) -> list[tuple[AttemptKey, _Offer]]:
        of_id = self._shards.of_id
        return [each for each in self._offers.items() if of_id(each[0].execution_id) is shard]

    def _forget(self, key: AttemptKey) -> None:
        del self._offers[key]
        self._attempts.offered.discard(key)

    def _drop(self, key: AttemptKey) -> None:
        self._forget(key)
        self._lending.freed()
