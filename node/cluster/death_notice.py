"""Requests that the warden of a node sends when the node's process has ended.

One request ends the session at the coordinator. The others give each other node the proof that the
process has ended, so that these nodes need not wait until the session and their promises end
(PROTOCOL R16). They also list the attempts that the warden holds at that time, so that an attempt
that is recorded as started but is not in the list can start elsewhere at once. The requests are
replaced with every session and whenever members change. Requests that name an earlier session are
harmless, since that session belongs to the same process, which has ended.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from rota.core.model.ids import NodeId, Session
from rota.core.vocabulary.shard_configuration import NO_SESSION
from rota.executor.warden.messages import CertificateFiles, OnDeathRequest
from rota.node.coordination.coordinator import Member
from rota.node.coordination.prepared_request import PreparedRequest
from rota.node.peers.death_proof import PATH, DeathProof, encode
from rota.node.peers.peer_tls import PeerTls, TlsMismatch, dialling


class Warden(Protocol):
    """The warden of this node (`rota.executor.warden.node_link.WardenLink`)."""

    def set_on_death(self, *requests: OnDeathRequest) -> None:
        """Set the requests to be sent after the end of this process; earlier ones are replaced."""
        ...


class DeathNotice:
    """The requests that the warden sends after the end of this process.

    Args:
        warden: The warden of this node.
        end_of: Returns the request that ends a session at the coordinator.
        cluster: The id of the cluster.
        node_id: This node.
        secret: The secret of this process (`rota.node.peers.death_proof`).
        tls: The certificate of this node for the other nodes; None without TLS.
    """

    def __init__(
        self,
        warden: Warden,
        end_of: Callable[[Session], PreparedRequest],
        *,
        cluster: str,
        node_id: NodeId,
        secret: str,
        tls: PeerTls | None = None,
    ) -> None:
        self._tls = tls
        self._warden = warden
        self._end_of = end_of
        self._cluster = cluster
        self._node_id = node_id
        self._secret = secret
        self._session = NO_SESSION
        self._others: tuple[Member, ...] = ()

    def begin_session(self, session: Session) -> None:
        """Replace the requests for a new session of this node."""
        self._session = session
        self._write()

    def set_members(self, members: Mapping[NodeId, Member]) -> None:
        """Replace the requests for new member records."""
        self._others = tuple(each for each in members.values() if each.node_id != self._node_id)
        self._write()

    def _write(self) -> None:
        if self._session == NO_SESSION:
            return
        proof = encode(
            DeathProof(
                cluster=self._cluster,
                node_id=self._node_id,
                session=self._session,
                secret=self._secret,
            )
        )
        self._warden.set_on_death(
            as_on_death_request(self._end_of(self._session)),
            *filter(None, (self._request_to(each, proof) for each in self._others)),
        )

    def _request_to(self, member: Member, proof: bytes) -> OnDeathRequest | None:
        """Return the request to a node; None if only one of the two nodes uses TLS.

        The warden reads the files of the certificate when it sends the request, since they may have
        been renewed by then.
        """
        try:
            way = dialling(self._tls, member)
        except TlsMismatch:
            return None
        certificates = CertificateFiles()
        if way.server_hostname is not None and self._tls is not None:
            files = self._tls.files
            assert files.authority is not None, "nodes have certificates of one"
            certificates = CertificateFiles(
                authority=str(files.authority.absolute()),
                certificate=str(files.certificate.absolute()),
                key=str(files.key.absolute()),
            )
        return OnDeathRequest(
            (f"{way.origin}{PATH}",),
            proof,
            includes_held=True,
            certificates=certificates,
            server_name=way.server_hostname or "",
        )


def as_on_death_request(request: PreparedRequest) -> OnDeathRequest:
    """Return *request* in the form that the warden sends."""
    return OnDeathRequest(
        request.urls,
        request.body,
        dict(request.headers),
        certificates=CertificateFiles(*request.certificates),
    )
