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
from rota.core.model.ids import NodeId, Session, ShardId
from rota.core.replication.authority.lease_deadlines import NEVER, deadline, lease_end
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.timeouts import Timing
from rota.core.timing.instants import LATEST_INSTANT, MICROSECOND, Instant, later
from rota.core.vocabulary.shard_configuration import NO_SESSION
from rota.executor.warden.node_link import Right
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
        self._leased_until: dict[ShardId, Instant] = {}
        self._session_ends: dict[Session, Instant] = {}

    @property
    def question_count(self) -> int:
        """Questions whose answers would be taken."""
        return sum(map(len, self._questions.values()))

    def tick(self) -> None:
        """Ask for leases, and end what has none; costs O(attempts on this node)."""
        now = self._clock.elapsed()
        orders = self._by_shard()
        self._note_session()
        self._drop_unused(orders)
        for number, keys in self._keys_by_shard().items():
            shard = self._shards[number]
            if not self._lease(shard, now):
                self._ask(shard, keys)
        rights = [self._right(number, each) for number in orders for each in orders[number]]
        self._allow(dict([*rights, self._side_right()]))
        for number, among in orders.items():
            for order in among:
                if self._deadline(number, order.session) <= now:
                    self._attempts.fence(order.key)

    def right_of(self, order: Order) -> Right:
        """Return until when an attempt may go on that is about to be launched."""
        if is_of_fallback(order.key):
            return self._side_right()
        shard = self._shards.of_id(order.key.execution_id)
        self._note_session()
        self._lease(shard, self._clock.elapsed())
        return self._right(shard.id, order)

    def given(self, shard: Shard, sender: NodeId, lease: GiveLease) -> bool:
        """Take the primary's answer to a question of this node.

        Returns:
            False if this was never asked, of that node: then it gives no lease, and stops nothing.
        """
        if self._questions.get(shard.id, {}).get(lease.sent_at) != sender:
            return False
        until = lease_end(self._timing, lease.sent_at)
        self._leased_until[shard.id] = max(until, self._leased_until.get(shard.id, NEVER))
        for key in lease.stop:
            self._attempts.stop(key)
        return True

    def asked(self, shard: Shard) -> None:
        """Tell the primary which attempts are here, be it none."""
        self._ask(shard, self._keys_by_shard().get(shard.id, []))

    def _note_session(self) -> None:
        # That of a session that is over stays as it was when it was renewed last. One that never
        # is, of a node alone, says nothing of when that is gone.
        if self._liveness.session != NO_SESSION and self._liveness.session_end != LATEST_INSTANT:
            self._session_ends[self._liveness.session] = self._liveness.session_end

    def _lease(self, shard: Shard, now: Instant) -> bool:
        """Give the attempts of a shard a lease, if it is this node's to give."""
        if not shard.is_open or not shard.replica.has_authority(now):
            return False
        # Whoever takes over counts from then, which is after this.
        self._leased_until[shard.id] = lease_end(self._timing, now)
        return True

    def _right(self, shard: ShardId, order: Order) -> Right:
        return Right(f"{shard}/{order.session}", self._deadline(shard, order.session))

    def _side_right(self) -> Right:
        """Return the right of what this node runs as a stand-in: for as long as it is at work."""
        return Right("sides", lease_end(self._timing, self._clock.elapsed()))

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

    def _deadline(self, shard: ShardId, session: Session) -> Instant:
        return deadline(
            self._session_ends.get(session, NEVER), self._leased_until.get(shard, NEVER)
        )

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
        self._session_ends = {each: at for each, at in self._session_ends.items() if each in used}
        self._leased_until = {each: at for each, at in self._leased_until.items() if each in orders}
        since = self._clock.elapsed() - self._timing.attempt_lease
        for shard in [each for each, asked in self._questions.items() if max(asked) < since]:
            del self._questions[shard]  # An answer to them gives no time any more.
