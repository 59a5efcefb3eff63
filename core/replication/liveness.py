"""Who is alive, as one node knows it: shared by all its replicas, changed by the node alone."""

from dataclasses import dataclass, field

from rota.core.configuration import NOBODY
from rota.core.ids import NodeId, Session
from rota.core.instants import Instant


@dataclass(slots=True)
class Liveness:
    """A node's own session and what it last saw of the others'.

    Attributes:
        node_id: Whose knowledge this is.
        born_at: When this life began, by the clock that all instants here go by. It only ever
            passes, also while the machine sleeps.
        session: The node's own; `NOBODY` while it has none.
        session_end: Until when that gives authority; counted from before it was asked for.
        sessions: The live session of each node, as last seen at the coordinator.
        dead: Sessions proven to be over, because somebody saw the process end.
    """

    node_id: NodeId
    born_at: Instant
    session: Session = NOBODY
    session_end: Instant = Instant(0)
    sessions: dict[NodeId, Session] = field(default_factory=dict[NodeId, Session])
    dead: set[tuple[NodeId, Session]] = field(default_factory=set[tuple[NodeId, Session]])

    def is_gone(self, node_id: NodeId, session: Session) -> bool:
        """Tell whether a session was seen to be over."""
        return self.sessions.get(node_id) != session

    def gives_authority(self, session: Session, now: Instant) -> bool:
        """Tell whether *session* is this node's own and holds."""
        return session != NOBODY and session == self.session and now < self.session_end
