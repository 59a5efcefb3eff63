"""A node that is asked to stop gives away what it holds, and stops; if it can, and if not."""

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
from support.virtual_nodes import TIMING, A, B, C, Node, Nodes, run, until

FIRST = ShardId(0)
SILENCE_S = TIMING.silence / SECOND


async def stopped(node: Node) -> None:
    """Ask a node to stop, and return when it has."""
    node.stop()
    await node.ended_by_itself()


def holders(nodes: Nodes) -> set[NodeId]:
    """Return the nodes whose copies of any shard count."""
    configurations = nodes.server.state.view().configurations.values()
    return {node_id for each in configurations for node_id in each.members}


def primaries(nodes: Nodes) -> set[NodeId]:
    """Return the nodes that decide for any shard."""
    return {each.primary for each in nodes.server.state.view().configurations.values()}


def test_it_leaves_nothing_behind_that_anybody_would_wait_for() -> None:
    async def story(nodes: Nodes) -> None:
        await stopped(nodes[A])

        assert primaries(nodes) == {B}
        assert holders(nodes) == {B, C}
        assert nodes.session_of(A) is None
        # Nobody's silence had to be noticed for that.
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


def test_back_again_it_holds_its_part() -> None:
    async def story(nodes: Nodes) -> None:
        await stopped(nodes[A])

        await nodes[A].start()
        await nodes.settle()

        assert primaries(nodes) == {A}
        assert holders(nodes) == {A, B, C}

    run(story)


def test_where_nobody_can_take_its_place_it_stops_at_once() -> None:
    async def story(nodes: Nodes) -> None:
        for other in (B, C):
            await nodes[other].end()
        await until(lambda: nodes.session_of(B) is None and nodes.session_of(C) is None)
        await asyncio.sleep(1)
        began_at = nodes.loop.time()

        await stopped(nodes[A])

        assert nodes.loop.time() - began_at < 1

    run(story)


def test_all_that_stop_together_do_not_wait_for_one_another() -> None:
    async def story(nodes: Nodes) -> None:
        began_at = nodes.loop.time()

        async with asyncio.TaskGroup() as group:
            for node_id in (A, B, C):
                group.create_task(stopped(nodes[node_id]))

        assert nodes.loop.time() - began_at < WITHIN_S

    run(story)


def test_it_waits_no_longer_than_so_long_for_others_that_do_not_take_it() -> None:
    async def story(nodes: Nodes) -> None:
        nodes.cut(A, B, C)
        await asyncio.sleep(2 * SILENCE_S)
        began_at = nodes.loop.time()

        await stopped(nodes[A])

        assert WITHIN_S <= nodes.loop.time() - began_at < WITHIN_S + 2

    run(story)


@pytest.mark.parametrize("dead", [B, C])
@pytest.mark.parametrize("before_s", [0.0, 0.5 * SILENCE_S])
def test_another_that_has_just_died_holds_it_up_for_its_silence_at_most(
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


def test_what_cannot_be_committed_is_waited_for_once() -> None:
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
    """Three real nodes of which etcd does not say so soon that one is gone."""
    with Cluster(tmp_path, etcd, 3, "--session-ttl", "60s") as cluster:
        yield cluster.start()


@needs_etcd
def test_it_says_at_once_that_it_is_not_ready_and_goes_on_answering(steady: Cluster) -> None:
    first, *others = steady
    # So that it takes a while: they would have to answer before anything could go to them.
    for other in others:
        send(other, signal.SIGSTOP)
    steady.wait_until(lambda: counts_one_less(steady), "nobody is missed")

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
    """Return why a node does not want requests; empty if it does."""
    try:
        node.call("GET", "/readyz")
    except Refusal as refusal:
        return str(refusal.problem["detail"])
    return ""


def counts_one_less(cluster: Cluster) -> bool:
    """Tell whether the first node's shards have one copy less that counts."""
    held = [each for each in cluster.configurations().values() if each["primary"] == "n1"]
    return all(len(each["sync"]) == 2 for each in held)
