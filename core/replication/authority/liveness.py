"""One node's view of which nodes are alive and fit; shared by its replicas, updated by the node."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from rota.core.model.ids import NodeId, Session
from rota.core.replication.authority.health_conditions import HealthCondition
from rota.core.timing.instants import Duration, Instant, later
from rota.core.vocabulary.shard_configuration import NO_SESSION


@dataclass(slots=True)
class Liveness:
    """A node's own session and its latest view of the other nodes.

    Attributes:
        node_id: This node.
        born_at: When the node started. All instants here are of its monotonic clock, which also
            counts while the machine sleeps.
        session: Its own session; `NO_SESSION` while it has none.
        session_end: End of the session's authority, counted from before its request.
        sessions: The live session of each node, as last seen at the coordinator.
        dead: Sessions whose process has provably ended, each with the instant until which the proof
            matters.
        conditions: The health conditions of this node; empty on a node that is alone.
        unfit: The other nodes that reported that they are unfit.
        slow: The other nodes that reported that their disk is slow.
        leaving_since: When this node began to stop; None if it has not.
        leaving: The other nodes that reported that they are about to stop.
        reaches_coordinator: Whether the coordinator answered the last request.
    """

    node_id: NodeId
    born_at: Instant
    session: Session = NO_SESSION
    session_end: Instant = Instant(0)
    sessions: dict[NodeId, Session] = field(default_factory=dict[NodeId, Session])
    dead: dict[tuple[NodeId, Session], Instant] = field(
        default_factory=dict[tuple[NodeId, Session], Instant]
    )
    conditions: frozenset[HealthCondition] = frozenset()
    unfit: set[NodeId] = field(default_factory=set[NodeId])
    slow: set[NodeId] = field(default_factory=set[NodeId])
    leaving_since: Instant | None = None
    leaving: set[NodeId] = field(default_factory=set[NodeId])
    reaches_coordinator: bool = True

    def begin_session(self, session: Session, end: Instant) -> None:
        """Begin a session of this node, with authority until *end*."""
        self.session, self.session_end = session, end

    def renew_session(self, end: Instant) -> None:
        """Move the end of this node's authority."""
        self.session_end = end

    def end_session(self) -> None:
        """Give up the authority of this node at once."""
        self.session = NO_SESSION

    def begin_leaving(self, now: Instant) -> None:
        """Record that this node begins to stop."""
        self.leaving_since = now

    def record_conditions(self, conditions: frozenset[HealthCondition]) -> None:
        """Replace the health conditions of this node."""
        self.conditions = conditions

    def record_sessions(self, sessions: dict[NodeId, Session]) -> None:
        """Replace the live sessions by those of a newer view; takes ownership."""
        self.sessions = sessions

    def record_peer(
        self, node_id: NodeId, *, is_fit: bool, is_prompt: bool, is_leaving: bool
    ) -> None:
        """Record the report of another node about itself."""
        for nodes, is_in in (
            (self.unfit, not is_fit),
            (self.slow, not is_prompt),
            (self.leaving, is_leaving),
        ):
            if is_in:
                nodes.add(node_id)
            else:
                nodes.discard(node_id)

    def record_coordinator(self, *, is_reached: bool) -> None:
        """Record whether the coordinator answered the last request."""
        self.reaches_coordinator = is_reached

    def circumstances(self) -> Hashable:
        """Return all of this view on which the plans of a replica depend.

        As long as the result stays equal, a replica at rest has nothing to do. The end of the
        session is not in it: authority is checked at each use (R15).
        """
        return (
            self.session,
            self.conditions,
            self.leaving_since,
            self.reaches_coordinator,
            frozenset(self.sessions.items()),
            frozenset(self.unfit),
            frozenset(self.slow),
            frozenset(self.leaving),
            frozenset(self.dead),
        )

    def is_gone(self, node_id: NodeId, session: Session) -> bool:
        """Return True if *session* is not the live session of *node_id*."""
        return self.sessions.get(node_id) != session

    def saw_death(
        self, node_id: NodeId, session: Session, now: Instant, *, grace: Duration
    ) -> None:
        """Record the proof that the process of *node_id* in *session* has ended.

        A proof matters only while there may be promises to that session, and the last of them ends
        by itself after *grace*. So older proofs are deleted here and do not accumulate. A message
        of that session that arrives even later is granted a lease again, which costs time but is
        safe.
        """
        self.dead = {life: until for life, until in self.dead.items() if until > now}
        self.dead[node_id, session] = later(now, grace)

    def is_dead(self, node_id: NodeId, now: Instant) -> bool:
        """Return True if a process of *node_id* has provably just ended, without a successor."""
        is_proven = any(life[0] == node_id and until > now for life, until in self.dead.items())
        return is_proven and node_id not in self.sessions

    def gives_authority(self, session: Session, now: Instant) -> bool:
        """Return True if *session* is this node's own and still gives authority."""
        return session != NO_SESSION and session == self.session and now < self.session_end

    @property
    def is_leaving(self) -> bool:
        """Whether this node is about to stop and hands its shards over."""
        return self.leaving_since is not None

    @property
    def is_fit(self) -> bool:
        """Whether this node should be primary of any shard."""
        return self.is_well and not self.is_leaving

    @property
    def is_well(self) -> bool:
        """Whether this node has no health condition."""
        return not self.conditions

    @property
    def is_prompt(self) -> bool:
        """Whether this node's disk is fast enough."""
        return HealthCondition.DISK not in self.conditions

    @property
    def has_space(self) -> bool:
        """Whether this node's disk has enough space."""
        return HealthCondition.SPACE not in self.conditions

    @property
    def has_calendar(self) -> bool:
        """Whether this node's wall clock is not known to be wrong (R20)."""
        # Evaluated with each turn of a shard; the hash of an enum member takes 0.2 us.
        return not self.conditions or HealthCondition.CLOCK not in self.conditions

    def is_able(self, node_id: NodeId) -> bool:
        """Return True if another node could become primary: it is alive and fit.

        False while the coordinator is unreachable, since no node can become primary then.
        """
        is_alive = node_id in self.sessions and node_id != self.node_id
        return is_alive and node_id not in self.unfit and self.reaches_coordinator

    def is_fenced(self, among: Iterable[NodeId]) -> bool:
        """Return True if this node refuses work so that one of *among* can replace it.

        R19: this node refuses work if its loop or its disk is slow. If no other node is able, a
        slow primary is better than none. A primary whose disk is filling up decides until it has
        handed over, because commands that free space must not wait.
        """
        return bool(self.conditions & {HealthCondition.LOOP, HealthCondition.DISK}) and any(
            map(self.is_able, among)
        )
