"""Who is alive and fit, as one node knows it: shared by its replicas, changed by the node alone."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from rota.core.model.ids import NodeId, Session
from rota.core.replication.authority.health_conditions import HealthCondition
from rota.core.timing.instants import Duration, Instant, later
from rota.core.vocabulary.shard_configuration import NO_SESSION


@dataclass(slots=True)
class Liveness:
    """A node's own session and what it last saw of the others'.

    Attributes:
        node_id: Whose knowledge this is.
        born_at: When this life began, by the clock that all instants here go by. It only ever
            passes, also while the machine sleeps.
        session: The node's own; `NO_SESSION` while it has none.
        session_end: Until when that gives authority; counted from before it was asked for.
        sessions: The live session of each node, as last seen at the coordinator.
        dead: Lives proven to be over, because somebody saw the process end; with until when that
            matters.
        ills: What makes this node unfit to be primary; nothing on a node that is alone.
        unfit: The other nodes that told that they are.
        slow: Those of which the disk is the reason.
        leaving_since: Since when this node has been about to stop; None if it is not.
        leaving: The other nodes that told that they are.
        reaches_coordinator: Whether that answered when it was asked last.
    """

    node_id: NodeId
    born_at: Instant
    session: Session = NO_SESSION
    session_end: Instant = Instant(0)
    sessions: dict[NodeId, Session] = field(default_factory=dict[NodeId, Session])
    dead: dict[tuple[NodeId, Session], Instant] = field(
        default_factory=dict[tuple[NodeId, Session], Instant]
    )
    ills: frozenset[HealthCondition] = frozenset()
    unfit: set[NodeId] = field(default_factory=set[NodeId])
    slow: set[NodeId] = field(default_factory=set[NodeId])
    leaving_since: Instant | None = None
    leaving: set[NodeId] = field(default_factory=set[NodeId])
    reaches_coordinator: bool = True

    def is_gone(self, node_id: NodeId, session: Session) -> bool:
        """Tell whether a session was seen to be over."""
        return self.sessions.get(node_id) != session

    def saw_death(
        self, node_id: NodeId, session: Session, now: Instant, *, grace: Duration
    ) -> None:
        """Note the proof that the process of *node_id* in *session* has ended.

        All that it does is shorten promises to that life, and the last of them has run out by
        itself a *grace* later. So older proofs are forgotten here, and do not pile up. A message of
        that life that comes later still is promised time once more: slower, and as safe.
        """
        self.dead = {life: until for life, until in self.dead.items() if until > now}
        self.dead[node_id, session] = later(now, grace)

    def is_dead(self, node_id: NodeId, now: Instant) -> bool:
        """Tell whether a process of *node_id* was just seen to end, and none has come after it."""
        is_proven = any(life[0] == node_id and until > now for life, until in self.dead.items())
        return is_proven and node_id not in self.sessions

    def gives_authority(self, session: Session, now: Instant) -> bool:
        """Tell whether *session* is this node's own and holds."""
        return session != NO_SESSION and session == self.session and now < self.session_end

    @property
    def is_leaving(self) -> bool:
        """Whether this node is about to stop, and gives away what it holds."""
        return self.leaving_since is not None

    @property
    def is_fit(self) -> bool:
        """Whether this node ought to be primary of anything."""
        return self.is_well and not self.is_leaving

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong with this node."""
        return not self.ills

    @property
    def is_prompt(self) -> bool:
        """Whether this node's disk keeps up."""
        return HealthCondition.DISK not in self.ills

    @property
    def has_space(self) -> bool:
        """Whether there is space left on this node's disk."""
        return HealthCondition.SPACE not in self.ills

    @property
    def has_calendar(self) -> bool:
        """Whether this node's calendar may be believed (R20)."""
        # Asked for with each turn of a shard; the hash of a member of an enum takes 0.2 us.
        return not self.ills or HealthCondition.CLOCK not in self.ills

    def is_able(self, node_id: NodeId) -> bool:
        """Tell whether another node could be primary: it lives, is fit, and can be made so.

        As far as is known here; without the coordinator nobody becomes primary of anything.
        """
        is_alive = node_id in self.sessions and node_id != self.node_id
        return is_alive and node_id not in self.unfit and self.reaches_coordinator

    def is_fenced(self, among: Iterable[NodeId]) -> bool:
        """Tell whether this node keeps still, so that one *among* those others takes its place.

        R19: because its loop or its disk is slow. Where none of them is able to, a slow primary is
        better than none. One whose disk is filling decides until it has handed over, for what frees
        the disk must not wait.
        """
        return bool(self.ills & {HealthCondition.LOOP, HealthCondition.DISK}) and any(
            map(self.is_able, among)
        )
