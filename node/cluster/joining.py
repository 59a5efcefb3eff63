"""Joining of a node to its cluster, which the first node founds.

The shape of a cluster is fixed when its first node founds it, and is stored in etcd under ``meta``.
Every node has the same settings too, and does not start if they differ from those in etcd:
otherwise an operator could set a value without effect and not notice.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from rota.core.model.ids import NodeId
from rota.core.replication.timeouts import Timing
from rota.core.timing.instants import MILLISECOND, Duration, format_duration
from rota.node.coordination.coordinator import Cluster, Coordinator, Member
from rota.node.coordination.coordinator_errors import CoordinatorError
from rota.node.system.config import NodeConfig
from rota.storage.directory import Identity


class WrongCluster(CoordinatorError):
    """The settings or the data of this node do not belong to the cluster in etcd."""

    code = "wrong_cluster"


class WrongNode(WrongCluster):
    """The data directory of this node belongs to another node, or is a copy of such a directory."""

    code = "wrong_node"


FIXED: dict[str, Callable[[NodeConfig | Cluster], object]] = {
    "shards": lambda each: each.shards,
    "replicas": lambda each: each.replicas,
    "min_sync": lambda each: each.min_sync,
    "session_ttl": lambda each: format_duration(each.session_ttl),
    "peer_lease": lambda each: format_duration(each.peer_lease),
    "attempt_lease": lambda each: format_duration(each.attempt_lease),
}
"""The settings that are fixed for a cluster."""


async def join(
    config: NodeConfig, coordinator: Coordinator, known: Identity | None, new_id: str
) -> Cluster:
    """Return the cluster of this node; found it if etcd has no record of it and this node is new.

    If etcd has no record of the cluster, a node that awaits a recovery takes the cluster from its
    own data and settings.

    Args:
        config: The configuration of this node.
        coordinator: The coordinator, which has the record of the cluster.
        known: The identity of the node's data; None if the node has no data yet.
        new_id: A random id for the cluster, if it is founded now.

    Raises:
        WrongCluster: The cluster has other settings; the node's data belong to another cluster; or
            etcd has no record of the cluster, and the node either has data and does not await a
            recovery, or awaits a recovery and has no data.
        CoordinatorError: The coordinator does not answer, or this version cannot share it with
            nodes of the cluster's version.
    """
    is_asked = known is not None or config.await_recovery
    if is_asked and (await coordinator.view()).cluster is None:
        return _unfounded(config, known)
    cluster = await coordinator.found(cluster_of(config, new_id))
    _check_settings(config, cluster)
    _check_data(config.data_dir, known, cluster)
    return cluster


def _unfounded(config: NodeConfig, known: Identity | None) -> Cluster:
    """Return the cluster of a node's data, for an etcd that has no record of the cluster.

    Raises:
        WrongCluster: The node awaits no recovery or has no data, or the cluster has other settings.
    """
    if known is None:
        raise WrongCluster(
            f"etcd has no record of cluster {config.cluster!r}, and data directory "
            f"{config.data_dir} is empty: a node without data cannot take part in a recovery. "
            "Start it after the recovery, or without --await-recovery to found a cluster"
        )
    if not config.await_recovery:
        # If this node founded the cluster again, the shards of other nodes would lack their data.
        raise WrongCluster(
            f"etcd has no record of cluster {config.cluster!r}, and data directory "
            f"{config.data_dir} already belongs to a cluster ({known.cluster}): etcd has lost its "
            "data, or --etcd or --cluster is wrong. Correct the settings; or, if etcd has lost its "
            "data, start all nodes with --await-recovery and run "
            "`rota cluster recover-coordination`"
        )
    cluster = msgspec.structs.replace(cluster_of(config, known.cluster), shards=known.shard_count)
    _check_settings(config, cluster)
    return cluster


def cluster_of(config: NodeConfig, cluster_id: str) -> Cluster:
    """Return the cluster that a node with these settings founds or belongs to.

    Args:
        config: The configuration of the node.
        cluster_id: The id of the cluster.
    """
    return Cluster(
        id=cluster_id,
        shards=config.shards,
        replicas=config.replicas,
        min_sync=config.min_sync,
        session_ttl=config.session_ttl,
        peer_lease=config.peer_lease,
        attempt_lease=config.attempt_lease,
    )


def _check_settings(config: NodeConfig, cluster: Cluster) -> None:
    different = [
        f"{name} = {of(cluster)} (here {of(config)})"
        for name, of in FIXED.items()
        if of(config) != of(cluster)
    ]
    if different:
        raise WrongCluster(
            f"cluster {config.cluster!r} was founded with {', '.join(different)}, which is fixed "
            "for all of its nodes. Use the same settings here, or name another cluster"
        )


def _check_data(path: Path, known: Identity | None, cluster: Cluster) -> None:
    if known is not None and known.cluster != cluster.id:
        raise WrongCluster(
            f"data directory {path} belongs to cluster {known.cluster}, but the cluster in etcd is "
            f"{cluster.id}: the directory is that of a node without a cluster, or of another "
            "cluster. Name the right etcd (--etcd) and cluster (--cluster), or another directory "
            "(--data-dir). Or etcd lost its data, and a node without data founded another cluster "
            'in it: keep this directory, and see "etcd lost its state" in docs/how-to/operate.md'
        )


def check_owner(
    config: NodeConfig, known: Identity | None, members: Mapping[NodeId, Member]
) -> None:
    """Check that the node's data directory is not that of another node, alive or not.

    Raises:
        WrongNode: The data directory is that of another node.
    """
    for member in members.values():
        if known and member.store_id == known.store_id and member.node_id != config.node_id:
            raise WrongNode(
                f'data directory {config.data_dir} is that of node "{member.node_id}", or a copy '
                f'of it, but this node is "{config.node_id}": start it with --node-id '
                f"{member.node_id} if it is that node, or with an empty data directory (--data-dir)"
            )


def timing_of(cluster: Cluster) -> Timing:
    """Return the durations of a cluster: three are settings, the others are computed from them.

    A backup gets five beats within its lease, so that four answers may be lost; a backup that is
    silent for the whole lease counts as dead.
    """
    lease = cluster.peer_lease
    return Timing(
        session=cluster.session_ttl,
        peer_lease=lease,
        beat=Duration(lease // 5),
        silence=lease,
        answered=Duration(lease // 2),
        takeover_step=min(Duration(150 * MILLISECOND), Duration(lease // 10)),
        handover=Duration(lease // 4),
        query=Duration(lease // 2),
        attempt_lease=cluster.attempt_lease,
        kill_grace=Duration(cluster.attempt_lease // 3),
    )
