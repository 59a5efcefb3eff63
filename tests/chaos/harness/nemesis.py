"""Carries out the faults of a schedule: one function to do each kind, and one to undo it."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from chaos.harness.cluster import Cluster, NeverHappened, wait_until
from chaos.harness.histories import History
from chaos.harness.schedule import KINDS, Fault
from rotad import Refusal

CALM_S = 60.0
"""How long what needs a whole cluster waits for it; then it is left out."""
MOVE_S = 180.0
"""How long a node may take to come or to go."""

Act = Callable[[Cluster, Fault], None]


@dataclass(frozen=True)
class Deed:
    """How a kind of fault is done, and undone."""

    do: Act
    undo: Act


class Nemesis:
    """Does faults to a cluster, and writes down when.

    Args:
        cluster: The victim.
        faults: What to do, in order.
        history: Where it is written down.
    """

    def __init__(self, cluster: Cluster, faults: list[Fault], history: History) -> None:
        self._cluster = cluster
        self._faults = faults
        self._history = history

    def run(self, minutes: float) -> None:
        """Do all of it that can be begun within *minutes*; return when they are over."""
        began = time.monotonic()
        for fault in self._faults:
            time.sleep(max(0.0, began + fault.begins_s - time.monotonic()))
            if time.monotonic() - began > minutes * 60:
                return  # Those before took longer than was planned: until the cluster was whole.
            if KINDS[fault.kind].calm and not self._is_calm():
                self._note(fault, "skip")
            else:
                self._carry_out(fault)
        time.sleep(max(0.0, began + minutes * 60 - time.monotonic()))

    def _carry_out(self, fault: Fault) -> None:
        deed = DEEDS[fault.kind]
        self._note(fault, "begin", revision=self._cluster.etcd_revision())
        try:
            deed.do(self._cluster, fault)
            time.sleep(fault.lasts_s)
        finally:
            deed.undo(self._cluster, fault)
            self._note(fault, "end")

    def _is_calm(self) -> bool:
        try:
            self._cluster.wait_whole(CALM_S)
        except NeverHappened:
            return False
        return True

    def _note(self, fault: Fault, event: str, **facts: int | None) -> None:
        self._history.add(
            fault=fault.number, event=event, kind=fault.kind, hosts=list(fault.hosts), **facts
        )
        print(f"{time.strftime('%T')} {event:5} {fault.kind} {' '.join(fault.hosts)}", flush=True)


# -- to nodes ------------------------------------------------------------------------------------


def _kill(cluster: Cluster, fault: Fault) -> None:
    cluster.nodes[fault.hosts[0]].kill()


def _kill_warden(cluster: Cluster, fault: Fault) -> None:
    cluster.nodes[fault.hosts[0]].kill_warden()


def _kill_host(cluster: Cluster, fault: Fault) -> None:
    """Nobody may learn of it by a connection that is reset: the cable goes first."""
    if cluster.network.can_cut:
        _isolate(cluster, fault)
    cluster.nodes[fault.hosts[0]].kill_host()


def _stop(cluster: Cluster, fault: Fault) -> None:
    cluster.nodes[fault.hosts[0]].stop(60)


def _wipe(cluster: Cluster, fault: Fault) -> None:
    node = cluster.nodes[fault.hosts[0]]
    node.kill_host()
    node.wipe()


def _start(cluster: Cluster, fault: Fault) -> None:
    cluster.network.mend()
    cluster.nodes[fault.hosts[0]].spawn()


def _pause(cluster: Cluster, fault: Fault) -> None:
    cluster.nodes[fault.hosts[0]].pause()


def _pause_both(cluster: Cluster, fault: Fault) -> None:
    cluster.nodes[fault.hosts[0]].pause(with_warden=True)


def _resume(cluster: Cluster, fault: Fault) -> None:
    cluster.nodes[fault.hosts[0]].resume()


def _nothing(cluster: Cluster, fault: Fault) -> None:
    """Nothing is to be undone."""


# -- to the network ------------------------------------------------------------------------------


def _partition(cluster: Cluster, fault: Fault) -> None:
    one, other = map(cluster.host, fault.hosts)
    cluster.network.cut(one, other)
    cluster.network.cut(other, one)


def _one_way(cluster: Cluster, fault: Fault) -> None:
    cluster.network.cut(*map(cluster.host, fault.hosts))


def _isolate(cluster: Cluster, fault: Fault) -> None:
    """Cut a node off from etcd and from all nodes; clients still reach it."""
    one = cluster.host(fault.hosts[0])
    for other in [*cluster.etcd_hosts, *(node.host for node in cluster.nodes.values())]:
        if other is not one:
            cluster.network.cut(one, other)
            cluster.network.cut(other, one)


def _cut_etcd(cluster: Cluster, fault: Fault) -> None:
    one = cluster.host(fault.hosts[0])
    for other in cluster.etcd_hosts:
        cluster.network.cut(one, other)
        cluster.network.cut(other, one)


def _lose(cluster: Cluster, fault: Fault) -> None:
    cluster.network.lose(cluster.host(fault.hosts[0]), 0.1)


def _mend(cluster: Cluster, fault: Fault) -> None:
    del fault
    cluster.network.mend()


# -- to etcd -------------------------------------------------------------------------------------


def _stop_etcd(cluster: Cluster, fault: Fault) -> None:
    del fault
    for member in cluster.etcd.members:
        member.kill()


def _kill_leader(cluster: Cluster, fault: Fault) -> None:
    del fault
    cluster.etcd.leader().kill()


def _start_etcd(cluster: Cluster, fault: Fault) -> None:
    del fault
    cluster.etcd.start()


def _revoke(cluster: Cluster, fault: Fault) -> None:
    """Revoke every lease that etcd has, as fast as it can."""
    del fault
    ask = cluster.etcd.members[0].ask
    for lease in ask("/v3/lease/leases", {}).get("leases", ()):
        ask("/v3/lease/revoke", {"ID": lease["ID"]})


# -- to the cluster ------------------------------------------------------------------------------


def _roll(cluster: Cluster, fault: Fault) -> None:
    """Restart each node in good order, the next when the cluster is whole again."""
    del fault
    for node in cluster.nodes.values():
        node.stop(60)
        node.spawn()
        cluster.wait_whole(MOVE_S)


def _grow(cluster: Cluster, fault: Fault) -> None:
    """Let the spare nodes join, one after the other, until the cluster is whole with them."""
    del fault
    for name, node in cluster.all_nodes.items():
        if name not in cluster.nodes:
            node.spawn()
            cluster.nodes[name] = node
            cluster.wait_whole(MOVE_S)


def _shrink(cluster: Cluster, fault: Fault) -> None:
    """Drain, stop and forget those that joined."""
    del fault
    for name in list(cluster.nodes)[-2:]:
        _leave(cluster, name)


def _leave(cluster: Cluster, name: str) -> None:
    leaving = cluster.nodes[name]
    staying = next(node for node in cluster.nodes.values() if node is not leaving)

    def holds_nothing() -> bool:
        view = cluster.view()
        return view is not None and not any(
            each["nodeId"] == name for shard in view["shards"] for each in shard["replicas"]
        )

    staying.call("POST", f"/api/v1/nodes/{name}:drain")
    wait_until(holds_nothing, MOVE_S, f"{name} does not hold nothing: {cluster.trouble()}")
    leaving.stop(60)
    del cluster.nodes[name]

    def is_forgotten() -> bool:
        try:
            staying.call("DELETE", f"/api/v1/nodes/{name}")
        except Refusal as refusal:
            return refusal.status == 404
        return True

    wait_until(is_forgotten, 30, f"{name} is not forgotten")
    leaving.wipe()


DEEDS = {
    "kill": Deed(_kill, _start),
    "kill-warden": Deed(_kill_warden, _nothing),
    "kill-host": Deed(_kill_host, _start),
    "stop": Deed(_stop, _start),
    "pause": Deed(_pause, _resume),
    "pause-both": Deed(_pause_both, _resume),
    "wipe": Deed(_wipe, _start),
    "partition": Deed(_partition, _mend),
    "one-way": Deed(_one_way, _mend),
    "isolate": Deed(_isolate, _mend),
    "cut-etcd": Deed(_cut_etcd, _mend),
    "loss": Deed(_lose, _mend),
    "etcd-stop": Deed(_stop_etcd, _start_etcd),
    "etcd-leader": Deed(_kill_leader, _start_etcd),
    "revoke": Deed(_revoke, _nothing),
    "rolling": Deed(_roll, _nothing),
    "grow": Deed(_grow, _shrink),
}
