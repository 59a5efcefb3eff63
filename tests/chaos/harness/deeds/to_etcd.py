"""Faults of etcd."""

from chaos.harness.cluster import Cluster, wait_until
from chaos.harness.schedule import Fault

ALARM = "/v3/maintenance/alarm"
AWAY_S = 3.0
"""Until the start of a node that was killed while etcd was full; its next session is refused."""
DISARMED_S = 60.0


def stop(cluster: Cluster, fault: Fault) -> None:
    """Kill all members."""
    del fault
    for member in cluster.etcd.members:
        member.kill()


def kill_leader(cluster: Cluster, fault: Fault) -> None:
    """Kill the leader."""
    del fault
    cluster.etcd.leader().kill()


def start(cluster: Cluster, fault: Fault) -> None:
    """Start all members again."""
    del fault
    cluster.etcd.start()


def revoke(cluster: Cluster, fault: Fault) -> None:
    """Revoke every lease that etcd has, as fast as it can."""
    del fault
    ask = cluster.etcd.members[0].ask
    for lease in ask("/v3/lease/leases", {}).get("leases", ()):
        ask("/v3/lease/revoke", {"ID": lease["ID"]})


def use_up_quota(cluster: Cluster, fault: Fault) -> None:
    """Have etcd refuse writes, as at its quota; every second time restart a node meanwhile.

    The alarm that a full quota raises is set by hand: an etcd that is really full takes new data
    only after a compaction, and the judge reads the history that a compaction removes.
    """
    member = cluster.etcd.members[0]
    status = member.ask("/v3/maintenance/status", {})
    alarm = {"alarm": "NOSPACE", "memberID": status["header"]["member_id"]}
    member.ask(ALARM, {"action": "ACTIVATE", **alarm})
    if fault.number % 2:
        node = cluster.nodes[fault.hosts[0]]
        node.kill()
        cluster.let_pass(AWAY_S)
        node.spawn()


def disarm(cluster: Cluster, fault: Fault) -> None:
    """Have etcd accept all writes again."""
    del fault

    def is_disarmed() -> bool:
        ask = cluster.etcd.members[0].ask
        alarms = ask(ALARM, {"action": "GET"}).get("alarms", ())
        for alarm in alarms:
            ask(ALARM, {"action": "DEACTIVATE", **alarm})
        return not alarms

    wait_until(is_disarmed, DISARMED_S, "etcd keeps its alarm")
