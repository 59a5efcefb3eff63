"""Heartbeats between two nodes for all quiet shards that they have in common (PROTOCOL R44).

A shard is quiet towards a backup if the backup has all entries, all of them are committed, and none
came for a while. Its primary then sends no heartbeats of its own: one `QuietBeat` for each pair of
nodes lists all copies of this kind, and one `QuietResponse` gives the leases of all of them. The
meaning is that of as many heartbeats and answers; only the number of messages is smaller.

    tick of the primary     `begin`, for each backup that is up to date
    a beat is due           `tick` sends a `QuietBeat`
    the other node          `receive` asks each replica whether the description fits (`Follower`)
    the response            `receive_response` records leases; refused copies are woken
    a message of the shard  `end`: from then on it has heartbeats of its own

Heartbeats that are not answered wake all shards towards that node, whose silence is then judged
shard by shard, from the last response that counts for the copy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from rota.core.model.ids import NodeId, Session, ShardId
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.messages import QuietBeat, QuietCopy, QuietMessage, QuietResponse
from rota.core.replication.peer_copy import NEVER, PeerCopy
from rota.core.replication.timeouts import Timing
from rota.core.timing.instants import Instant
from rota.core.vocabulary.shard_configuration import NO_SESSION

UNANSWERED_MAX = 8
"""The number of heartbeats to a node whose responses are awaited, of the last 3 s; the lease of an
older heartbeat has ended."""
QUIET_BEATS = 2
"""The time without entries after which a shard is quiet, in beats."""


class Follower(Protocol):
    """The replica of a shard on the node that receives heartbeats."""

    def follow_quietly(
        self, copy: QuietCopy, primary: NodeId, session: Session, now: Instant
    ) -> bool:
        """Grant *primary* a lease if *copy* describes this node's copy; return True if it does."""
        ...


@dataclass(slots=True)
class _Quiet:
    """A quiet shard, towards one node: the copy there, and the first heartbeat that lists it."""

    copy: QuietCopy
    peer: PeerCopy
    since: int


class _Sent(NamedTuple):
    """When a heartbeat was sent, and under which session."""

    at: Instant
    session: Session


@dataclass(slots=True)
class _Pair:
    """The heartbeats to one node.

    Attributes:
        sent_at: When the last heartbeat was sent.
        heard_at: When the last response arrived, or, if that was later, the first shard was quiet.
        quiet: The quiet shards.
        unheard: Those of them for which no response has counted yet.
        unanswered: Each heartbeat without a response, by number.
    """

    heard_at: Instant
    sent_at: Instant = NEVER
    quiet: dict[ShardId, _Quiet] = field(default_factory=dict[ShardId, _Quiet])
    unheard: dict[ShardId, _Quiet] = field(default_factory=dict[ShardId, _Quiet])
    unanswered: dict[int, _Sent] = field(default_factory=dict[int, _Sent])

    def silent(self, since: Instant) -> tuple[_Quiet, ...]:
        """Return the quiet shards whose copies have not answered since *since*."""
        if self.heard_at < since:
            return tuple(self.quiet.values())
        return tuple(each for each in self.unheard.values() if each.peer.is_silent(since))


class QuietBeats:
    """The heartbeats of one node for quiet shards, and its responses to those of others.

    Args:
        liveness: The node's view of itself; updated by the node.
        timing: The durations of the cluster.

    Attributes:
        outbox: Messages to be sent to other nodes.
        woken: Shards that have heartbeats of their own again, and need ticks.
        previous_tick_at: When the tick before the last one was.
    """

    def __init__(self, liveness: Liveness, timing: Timing) -> None:
        self.outbox: list[tuple[NodeId, QuietMessage]] = []
        self.woken: set[ShardId] = set()
        self.previous_tick_at = NEVER
        self._ticked_at = NEVER
        self._liveness = liveness
        self._timing = timing
        self._followers: dict[ShardId, Follower] = {}
        self._pairs: dict[NodeId, _Pair] = {}
        self._number = 0

    def add(self, shard: ShardId, follower: Follower) -> None:
        """Add the replica of a shard on this node."""
        self._followers[shard] = follower

    # -- the primary's side -----------------------------------------------------------------------

    def begin(self, node_id: NodeId, peer: PeerCopy, copy: QuietCopy, now: Instant) -> None:
        """List *copy*, of which *peer* is the record, in the heartbeats to its node."""
        pair = self._pairs.setdefault(node_id, _Pair(heard_at=now))
        if not pair.quiet:
            pair.heard_at = now
        peer.quiet = copy
        quiet = _Quiet(copy, peer, self._number + 1)
        pair.quiet[copy.shard] = pair.unheard[copy.shard] = quiet

    def end(self, node_id: NodeId, peer: PeerCopy) -> None:
        """Remove the copy of *peer* from the heartbeats; nothing happens if it is not listed."""
        copy, peer.quiet = peer.quiet, None
        if copy is not None:
            peer.woken_at = self._ticked_at
            pair = self._pairs[node_id]
            pair.quiet.pop(copy.shard, None)
            pair.unheard.pop(copy.shard, None)
            self.woken.add(copy.shard)

    def linked(self, node_id: NodeId) -> None:
        """Send a heartbeat to a node at the next tick; those before the link may be lost."""
        pair = self._pairs.get(node_id)
        if pair is not None:
            pair.sent_at = NEVER

    def tick(self, now: Instant) -> None:
        """Send the heartbeats that are due; to be called before the ticks of the replicas."""
        self.previous_tick_at, self._ticked_at = self._ticked_at, now
        session = self._liveness.session
        # R19: an unfit primary limits its leases, and one without a session is about to change its
        # configurations: both are decided for each shard.
        may_beat = self._liveness.is_fit and session != NO_SESSION
        for node_id, pair in self._pairs.items():
            if not pair.quiet:
                continue
            since = Instant(now - self._timing.silence // 2)
            for each in pair.silent(since) if may_beat else tuple(pair.quiet.values()):
                self.end(node_id, each.peer)
            if pair.quiet and now - pair.sent_at >= self._timing.beat:
                self._beat(node_id, pair, session, now)

    def _beat(self, node_id: NodeId, pair: _Pair, session: Session, now: Instant) -> None:
        self._number += 1
        pair.sent_at = now
        pair.unanswered[self._number] = _Sent(now, session)
        if len(pair.unanswered) > UNANSWERED_MAX:
            del pair.unanswered[min(pair.unanswered)]
        copies = tuple(each.copy for each in pair.quiet.values())
        beat = QuietBeat(session=session, number=self._number, copies=copies)
        self.outbox.append((node_id, beat))

    def receive_response(self, response: QuietResponse, sender: NodeId, now: Instant) -> bool:
        """Record the leases of the copies that a heartbeat listed, if they are listed still.

        A response to a heartbeat of an earlier session of this process changes nothing.

        Returns:
            False if the message cannot be the response to a heartbeat of this process.
        """
        pair = self._pairs.get(sender)
        sent = pair.unanswered.get(response.number) if pair else None
        if pair is None or sent is None or sent.session != response.session:
            return False
        del pair.unanswered[response.number]
        if sent.session != self._liveness.session:
            return True
        pair.heard_at = now
        lease_end = self._timing.lease_end(sent.at)  # R15: counted from the heartbeat.
        refused = frozenset(response.refused)
        listed = [each for each in pair.quiet.values() if each.since <= response.number]
        for each in listed:
            if each.copy.shard in refused:
                self.end(sender, each.peer)
            else:
                pair.unheard.pop(each.copy.shard, None)
                each.peer.record_answer(sent.at, now)
                each.peer.record_lease(lease_end)
        return True

    # -- the backup's side ------------------------------------------------------------------------

    def receive(self, beat: QuietBeat, sender: NodeId, now: Instant) -> None:
        """Give leases for the copies that the heartbeat describes correctly; refuse the others."""
        refused = tuple(
            copy.shard
            for copy in beat.copies
            if (follower := self._followers.get(copy.shard)) is None
            or not follower.follow_quietly(copy, sender, beat.session, now)
        )
        response = QuietResponse(session=beat.session, number=beat.number, refused=refused)
        self.outbox.append((sender, response))

    # -- both -------------------------------------------------------------------------------------

    def take_outbox(self) -> tuple[tuple[NodeId, QuietMessage], ...]:
        """Return the messages to be sent, and empty the outbox."""
        messages = tuple(self.outbox)
        self.outbox.clear()
        return messages

    def take_woken(self) -> set[ShardId]:
        """Return the shards that were woken since the last call."""
        woken, self.woken = self.woken, set()
        return woken

    @property
    def quiet_counts(self) -> Mapping[NodeId, int]:
        """The number of quiet shards towards each node."""
        return {node_id: len(pair.quiet) for node_id, pair in self._pairs.items() if pair.quiet}
