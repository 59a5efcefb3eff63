"""Metrics of the copies of shards on this node, and of the backups that follow its primaries.

Labels are roles and nodes, never shards, since a cluster may have 16,384 shards.
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
    """Add the metrics of *shards* on the node *node_id*; reading one takes up to O(shards)."""
    metrics.gauges("rota_shards", lambda: roles_of(shards, node_id))
    metrics.gauges("rota_replication_lag_entries", lambda: lags_of(shards))
    metrics.gauge("rota_entries_uncommitted", lambda: sum(len(shard.entries) for shard in shards))
    metrics.gauge("rota_jobs_silent", lambda: silent_jobs_of(shards))
    metrics.gauge("rota_swaps_waiting", lambda: membership.swaps_waiting)
    metrics.gauge("rota_session_age_seconds", lambda: membership.session_age_s)
    metrics.counter("rota_coordinator_refusals_total", lambda: membership.refusal_count)


def roles_of(shards: Shards, node_id: NodeId) -> dict[str, float]:
    """Return the number of copies on a node that count, by role."""
    found = Counter(_role(shard, node_id) for shard in shards)
    return {role: found[role] for role in (PRIMARY, OPENING, BACKUP)}


def lags_of(shards: Shards) -> dict[str, float]:
    """Return the lag of each other node behind the primaries on this node, in entries.

    The lag of a node is the highest one among its copies.
    """
    worst: dict[str, float] = {}
    for shard in shards:
        duty = shard.replica.primary
        for node_id, peer in duty.peers.items() if duty else ():
            if peer.match:  # Otherwise the peer has not reported its entries yet.
                lag = shard.replica.copy.tip.index - peer.match
                worst[node_id] = max(lag, worst.get(node_id, 0))
    return worst


def silent_jobs_of(shards: Shards) -> int:
    """Return the number of jobs that skip fire times, of the shards that are open here."""
    return sum(each.silent.count for each in shards if each.silent is not None and each.is_open)


def _role(shard: Shard, node_id: NodeId) -> str | None:
    newest = shard.replica.newest
    if newest is None or node_id not in newest.members:
        return None
    if newest.primary != node_id:
        return BACKUP
    return PRIMARY if shard.is_open else OPENING
