"""How each kind of fault is done and undone: one module for each part that is broken."""

from collections.abc import Callable
from dataclasses import dataclass

from chaos.harness.cluster import Cluster
from chaos.harness.deeds import to_cluster, to_disks, to_etcd, to_etcd_data, to_network, to_nodes
from chaos.harness.schedule import Fault

Act = Callable[[Cluster, Fault], None]


@dataclass(frozen=True)
class Deed:
    """How a kind of fault is done, and undone."""

    do: Act
    undo: Act


def nothing(cluster: Cluster, fault: Fault) -> None:
    """Nothing is to be undone."""


DEEDS = {
    "kill": Deed(to_nodes.kill, to_nodes.start),
    "kill-warden": Deed(to_nodes.kill_warden, nothing),
    "kill-host": Deed(to_nodes.kill_host, to_nodes.start),
    "stop": Deed(to_nodes.stop, to_nodes.start),
    "pause": Deed(to_nodes.pause, to_nodes.resume),
    "pause-both": Deed(to_nodes.pause_both, to_nodes.resume),
    "clock": Deed(to_nodes.set_wall_clock, to_nodes.obey),
    "wipe": Deed(to_disks.wipe, to_nodes.start),
    "old-copy": Deed(to_disks.set_back, to_nodes.start),
    "cloned-directory": Deed(to_disks.clone, to_disks.remove_clone),
    "flip": Deed(to_disks.flip, to_nodes.start),
    "disk-full": Deed(to_disks.fill, to_disks.free),
    "frozen-disk": Deed(to_disks.freeze, to_nodes.obey),
    "slow-disk": Deed(to_disks.slow_down, to_nodes.obey),
    "bad-disk": Deed(to_disks.fail, to_nodes.obey),
    "partition": Deed(to_network.partition, to_network.mend),
    "one-way": Deed(to_network.cut_one_way, to_network.mend),
    "isolate": Deed(to_network.isolate, to_network.mend),
    "refuse": Deed(to_network.refuse, to_network.mend),
    "ring": Deed(to_network.make_ring, to_network.mend),
    "zone": Deed(to_network.cut_zone, to_network.mend),
    "swizzle": Deed(to_network.isolate_in_turn, to_network.rejoin_in_turn),
    "cut-etcd": Deed(to_network.cut_etcd, to_network.mend),
    "loss": Deed(to_network.lose, to_network.mend),
    "slow-link": Deed(to_network.delay, to_network.mend),
    "stale-link": Deed(to_network.make_stale, to_network.mend),
    "etcd-stop": Deed(to_etcd.stop, to_etcd.start),
    "etcd-leader": Deed(to_etcd.kill_leader, to_etcd.start),
    "etcd-quota": Deed(to_etcd.use_up_quota, to_etcd.disarm),
    "etcd-restored": Deed(to_etcd_data.restore, to_etcd_data.recover),
    "revoke": Deed(to_etcd.revoke, nothing),
    "rolling": Deed(to_cluster.roll, nothing),
    "upgrade": Deed(to_cluster.upgrade, nothing),
    "grow": Deed(to_cluster.grow, to_cluster.shrink),
}
