"""Identities of nodes that forward requests to each other."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from rota.core.model.ids import NodeId
from rota.node.coordination.coordinator import Member
from rota.node.links.forward_proof import ForwardProofs
from rota.node.links.identity_proof import KEY_BYTES, PeerCredentials


def credentials_of(node_id: str, *, process: int = 1, cluster: str = "c") -> PeerCredentials:
    """Return the identity of a process of a node; each process has its own key."""
    return PeerCredentials(
        cluster=cluster,
        node_id=NodeId(node_id),
        store_id=f"store-{node_id}",
        life=f"life-{process}",
        key=bytes([process]) * (KEY_BYTES - len(node_id)) + node_id.encode(),
    )


def record_of(ours: PeerCredentials, address: str = "") -> Member:
    """Return the record of a node, with the address of its peer port."""
    return Member(
        node_id=ours.node_id,
        store_id=ours.store_id,
        address="",
        peer_address=address,
        key=ours.key,
    )


class Everyone:
    """There is a link to both nodes of these tests, at all times."""

    peers = (NodeId("n"), NodeId("n2"))

    def watched(self, node_id: NodeId, on_lost: Callable[[], None]) -> AbstractContextManager[None]:
        """Never call *on_lost*."""
        del node_id, on_lost
        return nullcontext()


def proofs_of(node_id: str) -> ForwardProofs:
    """Return the proofs of a node that has no records of others yet."""
    return ForwardProofs(credentials_of(node_id))
