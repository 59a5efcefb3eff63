"""Leases of this node's attempts, and the end of attempts without a lease (PROTOCOL R37).

An attempt belongs to its shard, whichever node is the shard's primary now. While this node is the
primary, it grants the lease itself; otherwise it requests a lease from the primary, repeatedly.
Attempts whose session and lease have both ended are killed, because their shard may start them
elsewhere soon after.

The warden kills these attempts: it has a deadline for each group of attempts (those of one shard
and session), and kills the group at the deadline, whether this process works, hangs, is stopped or
has ended. Attempts that run in this process are killed by this process, and end with it.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import chain

from rota.core.model.attempt import AttemptKey, Order
from rota.core.model.fallback_ids import is_of_fallback
from rota.core.model.ids import NodeId, ShardId
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.timeouts import Timing
from rota.core.timing.instants import MICROSECOND, Instant, later
from rota.node.attempts.lease_book import LeaseBook
from rota.node.attempts.local_attempts import LocalAttempts
from rota.node.peers.messages import AskLease, GiveLease
from rota.node.peers.network import Network
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Shard
from rota.node.system.clock import Clock

QUESTIONS_MAX = 256
"""The most requests for one shard whose responses are still accepted; from then on, only every
second one is kept."""


class AttemptLeases:
    """The leases of this node's attempts.

    Args:
        attempts: The attempts of this node.
        book: The leases of these attempts.
        shards: The shards of this node.
        network: The network to the other nodes.
        liveness: Has the session of this node.
        timing: The timeouts of the cluster.
        clock: The clock that measures leases.
        incarnation: The incarnation of this node.
        new_until: The end of the time in which a warden of an earlier data directory of this node
            may still run attempts, by `clock.elapsed`.
        allow: Called with the deadline of each group of attempts.

    Attributes:
        asked_at: The elapsed time of the newest request; no two requests have the same time.
    """

    def __init__(
        self,
        attempts: LocalAttempts,
        book: LeaseBook,
        shards: Shards,
        network: Network,
        *,
        liveness: Liveness,
        timing: Timing,
        clock: Clock,
        incarnation: int,
        new_until: Instant,
        allow: Callable[[Mapping[str, Instant]], None] = lambda until: None,
    ) -> None:
        self._attempts = attempts
        self._book = book
        self._shards = shards
        self._network = network
        self._liveness = liveness
        self._timing = timing
        self._clock = clock
        self._incarnation = incarnation
        self._new_until = new_until
        self._allow = allow
        self.asked_at = clock.elapsed()
        self._questions: dict[ShardId, dict[Instant, NodeId]] = defaultdict(dict)
        """For each shard, the receiver of each request for a lease by its time, oldest first."""

    @property
    def question_count(self) -> int:
        """The number of requests whose responses would be accepted."""
        return sum(map(len, self._questions.values()))

    def tick(self) -> None:
        """Request leases, and kill attempts without a lease, in O(attempts on this node)."""
        now = self._clock.elapsed()
        orders = self._by_shard()
        self._book.note_session()
        self._drop_unused(orders)
        for number, keys in self._keys_by_shard().items():
            shard = self._shards[number]
            if not self._book.grant(shard, now):
                self._ask(shard, keys)
        rights = [self._book.right(number, each) for number in orders for each in orders[number]]
        self._allow(dict([*rights, self._book.fallback_right()]))
        for number, among in orders.items():
            for order in among:
                if self._book.deadline(number, order.session) <= now:
                    self._attempts.fence(order.key)

    def given(self, shard: Shard, sender: NodeId, lease: GiveLease) -> bool:
        """Handle the primary's response to a request of this node.

        Returns:
            False if no such request was sent to *sender*; then the response gives no lease and
            stops no attempt.
        """
        if self._questions.get(shard.id, {}).get(lease.sent_at) != sender:
            return False
        self._book.extend(shard.id, lease.sent_at)
        for key in lease.stop:
            self._attempts.stop(key)
        return True

    def asked(self, shard: Shard) -> None:
        """Send the primary the list of the attempts on this node, even if it is empty."""
        self._ask(shard, self._keys_by_shard().get(shard.id, []))

    def _ask(self, shard: Shard, keys: list[AttemptKey]) -> None:
        newest = shard.replica.newest
        if newest is not None and newest.primary != self._liveness.node_id:
            self.asked_at = max(self._clock.elapsed(), later(self.asked_at, MICROSECOND))
            self._note_question(shard.id, newest.primary)
            ask = AskLease(
                incarnation=self._incarnation,
                epoch=newest.epoch,
                attempts=tuple(keys),
                sent_at=self.asked_at,
                only_of=self._liveness.session if self._is_new else None,
            )
            self._network.send(newest.primary, shard.id, ask)

    @property
    def _is_new(self) -> bool:
        return self._clock.elapsed() < self._new_until

    def _note_question(self, shard: ShardId, node_id: NodeId) -> None:
        questions = self._questions[shard]
        if len(questions) >= QUESTIONS_MAX:
            questions = self._questions[shard] = self._thinned(questions)
        questions[self.asked_at] = node_id

    def _thinned(self, questions: dict[Instant, NodeId]) -> dict[Instant, NodeId]:
        """Return at most half of *questions*, evenly spread over those that can still give a lease.

        If the oldest requests were dropped, then with more requests than the limit within one round
        trip no response would count. If the newest were dropped, no response would count after a
        link lost all earlier requests.
        """
        since = self._clock.elapsed() - self._timing.attempt_lease
        useful = [(at, node_id) for at, node_id in questions.items() if at >= since]
        return dict(useful[::2] if len(useful) > QUESTIONS_MAX // 2 else useful)

    def _by_shard(self) -> dict[ShardId, list[Order]]:
        orders: dict[ShardId, list[Order]] = defaultdict(list)
        for order in self._attempts.orders.values():
            if is_of_fallback(order.key):
                continue
            orders[self._shards.of_id(order.key.execution_id).id].append(order)
        return orders

    def _keys_by_shard(self) -> dict[ShardId, list[AttemptKey]]:
        """Return, by shard, the attempts that run here or that begin when they are confirmed."""
        keys: dict[ShardId, list[AttemptKey]] = defaultdict(list)
        for key in chain(self._attempts.orders, self._attempts.offered):
            if is_of_fallback(key):
                continue
            keys[self._shards.of_id(key.execution_id).id].append(key)
        return keys

    def _drop_unused(self, orders: dict[ShardId, list[Order]]) -> None:
        used = {order.session for among in orders.values() for order in among}
        used.add(self._liveness.session)
        self._book.keep(used, orders)
        since = self._clock.elapsed() - self._timing.attempt_lease
        for shard in [each for each, asked in self._questions.items() if max(asked) < since]:
            del self._questions[shard]  # Responses to these requests would give no lease any more.
