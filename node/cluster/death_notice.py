"""What this node has its warden do when its process has ended: everybody is to know at once.

The session is ended at the coordinator, and every other node gets proof that the process is dead:
so they need not wait until its session and the time that they promised it have run out (PROTOCOL
R16); and what the warden holds then, so that what is on record as started and is not there can
start elsewhere at once. It is written anew with every session and whenever members change. One that
names a session which is over by then does no harm: both are of the same process, and it is dead.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from rota.core.model.ids import NodeId, Session
from rota.core.vocabulary.shard_configuration import NO_SESSION
from rota.executor.warden.messages import OnDeathRequest
from rota.node.coordination.coordinator import Member
from rota.node.peers.death_proof import PATH, DeathProof, encode


class Warden(Protocol):
    """Who carries it out (`rota.executor.warden.node_link.WardenLink`)."""

    def set_on_death(self, *letters: OnDeathRequest) -> None:
        """Have letters posted when this process has ended, in the place of those before."""
        ...


class DeathNotice:
    """The will of one process.

    Args:
        warden: Of this node.
        end_of: Gives the request that ends a session.
        cluster: The id of the cluster.
        node_id: This node.
        secret: Of this process (`rota.node.peers.death_proof`).
    """

    def __init__(
        self,
        warden: Warden,
        end_of: Callable[[Session], OnDeathRequest],
        *,
        cluster: str,
        node_id: NodeId,
        secret: str,
    ) -> None:
        self._warden = warden
        self._end_of = end_of
        self._cluster = cluster
        self._node_id = node_id
        self._secret = secret
        self._session = NO_SESSION
        self._others: tuple[Member, ...] = ()

    def begun(self, session: Session) -> None:
        """Take note of this node's new session."""
        self._session = session
        self._write()

    def meet(self, members: Mapping[NodeId, Member]) -> None:
        """Take note of all members."""
        self._others = tuple(each for each in members.values() if each.node_id != self._node_id)
        self._write()

    def _write(self) -> None:
        if self._session == NO_SESSION:
            return
        news = encode(
            DeathProof(
                cluster=self._cluster,
                node_id=self._node_id,
                session=self._session,
                secret=self._secret,
            )
        )
        self._warden.set_on_death(
            self._end_of(self._session),
            *(
                OnDeathRequest((f"http://{each.peer_address}{PATH}",), news, includes_held=True)
                for each in self._others
            ),
        )
