"""The attempts of the shards opened here that run on other nodes.

An earlier primary started these attempts, or this node sent them because it had no free slot. They
stay on their nodes. Their nodes request leases; the responses name the attempts to be stopped, and
an attempt that a request does not name does not run on that node. An attempt is lost (PROTOCOL
R36), and its task starts again, when

    a  its node reports that the attempt does not run there: the node lost the role of primary
       between the commit of the start and the launch, or its warden does not hold the attempt. A
       warden that ends kills all attempts that it holds (`rota.executor.warden`), and the attempts
       in a node's process end with that process. A node with a new data directory, and so with a
       new warden, reports nothing about earlier sessions until their leases have ended;
    b  its session has ended, and all leases that the attempt can have are over
       (`rota.core.replication.authority.lease_deadlines`);
    c  the attempt was sent, and its node has not named it: the attempt begins only when this node
       has granted a lease that names it (`rota.node.attempts.inbound_attempts`), which this node
       never does after the loss;
    d  the process that was to run the attempt has ended, and the warden, which reports that, does
       not hold the attempt (`rota.node.peers.death_proof`).

A new session of a node proves none of these conditions: the process of the node may be the same,
after a disconnection.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from rota.core.model.attempt import Attempt, AttemptKey, Ending, Order, Outcome
from rota.core.model.execution import TaskStatus
from rota.core.model.ids import Epoch, NodeId, Session
from rota.core.replication.authority.lease_deadlines import NEVER, is_lost
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.timeouts import Timing
from rota.core.state.shard_state import State
from rota.core.timing.instants import SECOND, Duration, Instant
from rota.core.vocabulary.commands import FinishAttempt, LoseSession
from rota.node.attempts.local_attempts import LocalAttempts
from rota.node.peers.death_proof import Left
from rota.node.peers.messages import AskLease, AskList, Dispatch, GiveLease
from rota.node.peers.network import Network
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Shard
from rota.node.system.clock import Clock

log = logging.getLogger(__name__)

SENT_MAX = Duration(2 * SECOND)
"""The time for which an attempt is sent to a node that does not name it; then it counts as lost."""

LIVES_MAX = 64
"""The number of ended lives that are kept for shards that this node opens later."""

Life = tuple[NodeId, Session]
_Running = dict[AttemptKey, Attempt]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request of a node.

    Attributes:
        store_id: The id of the node's data directory.
        incarnation: The incarnation of the node.
        sent_at: The time of the request by the node's clock.
    """

    store_id: str
    incarnation: int
    sent_at: Instant

    def is_after(self, other: "_Asked | None") -> bool:
        """Return True unless the node sent *other* later or at the same time.

        Incarnations are numbered in the data directory; in a new directory, the numbers begin at
        the time of the node's wall clock.
        """
        if other is None or other.store_id != self.store_id:
            return True
        return (self.incarnation, self.sent_at) > (other.incarnation, other.sent_at)


@dataclass(frozen=True, slots=True)
class _Sent:
    """An attempt that was sent and that its node has not named yet."""

    order: Order
    since: Instant


@dataclass(slots=True)
class _Away:
    """The attempts of one shard that run on other nodes.

    Attributes:
        opened_at: The elapsed time at which this node opened the shard.
        epoch: The epoch at that time. A node that has seen this or a later epoch starts no further
            attempts as an earlier primary.
        running: The attempts that are recorded as started on other nodes.
        sent: The running attempts that were sent and are not named yet.
        to_stop: The running attempts that are to be stopped.
        given_at: The elapsed time at which each node was last granted a lease.
        newest_asked: The newest request of each node.
    """

    opened_at: Instant
    epoch: Epoch
    running: _Running
    sent: dict[AttemptKey, _Sent] = field(default_factory=dict[AttemptKey, _Sent])
    to_stop: set[AttemptKey] = field(default_factory=set[AttemptKey])
    given_at: dict[NodeId, Instant] = field(default_factory=dict[NodeId, Instant])
    newest_asked: dict[NodeId, _Asked] = field(default_factory=dict[NodeId, _Asked])

    def settled_on(self, node_id: NodeId) -> _Running:
        """Return the attempts that run on a node or wait there to be confirmed."""
        return {
            key: attempt
            for key, attempt in self.running.items()
            if attempt.node_id == node_id and key not in self.sent
        }

    def lives(self) -> list[Life]:
        """Return the lives in which the attempts were started, each once and in order."""
        return sorted({_life(attempt) for attempt in self.running.values()})

    def drop(self, keys: Iterable[AttemptKey]) -> None:
        """Remove attempts that have ended, or are about to be recorded as lost."""
        for key in keys:
            del self.running[key]
            self.sent.pop(key, None)
            self.to_stop.discard(key)


class OutboundAttempts:
    """The attempts of this node's shards that run on other nodes.

    Args:
        attempts: The attempts of this node.
        shards: The shards of this node.
        network: The network to the other nodes.
        liveness: Has the session of this node, and the view of which sessions have ended.
        timing: The timeouts of the cluster.
        clock: The clock that measures leases.
        store_of: Returns the id of a node's data directory, from its member record.
        new_until: The end of the time in which a warden of an earlier data directory of this node
            may still run attempts, by `clock.elapsed`.
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
        store_of: Callable[[NodeId], str],
        new_until: Instant,
    ) -> None:
        self._attempts = attempts
        self._shards = shards
        self._network = network
        self._liveness = liveness
        self._timing = timing
        self._clock = clock
        self._store_of = store_of
        self._new_until = new_until
        self._away: dict[Shard, _Away] = {}
        self._left: dict[Life, Left] = {}
        """The attempts that wardens hold of the last `LIVES_MAX` ended lives."""
        self._gone_since: dict[Life, Instant] = {}

    # -- shards come and go ---------------------------------------------------------------------

    def opened(self, shard: Shard) -> None:
        """Track the attempts of a shard; record as lost those of this node that do not run."""
        here: dict[Session, _Running] = defaultdict(dict)
        running: _Running = {}
        for key, attempt in _running(shard.state):
            if attempt.node_id == self._liveness.node_id and self._has_list(attempt.session):
                here[attempt.session][key] = attempt
            else:
                running[key] = attempt
        self._away[shard] = _Away(self._clock.elapsed(), shard.epoch, running)
        for session, mine in here.items():
            self._lose_absent(shard, session, mine)
        self._lose_unbegun(shard)

    def closed(self, shard: Shard) -> None:
        """Leave the attempts of a shard to its next primary."""
        self._away.pop(shard, None)

    def saw_death(self, node_id: NodeId, session: Session, left: Left) -> None:
        """Record which attempts of an ended life its warden holds, also for shards opened later."""
        while len(self._left) >= LIVES_MAX:
            del self._left[next(iter(self._left))]
        self._left[node_id, session] = left
        now = self._clock.elapsed()
        for shard in self._away:
            if shard.replica.has_authority(now):
                self._lose_unbegun(shard)

    def _lose_unbegun(self, shard: Shard) -> None:
        """Record as lost the attempts of ended lives that the wardens do not hold."""
        running = self._away[shard].running
        unbegun = {
            key: attempt
            for key, attempt in running.items()
            if key not in self._left.get(_life(attempt), running)
        }
        self._lose(shard, unbegun)

    def _has_list(self, session: Session) -> bool:
        """Return True if this node has the list of the attempts of its own *session* that run."""
        return session == self._liveness.session or self._clock.elapsed() >= self._new_until

    def _lose_absent(self, shard: Shard, session: Session, mine: _Running) -> None:
        absent = _absent(mine, self._attempts.orders)
        if session != self._liveness.session and len(absent) == len(mine):
            # These are all attempts of the session of an earlier process, which has ended.
            command = LoseSession(node_id=self._liveness.node_id, session=session)
            self._shards.submit(shard, command)
        else:
            self._lose(shard, absent)

    # -- what goes there ------------------------------------------------------------------------

    def launch(self, shard: Shard, order: Order, node_id: NodeId) -> None:
        """Send an attempt to another node."""
        attempt = _attempt(shard.state, order.key)
        if attempt is not None:  # Otherwise the attempt has ended or was lost.
            away = self._away[shard]
            away.running[order.key] = attempt
            away.sent[order.key] = _Sent(order, self._clock.elapsed())
            self._network.send(node_id, shard.id, Dispatch(order=order))

    # -- what comes in --------------------------------------------------------------------------

    def stop(self, shard: Shard, key: AttemptKey) -> None:
        """Stop an attempt on its node; each response to the node names it until it has ended."""
        away = self._away[shard]
        attempt = away.running.get(key)
        if attempt is not None:
            away.to_stop.add(key)
            self._network.send(attempt.node_id, shard.id, AskList())

    def asked(self, shard: Shard, sender: NodeId, ask: AskLease) -> None:
        """Grant a lease, and record as lost the attempts that the request does not name."""
        away, now = self._away.get(shard), self._clock.elapsed()
        if away is None or not shard.replica.has_authority(now):
            return
        away.given_at[sender] = now
        for key in ask.attempts:
            away.sent.pop(key, None)
        # An older request may lack an attempt that arrived later and that a newer request names.
        asked = _Asked(self._store_of(sender), ask.incarnation, ask.sent_at)
        if asked.is_after(away.newest_asked.get(sender)) and ask.epoch >= away.epoch:
            away.newest_asked[sender] = asked
            settled = away.settled_on(sender)
            if ask.only_of is not None:
                settled = {key: one for key, one in settled.items() if one.session == ask.only_of}
            self._lose(shard, _absent(settled, frozenset(ask.attempts)))
        # An attempt that is not recorded as running was lost, or has ended but its node has no
        # receipt for the outcome yet; stopping it is harmless.
        kept = away.running.keys() - away.to_stop
        stop = tuple(
            key for key in ask.attempts if key not in kept or _attempt(shard.state, key) is None
        )
        self._network.send(sender, shard.id, GiveLease(stop=stop, sent_at=ask.sent_at))

    # -- time -----------------------------------------------------------------------------------

    def tick(self) -> None:
        """Query nodes that sent no recent request; record attempts that cannot run as lost."""
        now = self._clock.elapsed()
        for shard, away in self._away.items():
            away.drop([key for key in away.running if _attempt(shard.state, key) is None])
        lives = {life for away in self._away.values() for life in away.lives()}
        gone = [life for life in lives if self._liveness.is_gone(*life)]
        self._gone_since = {life: self._gone_since.get(life, now) for life in gone}
        for shard, away in self._away.items():
            if away.running and shard.replica.has_authority(now):
                self._lose_unbegun(shard)
                self._send_again(shard, away, now)
                self._check_lives(shard, away, now)

    def _send_again(self, shard: Shard, away: _Away, now: Instant) -> None:
        """Send attempts that are not named yet again, or record them as lost."""
        refused: _Running = {}
        for key, sent in away.sent.items():
            attempt = away.running[key]
            if self._liveness.is_gone(*_life(attempt)) or now - sent.since > SENT_MAX:
                refused[key] = attempt
            else:
                self._network.send(attempt.node_id, shard.id, Dispatch(order=sent.order))
        self._lose(shard, refused)

    def _check_lives(self, shard: Shard, away: _Away, now: Instant) -> None:
        for life in away.lives():
            node_id, session = life
            given_at = away.given_at.get(node_id, NEVER)
            if is_lost(
                self._timing,
                gone_since=self._gone_since.get(life),
                given_at=given_at,
                opened_at=away.opened_at,
                now=now,
            ):
                log.warning("attempts lost", extra={"node": node_id, "shard": shard.id})
                away.drop([key for key, one in away.running.items() if _life(one) == life])
                self._shards.submit(shard, LoseSession(node_id=node_id, session=session))
            elif node_id == self._liveness.node_id:
                continue  # An earlier data directory of this node cannot be queried.
            elif now - given_at > self._timing.attempt_lease // 4:
                self._network.send(node_id, shard.id, AskList())

    def _lose(self, shard: Shard, absent: _Running) -> None:
        """Record attempts that their node does not run or has not accepted as lost."""
        now = shard.time(self._clock)
        self._away[shard].drop(key for key in absent if key in self._away[shard].running)
        for key, attempt in absent.items():
            ending = Ending(
                outcome=Outcome.LOST,
                started_at=attempt.placed_at,
                finished_at=now,
                reason=f"node {attempt.node_id} does not run the attempt",
            )
            command = FinishAttempt(attempt=key, token=attempt.token, ending=ending)
            self._shards.submit(shard, command)


def _life(attempt: Attempt) -> Life:
    return attempt.node_id, attempt.session


def _absent(running: _Running, there: Collection[AttemptKey]) -> _Running:
    return {key: attempt for key, attempt in running.items() if key not in there}


def _running(state: State) -> Iterator[tuple[AttemptKey, Attempt]]:
    for execution_id, tasks in state.tasks.items():
        for task in tasks.values():
            if task.status is TaskStatus.RUNNING:
                attempt = task.attempts[-1]
                yield AttemptKey(execution_id, task.name, attempt.number), attempt


def _attempt(state: State, key: AttemptKey) -> Attempt | None:
    """Return an attempt if it is recorded as running; otherwise None."""
    task = state.tasks.get(key.execution_id, {}).get(key.task)
    if task is None or task.status is not TaskStatus.RUNNING:
        return None
    return task.attempts[-1] if task.attempts[-1].number == key.number else None
