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
shard by shard.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

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


@dataclass(slots=True)
class _Pair:
    """The heartbeats to one node.

    Attributes:
        sent_at: When the last heartbeat was sent.
        heard_at: When the last response arrived, or, if that was later, the first shard was quiet.
        unanswered: The time of sending of each heartbeat without a response, by number.
    """

    heard_at: Instant
    sent_at: Instant = NEVER
    quiet: dict[ShardId, _Quiet] = field(default_factory=dict[ShardId, _Quiet])
    unanswered: dict[int, Instant] = field(default_factory=dict[int, Instant])


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
        pair.quiet[copy.shard] = _Quiet(copy, peer, self._number + 1)

    def end(self, node_id: NodeId, peer: PeerCopy) -> None:
        """Remove the copy of *peer* from the heartbeats; nothing happens if it is not listed."""
        copy, peer.quiet = peer.quiet, None
        if copy is not None:
            peer.woken_at = self._ticked_at
            pair = self._pairs[node_id]
            peer.heard_at = max(peer.heard_at, pair.heard_at)
            pair.quiet.pop(copy.shard, None)
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
            if not may_beat or now - pair.heard_at > self._timing.silence // 2:
                for each in tuple(pair.quiet.values()):
                    self.end(node_id, each.peer)
            elif now - pair.sent_at >= self._timing.beat:
                self._beat(node_id, pair, session, now)

    def _beat(self, node_id: NodeId, pair: _Pair, session: Session, now: Instant) -> None:
        self._number += 1
        pair.sent_at = pair.unanswered[self._number] = now
        if len(pair.unanswered) > UNANSWERED_MAX:
            del pair.unanswered[min(pair.unanswered)]
        copies = tuple(each.copy for each in pair.quiet.values())
        beat = QuietBeat(session=session, number=self._number, copies=copies)
        self.outbox.append((node_id, beat))

    def receive_response(self, response: QuietResponse, sender: NodeId, now: Instant) -> bool:
        """Record the leases of the copies that a heartbeat listed, if they are listed still.

        Returns:
            False if the message cannot be the response to a heartbeat of this process.
        """
        pair = self._pairs.get(sender)
        if pair is None or response.session != self._liveness.session:
            return False
        sent_at = pair.unanswered.pop(response.number, None)
        if sent_at is None:
            return False
        pair.heard_at = now
        lease_end = self._timing.lease_end(sent_at)  # R15: counted from the heartbeat.
        refused = frozenset(response.refused)
        listed = [each for each in pair.quiet.values() if each.since <= response.number]
        for each in listed:
            if each.copy.shard in refused:
                self.end(sender, each.peer)
            else:
                each.peer.record_answer(sent_at, now)
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
