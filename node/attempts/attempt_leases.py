"""The right of this node's attempts to go on, and their end when it is over (PROTOCOL R37).

An attempt belongs to its shard, wherever that has gone since. While this node is the primary it
gives itself a lease; else it asks whoever is, again and again. Attempts whose session is over, and
whose lease has run out, are killed: their shard may start them elsewhere a little later.

It is the warden that kills: it is told until when each group of attempts may go on, those of one
shard and session, and ends them then, be this process at work, hung, stopped or gone. What runs in
this process is killed by it, and ends with it.
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
"""Questions of one shard whose answers are still taken; beyond that, every second one's."""


class AttemptLeases:
    """The leases of this node's attempts.

    Args:
        attempts: Of this node.
        book: Their leases.
        shards: Of this node.
        network: To those who may be primaries.
        liveness: Of this node.
        timing: The cluster's.
        clock: By which leases run.
        incarnation: Of this node.
        new_until: Until then a warden of an earlier data directory of this node may run attempts.
        allow: Told of all groups, and until when each may go on.
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
        """When the newest question was asked; no two are asked at the same instant."""
        self._questions: dict[ShardId, dict[Instant, NodeId]] = defaultdict(dict)
        """Who was asked for a lease, by when; oldest first."""

    @property
    def question_count(self) -> int:
        """Questions whose answers would be taken."""
        return sum(map(len, self._questions.values()))

    def tick(self) -> None:
        """Ask for leases, and end what has none; costs O(attempts on this node)."""
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
        """Take the primary's answer to a question of this node.

        Returns:
            False if this was never asked, of that node: then it gives no lease, and stops nothing.
        """
        if self._questions.get(shard.id, {}).get(lease.sent_at) != sender:
            return False
        self._book.extend(shard.id, lease.sent_at)
        for key in lease.stop:
            self._attempts.stop(key)
        return True

    def asked(self, shard: Shard) -> None:
        """Tell the primary which attempts are here, be it none."""
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
        """Return at most half of *questions*, evenly spread over those whose answers give time.

        Were the oldest dropped, more questions than the limit within one round trip would leave
        none whose answer counts; were the newest, none would count after a link that lost them all.
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
        """Return what runs here, or is to once it is confirmed."""
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
            del self._questions[shard]  # An answer to them gives no time any more.
