"""Drain of a node at its stop, with and without successors."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.core.model.ids import NodeId, ShardId
from rota.core.timing.instants import SECOND
from rota.node.cluster.drain import WITHIN_S
from support.cluster import Cluster
from support.etcd import EtcdCluster, needs_etcd
from support.in_process import save
from support.rotad import Refusal, Rotad
from support.stopping import stop
from support.virtual_nodes import TIMING, A, B, C, Node, Nodes, run, until

FIRST = ShardId(0)
SILENCE_S = TIMING.silence / SECOND


async def stopped(node: Node) -> None:
    """Request the stop of a node, and wait for its end."""
    node.stop()
    await node.ended_by_itself()


def holders(nodes: Nodes) -> set[NodeId]:
    """Return the nodes whose copies of any shard count."""
    configurations = nodes.server.state.view().configurations.values()
    return {node_id for each in configurations for node_id in each.members}


def primaries(nodes: Nodes) -> set[NodeId]:
    """Return the primaries of all shards."""
    return {each.primary for each in nodes.server.state.view().configurations.values()}


def test_a_drained_node_leaves_no_shard_and_no_session_behind() -> None:
    async def story(nodes: Nodes) -> None:
        await stopped(nodes[A])

        assert primaries(nodes) == {B}
        assert holders(nodes) == {B, C}
        assert nodes.session_of(A) is None
        # The handover did not need the detection of a silent node.
        assert nodes.primary(FIRST) is nodes[B].shards[FIRST]

    run(story)


def test_a_backup_that_stops_is_not_waited_for() -> None:
    async def story(nodes: Nodes) -> None:
        began_at = nodes.loop.time()

        await stopped(nodes[C])

        assert nodes.loop.time() - began_at < SILENCE_S
        assert holders(nodes) == {A, B}
        assert primaries(nodes) == {A}

    run(story)


def test_a_restarted_node_holds_its_shards_again() -> None:
    async def story(nodes: Nodes) -> None:
        await stopped(nodes[A])

        await nodes[A].start()
        await nodes.settle()

        assert primaries(nodes) == {A}
        assert holders(nodes) == {A, B, C}

    run(story)


def test_a_node_without_a_successor_stops_at_once() -> None:
    async def story(nodes: Nodes) -> None:
        for other in (B, C):
            await nodes[other].end()
        await until(lambda: nodes.session_of(B) is None and nodes.session_of(C) is None)
        await asyncio.sleep(1)
        began_at = nodes.loop.time()

        await stopped(nodes[A])

        assert nodes.loop.time() - began_at < 1

    run(story)


def test_nodes_that_stop_together_do_not_wait_for_one_another() -> None:
    async def story(nodes: Nodes) -> None:
        began_at = nodes.loop.time()

        async with asyncio.TaskGroup() as group:
            for node_id in (A, B, C):
                group.create_task(stopped(nodes[node_id]))

        assert nodes.loop.time() - began_at < WITHIN_S

    run(story)


def test_the_wait_for_successors_that_do_not_take_over_is_limited() -> None:
    async def story(nodes: Nodes) -> None:
        nodes.cut(A, B, C)
        await asyncio.sleep(2 * SILENCE_S)
        began_at = nodes.loop.time()

        await stopped(nodes[A])

        assert WITHIN_S <= nodes.loop.time() - began_at < WITHIN_S + 2

    run(story)


@pytest.mark.parametrize("dead", [B, C])
@pytest.mark.parametrize("before_s", [0.0, 0.5 * SILENCE_S])
def test_a_peer_that_has_just_ended_delays_a_stop_by_its_silence_at_most(
    dead: NodeId, before_s: float
) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes[dead].end()
        await asyncio.sleep(before_s)
        saving = nodes.group.create_task(save(nodes[A].shards, "job"))
        await asyncio.sleep(0.01)
        began_at = nodes.loop.time()

        await stopped(nodes[A])

        assert saving.done()
        assert nodes.loop.time() - began_at < 2 * SILENCE_S
        assert primaries(nodes) == {B, C} - {dead}

    run(story)


def test_a_stop_waits_once_for_an_uncommittable_write() -> None:
    async def story(nodes: Nodes) -> None:
        nodes.cut(A, B, C)
        saving = nodes.group.create_task(save(nodes[A].shards, "job"))
        await asyncio.sleep(0.01)
        began_at = nodes.loop.time()

        await stopped(nodes[A])

        assert WITHIN_S <= nodes.loop.time() - began_at < WITHIN_S + 1
        saving.cancel()

    run(story)


@pytest.fixture
def steady(tmp_path: Path, etcd: EtcdCluster) -> Iterator[Cluster]:
    """Three real nodes with a long session TTL in etcd."""
    with Cluster(tmp_path, etcd, 3, "--session-ttl", "60s") as cluster:
        yield cluster.start()


@needs_etcd
def test_a_stopping_node_is_unready_at_once_and_continues_to_answer(steady: Cluster) -> None:
    first, *others = steady
    # The handover takes some time: it needs answers of the paused nodes.
    for other in others:
        assert other.process is not None
        stop(other.process.pid)
    steady.wait_until(lambda: counts_one_less(steady), "the paused nodes are not removed")

    send(first, signal.SIGTERM)

    first.wait_until(lambda: "the node is stopping" in why_unready(first))
    assert first.call("GET", "/version")["nodeId"] == "n1"
    for other in others:
        send(other, signal.SIGCONT)
    assert first.exit_status() == 0


def send(node: Rotad, number: signal.Signals) -> None:
    """Send a node's process a signal."""
    assert node.process is not None
    node.process.send_signal(number)


def why_unready(node: Rotad) -> str:
    """Return the reason why a node is unready; empty if it is ready."""
    try:
        node.call("GET", "/readyz")
    except Refusal as refusal:
        return str(refusal.problem["detail"])
    return ""


def counts_one_less(cluster: Cluster) -> bool:
    """Return True if the first node's shards count one copy less."""
    held = [each for each in cluster.configurations().values() if each["primary"] == "n1"]
    return all(len(each["sync"]) == 2 for each in held)
