"""Faults of processes and of a host's wall clock."""

from chaos.harness.cluster import Cluster
from chaos.harness.deeds.to_network import isolate
from chaos.harness.schedule import Fault

JUMPS_S = (3_600.0, -3_600.0, 2.0, -2.0, 86_400.0, -0.8)
"""Jumps of a wall clock, used in turn; each exceeds the permitted clock skew."""


def kill(cluster: Cluster, fault: Fault) -> None:
    """Kill the process alone: its warden notifies the other nodes."""
    cluster.nodes[fault.hosts[0]].kill()


def kill_warden(cluster: Cluster, fault: Fault) -> None:
    """Kill the warden, which takes its attempts with it."""
    cluster.nodes[fault.hosts[0]].kill_warden()


def kill_host(cluster: Cluster, fault: Fault) -> None:
    """Cut the network first, so that no node detects the end by a reset connection."""
    if cluster.network.can_cut:
        isolate(cluster, fault)
    cluster.nodes[fault.hosts[0]].kill_host()


def stop(cluster: Cluster, fault: Fault) -> None:
    """Stop the node gracefully."""
    cluster.nodes[fault.hosts[0]].stop()


def start(cluster: Cluster, fault: Fault) -> None:
    """Start the node again, on a network without cuts."""
    cluster.network.mend()
    cluster.nodes[fault.hosts[0]].spawn()


def pause(cluster: Cluster, fault: Fault) -> None:
    """Pause the process."""
    cluster.nodes[fault.hosts[0]].pause()


def pause_both(cluster: Cluster, fault: Fault) -> None:
    """Pause process and warden, so that nothing can end the node's attempts."""
    cluster.nodes[fault.hosts[0]].pause(with_warden=True)


def resume(cluster: Cluster, fault: Fault) -> None:
    """Resume all paused processes."""
    cluster.nodes[fault.hosts[0]].resume()


def set_wall_clock(cluster: Cluster, fault: Fault) -> None:
    """Let the wall clock of one host jump."""
    ahead_s = JUMPS_S[fault.number % len(JUMPS_S)]
    cluster.nodes[fault.hosts[0]].order(ahead_s=ahead_s)


def obey(cluster: Cluster, fault: Fault) -> None:
    """Give a host its true wall clock, and a disk that works and syncs."""
    cluster.nodes[fault.hosts[0]].obey_nothing()
