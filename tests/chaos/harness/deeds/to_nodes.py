"""Faults of processes, and of what a host believes of the time."""

from chaos.harness.cluster import Cluster
from chaos.harness.deeds.to_network import isolate
from chaos.harness.schedule import Fault

JUMPS_S = (3_600.0, -3_600.0, 2.0, -2.0, 86_400.0, -0.8)
"""By how much a calendar jumps, one after the other; all more than nodes may differ by."""


def kill(cluster: Cluster, fault: Fault) -> None:
    """Kill the process alone: its warden tells everybody."""
    cluster.nodes[fault.hosts[0]].kill()


def kill_warden(cluster: Cluster, fault: Fault) -> None:
    """Kill the warden, which takes its attempts with it."""
    cluster.nodes[fault.hosts[0]].kill_warden()


def kill_host(cluster: Cluster, fault: Fault) -> None:
    """Nobody may learn of it by a connection that is reset: the cable goes first."""
    if cluster.network.can_cut:
        isolate(cluster, fault)
    cluster.nodes[fault.hosts[0]].kill_host()


def stop(cluster: Cluster, fault: Fault) -> None:
    """Stop it in good order."""
    cluster.nodes[fault.hosts[0]].stop()


def start(cluster: Cluster, fault: Fault) -> None:
    """Let it be there again."""
    cluster.network.mend()
    cluster.nodes[fault.hosts[0]].spawn()


def pause(cluster: Cluster, fault: Fault) -> None:
    """Let the process stand still."""
    cluster.nodes[fault.hosts[0]].pause()


def pause_both(cluster: Cluster, fault: Fault) -> None:
    """Let process and warden stand still, so that nobody is there to end what runs."""
    cluster.nodes[fault.hosts[0]].pause(with_warden=True)


def resume(cluster: Cluster, fault: Fault) -> None:
    """Let all go on."""
    cluster.nodes[fault.hosts[0]].resume()


def set_calendar(cluster: Cluster, fault: Fault) -> None:
    """Let the calendar of one host jump."""
    ahead_s = JUMPS_S[fault.number % len(JUMPS_S)]
    cluster.nodes[fault.hosts[0]].order(ahead_s=ahead_s)


def obey(cluster: Cluster, fault: Fault) -> None:
    """Give a host its true calendar, and a disk that works and syncs."""
    cluster.nodes[fault.hosts[0]].obey_nothing()
