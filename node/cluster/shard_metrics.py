"""Metrics of the copies of shards on this node, and of the copies that follow them.

Labels are roles and nodes, never shards: a cluster may have 16,384 of those.
"""

from collections import Counter

from rota.core.model.ids import NodeId
from rota.node.cluster.membership import Membership
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Shard
from rota.node.system.metrics import Metrics

PRIMARY, OPENING, BACKUP = "primary", "opening", "backup"


def measure_shards(
    metrics: Metrics, shards: Shards, membership: Membership, node_id: NodeId
) -> None:
    """Add what is read of *shards* on the node *node_id*; each costs O(shards) when asked for."""
    metrics.gauges("rota_shards", lambda: roles_of(shards, node_id))
    metrics.gauges("rota_replication_lag_entries", lambda: lags_of(shards))
    metrics.gauge("rota_entries_uncommitted", lambda: sum(len(shard.entries) for shard in shards))
    metrics.gauge("rota_swaps_waiting", lambda: membership.swaps_waiting)
    metrics.gauge("rota_session_age_seconds", lambda: membership.session_age_s)
    metrics.counter("rota_coordinator_refusals_total", lambda: membership.refusal_count)


def roles_of(shards: Shards, node_id: NodeId) -> dict[str, float]:
    """Return how many copies there are on a node that count, by role."""
    found = Counter(_role(shard, node_id) for shard in shards)
    return {role: found[role] for role in (PRIMARY, OPENING, BACKUP)}


def lags_of(shards: Shards) -> dict[str, float]:
    """Return how far other nodes are behind this one, as primary: each at its worst shard.

    Copies that count alone: one in the making is behind by nature.
    """
    worst: dict[str, float] = {}
    for shard in shards:
        duty = shard.replica.primary
        for node_id, peer in duty.peers.items() if duty else ():
            if peer.match:  # Else it has not yet said what it has.
                lag = shard.replica.copy.tip.index - peer.match
                worst[node_id] = max(lag, worst.get(node_id, 0))
    return worst


def _role(shard: Shard, node_id: NodeId) -> str | None:
    newest = shard.replica.newest
    if newest is None or node_id not in newest.members:
        return None
    if newest.primary != node_id:
        return BACKUP
    return PRIMARY if shard.is_open else OPENING
