"""Leases of this node's attempts, which give each group of attempts a deadline (PROTOCOL R37).

The attempts of one shard that were started under one session are a group, with one deadline. While
this node is the shard's primary, it grants the lease itself.
"""

from collections.abc import Collection

from rota.core.model.attempt import Order
from rota.core.model.fallback_ids import is_of_fallback
from rota.core.model.ids import Session, ShardId
from rota.core.replication.authority.lease_deadlines import NEVER, deadline, lease_end
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.timeouts import Timing
from rota.core.timing.instants import LATEST_INSTANT, Instant
from rota.core.vocabulary.shard_configuration import NO_SESSION
from rota.executor.warden.proxies import Right
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Shard
from rota.node.system.clock import Clock


class LeaseBook:
    """The leases of this node's attempts.

    Args:
        shards: The shards of this node.
        liveness: Has the session of this node.
        timing: The timeouts of the cluster.
        clock: The clock that measures leases.
    """

    def __init__(self, shards: Shards, liveness: Liveness, *, timing: Timing, clock: Clock) -> None:
        self._shards = shards
        self._liveness = liveness
        self._timing = timing
        self._clock = clock
        self._leased_until: dict[ShardId, Instant] = {}
        self._session_ends: dict[Session, Instant] = {}

    def right_of(self, order: Order) -> Right:
        """Return the group and the deadline of an attempt that is about to be launched."""
        if is_of_fallback(order.key):
            return self.fallback_right()
        shard = self._shards.of_id(order.key.execution_id)
        self.note_session()
        self.grant(shard, self._clock.elapsed())
        return self.right(shard.id, order)

    def right(self, shard: ShardId, order: Order) -> Right:
        """Return the group and the deadline of an attempt of *shard*, from the present leases."""
        return Right(f"{shard}/{order.session}", self.deadline(shard, order.session))

    def fallback_right(self) -> Right:
        """Return the group and the deadline of attempts of fallback shards.

        While this process runs, these attempts always have a lease that begins now.
        """
        return Right("sides", lease_end(self._timing, self._clock.elapsed()))

    def grant(self, shard: Shard, now: Instant) -> bool:
        """Grant a lease to the attempts of a shard, if this node has authority for the shard.

        Returns:
            False if another node has to grant the lease.
        """
        if not shard.is_open or not shard.replica.has_authority(now):
            return False
        # A node that takes over counts leases from its takeover, which is later than now.
        self._leased_until[shard.id] = lease_end(self._timing, now)
        return True

    def extend(self, shard: ShardId, sent_at: Instant) -> None:
        """Record a lease that a primary granted in response to a request sent at *sent_at*."""
        until = lease_end(self._timing, sent_at)
        self._leased_until[shard] = max(until, self._leased_until.get(shard, NEVER))

    def deadline(self, shard: ShardId, session: Session) -> Instant:
        """Return the deadline of the attempts of *shard* that were started under *session*."""
        return deadline(
            self._session_ends.get(session, NEVER), self._leased_until.get(shard, NEVER)
        )

    def note_session(self) -> None:
        """Record the end of the present session."""
        # The end of an earlier session stays as it was at its last renewal. The session of a single
        # node has no end, so it gives no deadline.
        if self._liveness.session != NO_SESSION and self._liveness.session_end != LATEST_INSTANT:
            self._session_ends[self._liveness.session] = self._liveness.session_end

    def keep(self, used: Collection[Session], shards: Collection[ShardId]) -> None:
        """Drop sessions other than *used*, and leases of other shards than *shards*."""
        self._session_ends = {each: at for each, at in self._session_ends.items() if each in used}
        self._leased_until = {each: at for each, at in self._leased_until.items() if each in shards}
