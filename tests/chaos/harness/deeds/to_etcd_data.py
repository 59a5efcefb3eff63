"""Loss of etcd's state: etcd is set back to a snapshot, and recovered as by an operator."""

import random
import shutil
import time
from itertools import product
from pathlib import Path

from chaos.harness.cluster import Cluster, Json, NeverHappened, wait_until
from chaos.harness.hosts import Node
from chaos.harness.schedule import Fault
from support.etcd import Etcd
from support.rotad import Refusal

SAFE_S = 180.0
COUNTED_OUT_S = 60.0
NOTICED_S = 60.0
RECOVERED_S = 60.0
WORKS_S = (1.0, 6.0)
"""How long the others acknowledge requests while a node is away."""
BETWEEN_STARTS_S = (0.0, 4.0)
OLD_SNAPSHOT = 0.25
"""How often the snapshot of an earlier fault is used again: it is older than its recovery."""
GENERATION_BITS = 40
SOUND = "coordination_sound"
PROGRESS = {"recovered", "changed"}


def restore(cluster: Cluster, fault: Fault) -> None:
    """Set etcd back to a state before copies were removed, while nodes run or before they start.

    The first node to start is one that has seen what the snapshot lacks: a change that no running
    node has seen cannot be noticed (protocol.md, "When etcd loses its state").
    """
    rng = _rng(fault)
    if not _snapshot(cluster.etcd.members[0]).exists() or rng.random() >= OLD_SNAPSHOT:
        _take_snapshot(cluster)
    away = cluster.nodes[fault.hosts[0]]
    _send_away(cluster, away, rng)
    if rng.random() < 0.5:
        away.spawn()
        cluster.wait_safe(SAFE_S)
        away = cluster.nodes[fault.hosts[1]]
        _send_away(cluster, away, rng)
    cluster.let_pass(rng.uniform(*WORKS_S))
    if rng.random() < 0.5:
        for name in fault.hosts:
            if cluster.nodes[name].is_running:
                _end(cluster.nodes[name], rng)
    down = [node for node in cluster.nodes.values() if not node.is_running]
    rng.shuffle(down)
    if down[0] is away:
        down.reverse()
    _say(f"etcd is set back; then start: {', '.join(node.name for node in down)}")
    _set_back(cluster)
    for node in down:
        cluster.let_pass(rng.uniform(*BETWEEN_STARTS_S))
        node.spawn()


def recover(cluster: Cluster, fault: Fault) -> None:
    """Recover the cluster, at any node, after all have detected the loss, until it is done."""
    rng = _rng(fault)
    nodes = [*cluster.nodes.values()]

    def unaware() -> str:
        cluster.tend()
        return ", ".join(node.name for node in nodes if not _has_noticed(node))

    def is_sound() -> bool:
        cluster.tend()
        return _recover_at(rng.choice(nodes))

    wait_until(
        lambda: not unaware(), NOTICED_S, lambda: f"{unaware()} did not notice that etcd lost"
    )
    wait_until(is_sound, RECOVERED_S, "the cluster is not recovered")
    cluster.wait_safe(SAFE_S)


def _rng(fault: Fault) -> random.Random:
    return random.Random(f"{fault.number} {fault.hosts} {fault.lasts_s}")


def _say(text: str) -> None:
    print(f"{time.strftime('%T')}       {text}", flush=True)


# -- etcd ------------------------------------------------------------------------------------------


def _snapshot(member: Etcd) -> Path:
    return member.data_dir.with_name(f"{member.name}.snapshot")


def _take_snapshot(cluster: Cluster) -> None:
    """Stop etcd, copy its data, and start it again."""
    for member in cluster.etcd.members:
        member.kill()
    for member in cluster.etcd.members:
        shutil.rmtree(_snapshot(member), ignore_errors=True)
        shutil.copytree(member.data_dir, _snapshot(member))
    cluster.etcd.start()


def _set_back(cluster: Cluster) -> None:
    """Replace etcd's data by the snapshot, after its revisions are recorded for the judge.

    Nodes are cut off meanwhile, so that etcd takes nothing that is not written down.
    """
    between = list(product((node.host for node in cluster.nodes.values()), cluster.etcd_hosts))
    for node, member in between:
        cluster.network.cut(node, member)
        cluster.network.cut(member, node)
    _restart(cluster)
    cluster.etcd_history.cut()
    for each in cluster.etcd.members:
        each.kill()
        shutil.rmtree(each.data_dir)
        shutil.copytree(_snapshot(each), each.data_dir)
    cluster.etcd.start()
    cluster.etcd_history.resume()
    for node, member in between:
        cluster.network.join(node, member)
        cluster.network.join(member, node)


def _restart(cluster: Cluster) -> None:
    """Restart etcd: requests that it had received are done then, or never."""
    for member in cluster.etcd.members:
        member.kill()
    cluster.etcd.start()


# -- nodes -----------------------------------------------------------------------------------------


def _end(node: Node, rng: random.Random) -> None:
    """Stop a node gracefully, or kill it."""
    if rng.random() < 0.5:
        node.stop()
    else:
        node.kill()


def _send_away(cluster: Cluster, node: Node, rng: random.Random) -> None:
    """End a node, and wait until its copies count no more."""
    _end(node, rng)

    def is_counted_out() -> bool:
        view = cluster.view()
        return view is not None and not any(
            each["nodeId"] == node.name and each["role"] != "learner"
            for shard in view["shards"]
            for each in shard["replicas"]
        )

    wait_until(is_counted_out, COUNTED_OUT_S, f"{node.name} still counts")


def _has_noticed(node: Node) -> bool:
    """Return True if a node follows no configuration of the last generation that it has seen."""
    try:
        inventory: Json = node.call("GET", "/api/v1/cluster/inventory")
    except (Refusal, OSError):
        return False
    seen = [each["seen"]["epoch"] for each in inventory["shards"] if each["seen"]]
    lost = inventory["lost"]
    return lost is not None and lost >= max(seen, default=0) >> GENERATION_BITS


def _recover_at(node: Node) -> bool:
    """Ask a node for a recovery; return True if nothing was left to recover.

    Raises:
        NeverHappened: What is left stays closed however often the recovery is run.
    """
    try:
        done: Json = node.call("POST", "/api/v1/cluster/recovery")
    except (Refusal, OSError) as error:
        _say(f"recovery at {node.name}: {error}")
        return isinstance(error, Refusal) and error.problem["code"] == SOUND
    outcomes = [each["outcome"] for each in done["shards"]]
    counts = {each: outcomes.count(each) for each in sorted(set(outcomes))}
    _say(f"recovery at {node.name}: generation {done['generation']}, {counts}")
    if not {*outcomes} & PROGRESS:
        raise NeverHappened(f"the recovery leaves shards closed: {counts}")
    return False
