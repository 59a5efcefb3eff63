"""Faults of the network between hosts. Clients reach all nodes whatever is cut."""

from collections.abc import Iterable

from chaos.harness.cluster import Cluster
from chaos.harness.network import Host
from chaos.harness.schedule import Fault

IN_TURN_S = 2.0
"""From one host of a swizzle to the next."""
LOST = 0.1
DELAY_S = (0.02, 0.2)
"""Range of the delay of a slow link, so that packets also overtake each other."""
STALE_S = (3.4, 3.4)
"""Delay of a stale link: other nodes have continued without the node where its leases are shorter,
and have not closed the connection, which they do after 4 s."""
AT_ONCE = (0.0, 0.0)


def partition(cluster: Cluster, fault: Fault) -> None:
    """Cut two nodes off from each other."""
    one, other = map(cluster.host, fault.hosts)
    _cut(cluster, one, [other])


def cut_one_way(cluster: Cluster, fault: Fault) -> None:
    """Cut one direction between two nodes; the other direction stays open."""
    cluster.network.cut(*map(cluster.host, fault.hosts))


def isolate(cluster: Cluster, fault: Fault) -> None:
    """Cut a node off from etcd and from all nodes."""
    _cut(cluster, cluster.host(fault.hosts[0]), _servers(cluster))


def refuse(cluster: Cluster, fault: Fault) -> None:
    """Refuse all connections between a node and the other nodes and etcd."""
    one = cluster.host(fault.hosts[0])
    for other in _servers(cluster):
        if other is not one:
            cluster.network.cut(one, other, refuse=True)
            cluster.network.cut(other, one, refuse=True)


def make_ring(cluster: Cluster, fault: Fault) -> None:
    """Connect each node to its two neighbours alone: every node has another majority."""
    ring = [cluster.host(name) for name in fault.hosts]
    for position, one in enumerate(ring):
        reachable = {ring[position - 1], one, ring[(position + 1) % len(ring)]}
        for other in ring:
            if other not in reachable:
                cluster.network.cut(other, one)


def cut_zone(cluster: Cluster, fault: Fault) -> None:
    """Cut some nodes, with the last member of etcd if that is not all of it, off from the rest."""
    zone = [cluster.host(name) for name in fault.hosts]
    if len(cluster.etcd_hosts) > 1:
        zone.append(cluster.etcd_hosts[-1])
    for host in zone:
        _cut(cluster, host, [other for other in _servers(cluster) if other not in zone])


def isolate_in_turn(cluster: Cluster, fault: Fault) -> None:
    """Cut off one node, then one more, until every one is alone."""
    cut: list[Host] = []
    for name in fault.hosts:
        host = cluster.host(name)
        _cut(cluster, host, [other for other in _servers(cluster) if other not in cut])
        cut.append(host)
        cluster.let_pass(IN_TURN_S)


def rejoin_in_turn(cluster: Cluster, fault: Fault) -> None:
    """Connect one host after the other to the hosts that are not cut off; the second one first."""
    cut = [cluster.host(name) for name in fault.hosts]
    for host in [*cut[1:], cut[0]]:
        cut.remove(host)
        for other in _servers(cluster):
            if other is not host and other not in cut:
                cluster.network.join(host, other)
                cluster.network.join(other, host)
        cluster.let_pass(IN_TURN_S)


def cut_etcd(cluster: Cluster, fault: Fault) -> None:
    """Cut a node off from etcd alone."""
    _cut(cluster, cluster.host(fault.hosts[0]), cluster.etcd_hosts)


def lose(cluster: Cluster, fault: Fault) -> None:
    """Lose some of the packets to a node."""
    cluster.network.lose(cluster.host(fault.hosts[0]), LOST)


def delay(cluster: Cluster, fault: Fault) -> None:
    """Delay all packets to and from a node."""
    cluster.network.delay(cluster.host(fault.hosts[0]), DELAY_S, DELAY_S)


def make_stale(cluster: Cluster, fault: Fault) -> None:
    """Delay all packets from a node, in order; packets to it arrive at once."""
    cluster.network.delay(cluster.host(fault.hosts[0]), STALE_S, AT_ONCE)


def mend(cluster: Cluster, fault: Fault) -> None:
    """Undo all of these faults."""
    del fault
    cluster.network.mend()


def _cut(cluster: Cluster, host: Host, others: Iterable[Host]) -> None:
    for other in others:
        if other is not host:
            cluster.network.cut(host, other)
            cluster.network.cut(other, host)


def _servers(cluster: Cluster) -> list[Host]:
    return [*cluster.etcd_hosts, *(node.host for node in cluster.nodes.values())]
