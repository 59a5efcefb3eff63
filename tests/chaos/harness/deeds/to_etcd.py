"""Faults of etcd."""

from chaos.harness.cluster import Cluster
from chaos.harness.schedule import Fault


def stop(cluster: Cluster, fault: Fault) -> None:
    """Kill all of it."""
    del fault
    for member in cluster.etcd.members:
        member.kill()


def kill_leader(cluster: Cluster, fault: Fault) -> None:
    """Kill the member that leads."""
    del fault
    cluster.etcd.leader().kill()


def start(cluster: Cluster, fault: Fault) -> None:
    """Let all of it be there again."""
    del fault
    cluster.etcd.start()


def revoke(cluster: Cluster, fault: Fault) -> None:
    """Revoke every lease that etcd has, as fast as it can."""
    del fault
    ask = cluster.etcd.members[0].ask
    for lease in ask("/v3/lease/leases", {}).get("leases", ()):
        ask("/v3/lease/revoke", {"ID": lease["ID"]})
