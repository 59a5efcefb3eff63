"""Wiring of the membership of a node in its cluster."""

from dataclasses import dataclass

from rota.node.cluster.away_detector import AwayDetector
from rota.node.cluster.drain import Drain
from rota.node.cluster.etcd_guard import EtcdGuard
from rota.node.cluster.membership import Membership
from rota.node.cluster.replica_peers import ReplicaPeers
from rota.node.cluster.shared_documents import SharedDocuments
from rota.node.cluster.swap_queue import SwapQueue
from rota.node.runtime.foundation import NodeFoundation
from rota.node.shards.local_shards import Shards


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterParts:
    """Parts for the membership in a cluster; *etcd_guard* is None on a single node."""

    membership: Membership
    peers: ReplicaPeers
    swap_queue: SwapQueue
    drain: Drain
    away_detector: AwayDetector
    documents: SharedDocuments
    etcd_guard: EtcdGuard | None


def wire_cluster(base: NodeFoundation, shards: Shards) -> ClusterParts:
    """Return the parts for the membership of a node with *shards*."""
    environment, clock = base.environment, base.clock
    swap_queue = SwapQueue()
    membership = Membership(
        environment.coordinator,
        environment.network,
        environment.member,
        shards,
        lock=environment.lock,
        liveness=base.liveness,
        continuity=base.continuity,
        self_check=base.self_check,
        gossip=base.gossip,
        requests=swap_queue,
        timing=environment.timing,
        placement=environment.placement,
        on_members=environment.on_members,
        on_session=environment.on_session,
        clock=clock,
        is_alone=environment.is_alone,
        cluster_id=environment.cluster_id,
    )
    return ClusterParts(
        membership=membership,
        peers=ReplicaPeers(environment.network, base.gossip),
        swap_queue=swap_queue,
        drain=Drain(shards, base.liveness, environment.copies, clock, membership.report_at_once),
        away_detector=AwayDetector(
            membership,
            environment.coordinator,
            copies=environment.copies.wanted,
            delay=base.config.repair_delay,
            clock=clock,
        ),
        documents=SharedDocuments(
            environment.coordinator,
            environment.store,
            base.continuity,
            clock,
            cluster_id=environment.cluster_id,
        ),
        etcd_guard=EtcdGuard(environment.look_at_etcd) if environment.look_at_etcd else None,
    )
