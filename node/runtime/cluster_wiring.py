"""Wiring of the membership of a node in its cluster."""

import asyncio
from dataclasses import dataclass

from rota.node.cluster.away_detector import AwayDetector
from rota.node.cluster.cluster_view import ClusterView
from rota.node.cluster.coordinator_refusals import CoordinatorRefusals
from rota.node.cluster.drain import Drain
from rota.node.cluster.etcd_guard import EtcdGuard
from rota.node.cluster.known_members import KnownMembers
from rota.node.cluster.loss_notices import LossNotices
from rota.node.cluster.membership import Membership, MembershipParts
from rota.node.cluster.node_session import NodeSession
from rota.node.cluster.own_record import MemberRecords, OwnRecord
from rota.node.cluster.replica_peers import ReplicaPeers
from rota.node.cluster.shared_documents import SharedDocuments
from rota.node.cluster.swap_gate import SwapGate
from rota.node.cluster.swap_queue import SwapQueue
from rota.node.cluster.swap_requester import SwapRequester
from rota.node.coordination.coordinator import Claim
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
    membership = _membership(base, shards, swap_queue)
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


def _membership(base: NodeFoundation, shards: Shards, swap_queue: SwapQueue) -> Membership:
    environment = base.environment
    return Membership(
        _membership_parts(base, shards, swap_queue),
        shards,
        liveness=base.liveness,
        continuity=base.continuity,
        self_check=base.self_check,
        gossip=base.gossip,
        timing=environment.timing,
        clock=base.clock,
        is_alone=environment.is_alone,
    )


def _membership_parts(
    base: NodeFoundation, shards: Shards, swap_queue: SwapQueue
) -> MembershipParts:
    environment, clock, liveness = base.environment, base.clock, base.liveness
    coordinator, network, member = environment.coordinator, environment.network, environment.member
    urgent, refusals = asyncio.Event(), CoordinatorRefusals(clock.elapsed)
    known_members = KnownMembers(environment.placement, environment.on_members, swap_queue)
    own_record = OwnRecord(coordinator, member, known_members)
    loss_notices = LossNotices(
        member.node_id,
        known_members,
        network,
        shards=shards,
        continuity=base.continuity,
        clock=clock,
    )
    gate = SwapGate(
        liveness,
        network,
        swap_queue,
        timing=environment.timing,
        clock=clock,
        is_alone=environment.is_alone,
    )
    session = NodeSession(
        coordinator,
        Claim(node_id=member.node_id, store_id=member.store_id, lock=environment.lock),
        own_record,
        liveness=liveness,
        gate=gate,
        requests=swap_queue,
        refusals=refusals,
        on_begun=environment.on_session,
        timing=environment.timing,
        clock=clock,
    )
    view = ClusterView(
        coordinator,
        network,
        shards,
        records=MemberRecords(known_members, own_record),
        liveness=liveness,
        continuity=base.continuity,
        loss_notices=loss_notices,
        gate=gate,
        requests=swap_queue,
        refusals=refusals,
        urgent=urgent,
        cluster_id=environment.cluster_id,
    )
    swap_requester = SwapRequester(
        coordinator,
        swap_queue,
        gate,
        shards=shards,
        continuity=base.continuity,
        loss_notices=loss_notices,
        refusals=refusals,
    )
    return MembershipParts(
        session=session,
        view=view,
        swap_requester=swap_requester,
        requests=swap_queue,
        known_members=known_members,
        loss_notices=loss_notices,
        refusals=refusals,
        urgent=urgent,
    )
