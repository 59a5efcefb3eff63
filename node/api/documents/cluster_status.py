"""Status of the cluster: nodes, shards, and pending moves of copies.

Every node has a view of which nodes are alive and where copies are. Only the primary of a shard has
the lag of its copies, and only a node itself has its load. Each node therefore reports these values
(`own_status`), and `merged_status` combines the reports. A value that no node reported is
shown as unknown, never as 0.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from rota.core.model.ids import NodeId
from rota.core.replication.peer_copy import PeerCopy
from rota.core.replication.primary import Copies, Primary
from rota.core.timing.instants import Instant, to_datetime
from rota.node.api.documents.waiting_tasks import long_waits
from rota.node.context import NodeContext
from rota.node.coordination.coordinator import ACTIVE, AWAY, DRAINING, Member
from rota.node.shards.shard import Shard
from rota.wire.documents import (
    ClusterView,
    LoadView,
    MoveView,
    NodeView,
    ReplicaView,
    ShardView,
)

ETCD_SILENT_S = 3.0
"""The age in seconds from which a session counts as not renewed. Renewals are sent once a second;
the alert is `RotaEtcdSilent`."""
ETCD_SILENT = "etcd does not renew the session of this node; no shard can change its primary"
SILENT_NAMED = 5
"""The number of silent jobs that a node's status names."""
GONE = "gone"
PRIMARY, BACKUP, LEARNER = "primary", "backup", "learner"
COPY, HANDOVER, REMOVAL = "copy", "handover", "removal"


def own_status(context: NodeContext) -> ClusterView:
    """Return the values that only this node has: its load, and the shards that it is primary of."""
    me = context.config.node_id
    shards = [_shard(context, shard) for shard in context.shards if shard.replica.primary]
    nodes = [each for each in _nodes(context, shards) if each.node_id == me]
    return _view(context, nodes, shards, [])


def merged_status(context: NodeContext, reports: Mapping[NodeId, ClusterView]) -> ClusterView:
    """Return the status of the cluster.

    Args:
        context: The parts of this node.
        reports: The `own_status` of each other node that responded.
    """
    known = {each.shard: each for view in reports.values() for each in view.shards}
    shards = [_newer(_shard(context, shard), known.get(shard.id)) for shard in context.shards]
    reported = {each.node_id: each for view in reports.values() for each in view.nodes}
    nodes = [_completed(each, reported.get(each.node_id)) for each in _nodes(context, shards)]
    copies = context.copies
    moves = [move for shard in shards for move in moves_of(shard, copies)]
    return _view(context, nodes, shards, moves)


def _completed(node: NodeView, report: NodeView | None) -> NodeView:
    """Return *node* with the fields that only that node has, if it responded."""
    if report is None:
        return node
    return msgspec.structs.replace(node, load=report.load, troubles=report.troubles)


def node_view(context: NodeContext, member: Member) -> NodeView:
    """Return the document of a node, from its record and the state of this node."""
    return _node(context, member, _counts(_shard(context, shard) for shard in context.shards))


def moves_of(shard: ShardView, copies: Copies) -> Iterator[MoveView]:
    """Yield the moves that are pending until the copies of *shard* are on their target nodes.

    A copy on another node is removed only when its replacement counts (PROTOCOL R26). If there are
    fewer nodes than wanted copies, such a copy is removed too, provided that enough copies remain.
    Otherwise it stays, and is not listed as a move.
    """
    roles = {each.node_id: each for each in shard.replicas}
    counting = {node_id for node_id, each in roles.items() if each.role != LEARNER}
    missing = [node_id for node_id in shard.target if node_id not in counting]
    for node_id in missing:
        learner = roles.get(node_id)
        yield MoveView(
            shard=shard.shard,
            change=COPY,
            source=None,
            target=node_id,
            is_running=learner is not None,
            lag=learner.lag if learner else None,
        )
    if shard.primary and shard.target and shard.primary != shard.target[0]:
        next_primary = shard.target[0]
        yield MoveView(
            shard=shard.shard,
            change=HANDOVER,
            source=shard.primary,
            target=next_primary,
            is_running=next_primary in counting,
        )
    needless = sorted(counting - set(shard.target))
    if len(shard.target) < copies.wanted:
        left_at_least = max(copies.least, len(shard.target))
        needless = needless[: max(0, len(counting) + len(missing) - left_at_least)]
    for node_id in needless:
        yield MoveView(
            shard=shard.shard,
            change=REMOVAL,
            source=node_id,
            target=None,
            is_running=not missing and node_id != shard.primary,
        )


def _view(
    context: NodeContext, nodes: list[NodeView], shards: list[ShardView], moves: list[MoveView]
) -> ClusterView:
    return ClusterView(
        cluster=context.config.cluster,
        node_id=context.config.node_id,
        replicas=context.copies.wanted,
        nodes=nodes,
        shards=shards,
        moves=moves,
    )


# -- nodes ----------------------------------------------------------------------------------------


def _nodes(context: NodeContext, shards: Iterable[ShardView]) -> list[NodeView]:
    """Return all nodes; the load of other nodes is unknown."""
    counts = _counts(shards)
    return [
        _node(context, member, counts) for _, member in sorted(context.membership.members.items())
    ]


def _counts(shards: Iterable[ShardView]) -> Counter[tuple[str, str]]:
    """Return the number of copies, by node and role."""
    return Counter((each.node_id, each.role) for shard in shards for each in shard.replicas)


def _node(context: NodeContext, member: Member, counts: Counter[tuple[str, str]]) -> NodeView:
    node_id = member.node_id
    session = context.membership.sessions.get(node_id)
    is_own = node_id == context.config.node_id
    return NodeView(
        node_id=node_id,
        state=_state(member.state) if session else GONE,
        is_draining=member.state not in (ACTIVE, AWAY),
        session=session,
        zone=member.zone,
        weight=member.weight,
        labels=member.labels,
        address=member.address,
        peer_address=member.peer_address,
        version=member.version,
        load=_load(context) if is_own else None,
        primaries=counts[node_id, PRIMARY],
        backups=counts[node_id, BACKUP],
        troubles=_troubles(context) if is_own else None,
        auth=member.auth,
    )


def _troubles(context: NodeContext) -> list[str]:
    """Return the conditions of this node, and those of etcd that it observes."""
    unready = context.unready(exclude_cluster=True)
    is_silent = context.membership.session_age_s > ETCD_SILENT_S
    silence = ETCD_SILENT if is_silent else None
    fullness = context.etcd.why_short if context.etcd else None
    found = (
        unready,
        context.shards.why_frozen,
        silence,
        fullness,
        _silent_jobs(context),
        *long_waits(context),
    )
    return [trouble for trouble in found if trouble]


def _silent_jobs(context: NodeContext) -> str | None:
    silent = [each.silent for each in context.shards if each.silent and each.is_open]
    if not silent:
        return None
    count = sum(each.count for each in silent)
    names = [name for each in silent for name in each.names][:SILENT_NAMED]
    more = f" and {count - len(names)} more" if count > len(names) else ""
    jobs, skip, next_fire = (
        ("1 job", "skips", "its") if count == 1 else (f"{count} jobs", "skip", "their")
    )
    return (
        f"{jobs} {skip} fire times up to {to_datetime(max(each.until for each in silent)):%FT%TZ}: "
        f"the clock was ahead when they were decided ({', '.join(names)}{more}); "
        f"`rota jobs resume NAME` counts {next_fire} schedules from now"
    )


def _state(recorded: str) -> str:
    # A state of a later version counts as draining: the node gets no more copies.
    return ACTIVE if recorded == ACTIVE else DRAINING


def _load(context: NodeContext) -> LoadView:
    return LoadView(
        running=context.attempts.running,
        slots=context.config.slots,
        waiting=context.attempts.slot_table.waiting,
    )


# -- shards ---------------------------------------------------------------------------------------


def _shard(context: NodeContext, shard: Shard) -> ShardView:
    newest = shard.replica.newest
    target: list[str] = [*context.membership.targets_of(shard.id)]
    if newest is None:
        return ShardView(
            shard=shard.id, epoch=0, primary=None, is_open=None, replicas=[], target=target
        )
    primary = shard.replica.primary
    others = [
        ReplicaView(
            node_id=node_id,
            role=BACKUP,
            lag=_lag(primary, primary.peers.get(node_id)) if primary else None,
        )
        for node_id in newest.members
        if node_id != newest.primary
    ]
    learners = [
        ReplicaView(node_id=node_id, role=LEARNER, lag=_lag(primary, peer))
        for node_id, peer in (_learners(primary, context.clock.elapsed()) if primary else ())
        if node_id not in newest.members
    ]
    return ShardView(
        shard=shard.id,
        epoch=newest.epoch,
        primary=newest.primary,
        is_open=shard.is_open if newest.primary == context.config.node_id else None,
        replicas=[ReplicaView(node_id=newest.primary, role=PRIMARY, lag=0), *others, *learners],
        target=target,
    )


def _learners(primary: Primary, now: Instant) -> list[tuple[NodeId, PeerCopy]]:
    """Return the learners that respond, by node; the replica lists lost ones for some time."""
    since = Instant(now - primary.timing.silence)
    learners = sorted(primary.learners.items(), key=lambda each: each[0])
    return [
        (node_id, peer)
        for node_id, peer in learners
        if not (peer.is_silent(since) or primary.liveness.is_dead(node_id, now))
    ]


def _lag(primary: Primary | None, peer: PeerCopy | None) -> int | None:
    """Return how many entries a copy lacks, by the primary's record; None if it is unknown."""
    if primary is None or peer is None or peer.snapshot is not None or not peer.match:
        return None
    return primary.copy.tip.index - peer.match


def _newer(seen: ShardView, reported: ShardView | None) -> ShardView:
    """Return the primary's report of a shard, unless this node has seen a newer configuration.

    The target nodes are those that this node computes: the primary may not know all nodes yet.
    """
    if reported is None or reported.epoch < seen.epoch:
        return seen
    return msgspec.structs.replace(reported, target=seen.target)
