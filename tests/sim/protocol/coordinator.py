"""A simulated coordinator: one configuration, and a session for each node."""

from dataclasses import dataclass, field

from rota.core.model.ids import NodeId, Session
from rota.core.timing.instants import Duration, Instant
from rota.core.vocabulary.shard_configuration import Configuration, Swap, Swapped


@dataclass(slots=True)
class Coordination:
    """The coordinator's state, on the world's time.

    Attributes:
        generation: Raised by each recovery.
        is_emptied: Whether the record of the cluster is lost too, until a recovery.
        history: All configurations so far.
    """

    ttl: Duration
    current: Configuration | None = None
    generation: int = 0
    is_emptied: bool = False
    history: list[Configuration] = field(default_factory=list[Configuration])
    _sessions: dict[NodeId, tuple[Session, Instant]] = field(
        default_factory=dict[NodeId, tuple[Session, Instant]]
    )
    _session_count: int = 0
    _asked_at: dict[NodeId, int] = field(default_factory=dict[NodeId, int])

    def restore(self, configuration: Configuration | None) -> None:
        """Go back to an earlier configuration, or to none; sessions stay as they are."""
        self.current, self.is_emptied = configuration, configuration is None

    def last_sessions(self) -> dict[NodeId, Session]:
        """Return every node's last session that was not ended early, expired or not."""
        return {node: session for node, (session, _) in self._sessions.items()}

    def live(self, now: Instant) -> dict[NodeId, Session]:
        """Return the live sessions."""
        return {node: session for node, (session, end) in self._sessions.items() if end > now}

    def begin_session(
        self, node_id: NodeId, now: Instant, session: Session | None = None, *, asked_at: int = 0
    ) -> Session | None:
        """Begin a session with a new name or *session*; the node's last one ends.

        None if that was requested later than *asked_at*: a node waits for one request, or gives it
        up, before the next, and ends only a session that it has read.
        """
        if node_id in self.live(now) and asked_at < self._asked_at.get(node_id, 0):
            return None
        self._asked_at[node_id] = asked_at
        self._session_count += 1
        session = session or Session(f"s{self._session_count}")
        self._sessions[node_id] = session, Instant(now + self.ttl)
        return session

    def holds(self, node_id: NodeId, session: Session) -> bool:
        """Return True if a session is the node's last one, expired or not."""
        return node_id in self._sessions and self._sessions[node_id][0] == session

    def renew(self, node_id: NodeId, session: Session, now: Instant) -> bool:
        """Renew a session; False if it is over."""
        if self.live(now).get(node_id) != session:
            return False
        self._sessions[node_id] = session, Instant(now + self.ttl)
        return True

    def end_session(self, node_id: NodeId, session: Session) -> None:
        """End a session at once."""
        if self.holds(node_id, session):
            del self._sessions[node_id]

    def extend_all(self, now: Instant) -> None:
        """Give all sessions their full time again, as a restarted etcd does."""
        for node, session in self.live(now).items():
            self._sessions[node] = session, Instant(now + self.ttl)

    def revoke_all(self) -> None:
        """End all sessions at once, as etcd did with a leader that was stuck (its issue 15247)."""
        self._sessions.clear()

    def swap(self, swap: Swap, now: Instant) -> Swapped:
        """Carry out a compare-and-set, if its conditions hold (R3)."""
        live = self.live(now)
        is_done = (
            swap.expected == self.current
            and live.get(swap.by) == swap.session
            and (swap.gone is None or live.get(swap.gone[0]) != swap.gone[1])
        )
        if is_done:
            self.current = swap.fresh
            self.history.append(swap.fresh)
        return Swapped(is_done=is_done, current=self.current)
