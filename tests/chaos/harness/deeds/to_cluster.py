"""Operations under load: restarts, upgrades, nodes that join and leave."""

from functools import partial

from chaos.harness.cluster import Cluster, wait_until
from chaos.harness.schedule import Fault
from support.rotad import Refusal

MOVE_S = 180.0
"""Limit for a node to join or to leave."""
FORGOTTEN_S = 30.0


def roll(cluster: Cluster, fault: Fault) -> None:
    """Restart each node gracefully, one after the other, each when all copies are there again."""
    del fault
    for node in cluster.nodes.values():
        node.stop()
        node.spawn()
        cluster.wait_safe(MOVE_S)


def upgrade(cluster: Cluster, fault: Fault) -> None:
    """Restart each node likewise, with the other of two builds: the next or the previous."""
    del fault
    build = cluster.other_build()
    for node in cluster.nodes.values():
        node.stop()
        node.build = build
        node.spawn()
        cluster.wait_safe(MOVE_S)


def grow(cluster: Cluster, fault: Fault) -> None:
    """Let the spare nodes join, each after all moves for the previous one are done."""
    del fault
    for name in cluster.spare:
        node = cluster.all_nodes[name]
        node.spawn()
        cluster.nodes[name] = node
        wait_until(partial(_holds, cluster, name), MOVE_S, f"{name} holds nothing")
        cluster.wait_whole(MOVE_S)


def shrink(cluster: Cluster, fault: Fault) -> None:
    """Drain, stop and forget the nodes that joined."""
    del fault
    for name in cluster.spare:
        if name in cluster.nodes:
            _leave(cluster, name)


def _leave(cluster: Cluster, name: str) -> None:
    leaving = cluster.nodes[name]
    staying = next(iter(cluster.nodes.values()))

    staying.call("POST", f"/api/v1/nodes/{name}:drain")
    wait_until(
        lambda: _holds(cluster, name) is False and _runs_nothing(cluster, name),
        MOVE_S,
        lambda: f"{name} does not hold nothing, or still runs something: {cluster.trouble()}",
    )
    leaving.stop()
    del cluster.nodes[name]

    def is_forgotten() -> bool:
        try:
            staying.call("DELETE", f"/api/v1/nodes/{name}")
        except Refusal as refusal:
            return refusal.status == 404
        return True

    wait_until(is_forgotten, FORGOTTEN_S, f"{name} is not forgotten")
    leaving.wipe()


def _holds(cluster: Cluster, name: str) -> bool | None:
    """Return True if a node has copies; None if no node answers."""
    view = cluster.view()
    if view is None:
        return None
    return any(each["nodeId"] == name for shard in view["shards"] for each in shard["replicas"])


def _runs_nothing(cluster: Cluster, name: str) -> bool:
    """Return True if no attempt is left on a node; a drained node finishes its attempts."""
    view = cluster.view()
    loads = [each["load"] for each in view["nodes"] if each["nodeId"] == name] if view else []
    return any(load is not None and load["running"] == 0 for load in loads)
