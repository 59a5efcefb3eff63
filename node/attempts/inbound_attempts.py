"""Attempts that primaries elsewhere want run here.

An attempt that arrives does not begin: the message may be late, or come twice, when the attempt has
long ended or was given up as lost. It takes a place and waits while its shard's primary, whoever
that is by now, is asked for a lease that names it; and begins with an answer to a question that was
asked after it came. So a primary knows of every attempt before it begins, and one that it has not
heard of it may give up at once and start elsewhere: it will say so when it is asked. One whose
start is recorded under another session of this node is not taken at all: it may have been given up
with the process that had it.

    primary                         runs attempts
      Dispatch  ----------------------->      a place is taken
                <----------------------- AskLease    naming it
      GiveLease ----------------------->      it begins; or is forgotten, where that says stop
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
        came_at: By this node's clock.
        came_after: The newest question for leases when it came: that did not name it.
    """

    order: Order
    came_at: Instant
    came_after: Instant


class InboundAttempts:
    """The attempts that were sent to this node and have not begun.

    Each has a place, so there are at most as many as this node has slots.

    Args:
        attempts: Of this node.
        lending: Its places.
        leases: Asks for leases.
        shards: Of this node.
        membership: Its present session.
        timing: The cluster's.
        clock: By which leases run.
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
        """Take an attempt that a primary sends, if there is a place for it."""
        key = dispatch.order.key
        if key in self._offers or key in self._attempts.orders:
            return
        if dispatch.order.session != self._membership.session:
            return
        # Who decides for the shard itself knows better than whoever did when that was sent.
        if shard.is_open or not self._lending.claim(sender):
            return
        self._offers[key] = _Offer(dispatch.order, self._clock.elapsed(), self._leases.asked_at)
        self._attempts.offered.add(key)
        if not self._to_ask:
            asyncio.get_running_loop().call_soon(self._ask_for_all)
        self._to_ask[shard] = None

    def _ask_for_all(self) -> None:
        """Ask once for all that came in one frame."""
        to_ask, self._to_ask = self._to_ask, {}
        for shard in to_ask:
            self._leases.asked(shard)

    def given(self, shard: Shard, lease: GiveLease) -> None:
        """Begin what is confirmed, and forget what is to be stopped."""
        now = self._clock.elapsed()
        stop = frozenset(lease.stop)
        for key, offer in self._of(shard):
            if key in stop:
                self._drop(key)
            elif offer.came_after < lease.sent_at and now < lease_end(self._timing, lease.sent_at):
                self._forget(key)
                self._attempts.launch(offer.order)

    def opened(self, shard: Shard) -> None:
        """Forget what was sent for a shard that this node decides for itself now."""
        for key, _ in self._of(shard):
            self._drop(key)

    def tick(self) -> None:
        """Forget what nobody has confirmed for as long as a lease lasts."""
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
