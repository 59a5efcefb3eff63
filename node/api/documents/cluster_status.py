"""The cluster as one node sees it: nodes, shards, and what is to change.

Who lives and who holds what every node knows. How far copies have come only their primary knows,
and what a node runs only that node; so a node also tells what it alone knows (`told_by`), and
`whole` puts together what all have told. What nobody told is shown as unknown, never as 0.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from rota.core.model.ids import NodeId
from rota.core.replication.peer_copy import PeerCopy
from rota.core.replication.primary import Copies, Primary
from rota.core.timing.instants import Instant
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
"""Several renewals, of which there is one a second; `RotaEtcdSilent` is the alert for it."""
ETCD_SILENT = "etcd does not renew the session; until it does, no shard changes hands"
GONE = "gone"
PRIMARY, BACKUP, LEARNER = "primary", "backup", "learner"
COPY, HANDOVER, REMOVAL = "copy", "handover", "removal"


def told_by(context: NodeContext) -> ClusterView:
    """Return what this node alone knows: itself, and the shards that it decides for."""
    me = context.config.node_id
    shards = [_shard(context, shard) for shard in context.shards if shard.replica.primary]
    nodes = [each for each in _nodes(context, shards) if each.node_id == me]
    return _view(context, nodes, shards, [])


def whole(context: NodeContext, told: Mapping[NodeId, ClusterView]) -> ClusterView:
    """Return the cluster as this node sees it.

    Args:
        context: Of this node.
        told: What the others told that answered.
    """
    known = {each.shard: each for view in told.values() for each in view.shards}
    shards = [_newer(_shard(context, shard), known.get(shard.id)) for shard in context.shards]
    own_accounts = {each.node_id: each for view in told.values() for each in view.nodes}
    nodes = [_completed(each, own_accounts.get(each.node_id)) for each in _nodes(context, shards)]
    copies = context.copies
    moves = [move for shard in shards for move in moves_of(shard, copies)]
    return _view(context, nodes, shards, moves)


def _completed(node: NodeView, own_account: NodeView | None) -> NodeView:
    """Return *node* with what only that node knows, if it answered."""
    if own_account is None:
        return node
    return msgspec.structs.replace(node, load=own_account.load, troubles=own_account.troubles)


def node_as(context: NodeContext, member: Member) -> NodeView:
    """Return the node that *member* is about, as this node sees it besides."""
    return _node(context, member, _counts(_shard(context, shard) for shard in context.shards))


def moves_of(shard: ShardView, copies: Copies) -> Iterator[MoveView]:
    """Yield what is to change before *shard* is where it ought to be.

    A copy that ought not to be there goes only for one that replaces it (PROTOCOL R26). Where fewer
    nodes are left than there are to be copies it goes too, if enough remain; else it stays, and
    that is no move.
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
        heir = shard.target[0]
        yield MoveView(
            shard=shard.shard,
            change=HANDOVER,
            source=shard.primary,
            target=heir,
            is_running=heir in counting,
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
    """Return all nodes; of another its load is not known."""
    counts = _counts(shards)
    return [
        _node(context, member, counts) for _, member in sorted(context.membership.members.items())
    ]


def _counts(shards: Iterable[ShardView]) -> Counter[tuple[str, str]]:
    """Return how many copies there are, by node and role."""
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
    )


def _troubles(context: NodeContext) -> list[str]:
    """Return what is wrong with this node, and with etcd as this node sees it."""
    unready = context.unready(exclude_cluster=True)
    is_silent = context.membership.session_age_s > ETCD_SILENT_S
    silence = ETCD_SILENT if is_silent else None
    fullness = context.etcd.why_short if context.etcd else None
    found = (unready, context.shards.why_frozen, silence, fullness)
    return [trouble for trouble in found if trouble]


def _state(said: str) -> str:
    # A state that a later version knows is none in which a node gets more to hold.
    return ACTIVE if said == ACTIVE else DRAINING


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
    duty = shard.replica.primary
    others = [
        ReplicaView(
            node_id=node_id,
            role=BACKUP,
            lag=_lag(duty, duty.peers.get(node_id)) if duty else None,
        )
        for node_id in newest.members
        if node_id != newest.primary
    ]
    learners = [
        ReplicaView(node_id=node_id, role=LEARNER, lag=_lag(duty, peer))
        for node_id, peer in (_learners(duty, context.clock.elapsed()) if duty else ())
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


def _learners(duty: Primary, now: Instant) -> list[tuple[NodeId, PeerCopy]]:
    """Return the learners that answer, by node; one that is gone is remembered for a while."""
    since = Instant(now - duty.timing.silence)
    learners = sorted(duty.learners.items(), key=lambda each: each[0])
    return [
        (node_id, peer)
        for node_id, peer in learners
        if not (peer.is_silent(since) or duty.liveness.is_dead(node_id, now))
    ]


def _lag(duty: Primary | None, peer: PeerCopy | None) -> int | None:
    """Return how many entries a copy is not known to have; None if it has not said what it has."""
    if duty is None or peer is None or peer.snapshot is not None or not peer.match:
        return None
    return duty.copy.tip.index - peer.match


def _newer(seen: ShardView, told: ShardView | None) -> ShardView:
    """Return what its primary told of a shard, unless another has been heard of since.

    Where it ought to be is as seen here: the primary may not have heard of all nodes yet.
    """
    if told is None or told.epoch < seen.epoch:
        return seen
    return msgspec.structs.replace(told, target=seen.target)
