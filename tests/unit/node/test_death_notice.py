"""The requests that are sent when a node's process has ended."""

import msgspec

from rota.core.model.ids import NodeId, Session
from rota.executor.warden.messages import OnDeathRequest
from rota.node.cluster.death_notice import DeathNotice
from rota.node.coordination.coordinator import Member
from rota.node.coordination.prepared_request import PreparedRequest
from rota.node.peers.death_proof import DeathProof

A, B = NodeId("a"), NodeId("b")


class RecordingWarden:
    """Keeps the requests that it has, as a warden does."""

    def __init__(self) -> None:
        self.requests: tuple[OnDeathRequest, ...] = ()

    def set_on_death(self, *requests: OnDeathRequest) -> None:
        """Replace the requests."""
        self.requests = requests


def end_of(session: Session) -> PreparedRequest:
    return PreparedRequest(urls=("http://etcd",), body=session.encode(), headers={})


def member(node_id: NodeId) -> Member:
    return Member(node_id=node_id, store_id="", address="", peer_address=f"{node_id}:1")


def test_the_requests_of_an_ended_process_name_its_newest_session() -> None:
    warden = RecordingWarden()
    notice = DeathNotice(warden, end_of, cluster="c", node_id=A, secret="s")
    notice.begin_session(Session("first"))
    notice.set_members({A: member(A), B: member(B)})

    notice.begin_session(Session("second"))

    end, proof = warden.requests
    assert end.body == b"second"
    assert msgspec.msgpack.decode(proof.body, type=DeathProof).session == "second"
