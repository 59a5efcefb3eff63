"""Faults of disks: lost, set back, damaged, full, slow, failing."""

import random
import shutil

from chaos.harness.cluster import Cluster, wait_until
from chaos.harness.schedule import Fault

OLD_S = 30.0
"""Age of the copy that is put back."""
TAKEOVER_S = 60.0
SAFE_S = 180.0
SYNC_S = (0.3, 1.5)
"""Delay of each sync of a slow disk: within a node's limit, and beyond it."""
ROOM_BYTES = 256 << 10
"""Space left on a disk that fills up: a second of journal, or a few."""

REFUSED = "is alive with this data directory or a copy of it"
_NOT_COPIED = shutil.ignore_patterns("warden.*", "*.sock")


def wipe(cluster: Cluster, fault: Fault) -> None:
    """Lose a host with its disk."""
    node = cluster.nodes[fault.hosts[0]]
    node.kill_host()
    node.wipe()


def set_back(cluster: Cluster, fault: Fault) -> None:
    """Lose a host, and set its disk back to the state of half a minute before.

    Only after other nodes became primary of its shards: a primary whose disk is set back to a state
    before an acknowledgement cannot be distinguished from one that never acknowledged it
    (guarantees.md, "assumed").
    """
    name = fault.hosts[0]
    node = cluster.nodes[name]
    node.kill_host()
    node.keep_copy()
    node.spawn()
    cluster.let_pass(OLD_S)
    node.kill_host()

    def is_replaced() -> bool:
        view = cluster.view()
        return view is not None and not any(
            each["nodeId"] == name and each["role"] == "primary"
            for shard in view["shards"]
            for each in shard["replicas"]
        )

    wait_until(is_replaced, TAKEOVER_S, f"{name} is not replaced")
    node.put_back_copy()


def clone(cluster: Cluster, fault: Fault) -> None:
    """Start a node on a copy of another's disk: under the same id, or every second time another.

    The node itself has no fault. If it loses its session while the copy runs, the copy counts as
    its next life (coordination.md), on a disk that was set back.
    """
    name = fault.hosts[0]
    node = cluster.nodes[name]
    copy = cluster.clone(name, f"{name}c" if fault.number % 2 else name)
    node.stop()
    shutil.copytree(node.data_dir, copy.data_dir, ignore=_NOT_COPIED)
    node.spawn()
    cluster.wait_safe(SAFE_S)
    copy.spawn()


def remove_clone(cluster: Cluster, fault: Fault) -> None:
    """Remove the copy; if it was not refused, record that as an end of the node."""
    name = fault.hosts[0]
    copy = cluster.clone(name, name)
    copy.kill_host()
    if REFUSED not in copy.log() or (copy.data_dir / "warden.lock").exists():
        cluster.nodes[name].note_end("a copy of its disk was not refused")
    shutil.rmtree(copy.data_dir)


def flip(cluster: Cluster, fault: Fault) -> None:
    """Flip a bit in a data file of a host that is off; never on two hosts at a time."""
    cluster.replace_damaged_disks()
    cluster.wait_safe(SAFE_S)
    node = cluster.nodes[fault.hosts[0]]
    node.kill_host()
    rng = random.Random(fault.number)
    files = [
        path
        for path in sorted((node.data_dir / "db").iterdir())
        if path.suffix in (".log", ".sst") and path.stat().st_size
    ]
    path = rng.choice(files)
    place = rng.randrange(path.stat().st_size)
    with path.open("r+b") as file:
        file.seek(place)
        [byte] = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1 << rng.randrange(8)]))
    node.is_damaged = True


def fill(cluster: Cluster, fault: Fault) -> None:
    """Leave almost no room on a small disk; see `Node.on_small_disk`."""
    cluster.nodes[fault.hosts[0]].leave_room(ROOM_BYTES)


def free(cluster: Cluster, fault: Fault) -> None:
    """Give it room again."""
    cluster.nodes[fault.hosts[0]].leave_room()


def freeze(cluster: Cluster, fault: Fault) -> None:
    """Freeze a disk; see `Node.on_volume`."""
    cluster.nodes[fault.hosts[0]].freeze()


def slow_down(cluster: Cluster, fault: Fault) -> None:
    """Slow down each sync."""
    takes_s = random.Random(fault.number).uniform(*SYNC_S)
    cluster.nodes[fault.hosts[0]].order(sync_takes_s=takes_s)


def fail(cluster: Cluster, fault: Fault) -> None:
    """Let each sync fail."""
    cluster.nodes[fault.hosts[0]].order(sync_fails=True)
