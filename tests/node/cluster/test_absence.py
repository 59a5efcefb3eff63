"""Absence of a node: after a delay, and not before, other nodes get its copies."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from rota.core.replication.primary import Copies
from rota.core.timing.instants import MINUTE, SECOND
from rota.node.coordination.coordinator import AWAY
from support.cluster import SHARDS, Cluster
from support.etcd import EtcdCluster, needs_etcd
from support.virtual_nodes import A, B, C, Nodes, run

TWO = Copies(wanted=2, least=2)


@pytest.fixture
def roomy(tmp_path: Path, etcd: EtcdCluster) -> Iterator[Cluster]:
    """Three nodes for two copies of each shard, with a short repair delay."""
    with Cluster(tmp_path, etcd, 3, "--replicas", "2", "--repair-delay", "2s") as cluster:
        for node in cluster:
            node.spawn()
        for node in cluster:
            node.wait_ready()
        cluster.wait_until(lambda: is_spread(cluster, {"n1", "n2", "n3"}), "shards are not spread")
        yield cluster
    assert cluster.left_over() == []


def is_spread(cluster: Cluster, node_ids: set[str]) -> bool:
    """Return True if these nodes together hold two copies of each shard, and each holds some."""
    held = [{node_id for node_id, _ in each["sync"]} for each in cluster.configurations().values()]
    return (
        len(held) == SHARDS
        and all(len(each) == 2 for each in held)
        and set[str]().union(*held) == node_ids
    )


@needs_etcd
def test_copies_of_an_absent_node_are_replaced_and_restored_after_its_return(
    roomy: Cluster,
) -> None:
    first, _, third = roomy

    third.kill()
    roomy.wait_until(lambda: is_spread(roomy, {"n1", "n2"}), "its copies are not replaced")
    nodes = {each["nodeId"]: each for each in first.call("GET", "/api/v1/cluster")["nodes"]}
    said = roomy.member("n3")["state"]
    third.spawn()
    roomy.wait_until(
        lambda: is_spread(roomy, {"n1", "n2", "n3"}), "it does not get its shards back"
    )

    assert (nodes["n3"]["state"], nodes["n3"]["isDraining"], said) == ("gone", False, "away")
    assert roomy.member("n3")["state"] == "active"


def test_an_absent_node_stays_active_while_no_other_node_can_replace_it() -> None:
    async def story(nodes: Nodes) -> None:
        await nodes[C].end()

        await asyncio.sleep(10 * MINUTE / SECOND)

        assert nodes.server.state.view().members[C].state == "active"

    run(story)


def test_a_live_node_marked_as_away_becomes_active_again() -> None:
    async def story(nodes: Nodes) -> None:
        known = nodes.server.state.view().members[C]
        nodes.server.change(lambda state: state.register(replace(known, state=AWAY)))

        await asyncio.sleep(3)

        members = nodes.server.state.view().members
        assert [members[each].state for each in (A, B, C)] == ["active"] * 3

    run(story)


def test_short_absences_move_nothing_and_do_not_add_up() -> None:
    async def story(nodes: Nodes) -> None:
        await nodes[C].end()
        for _ in range(2):
            await asyncio.sleep(4 * MINUTE / SECOND)
            absent = nodes.server.state.view().members[C].state
            await nodes[C].start()
            await asyncio.sleep(1)
            await nodes[C].end()

            assert absent == "active"

    run(story, copies=TWO)


def test_a_long_absence_is_recorded_for_all_nodes() -> None:
    async def story(nodes: Nodes) -> None:
        await nodes[C].end()
        await asyncio.sleep(6 * MINUTE / SECOND)

        assert nodes.server.state.view().members[C].state == "away"

    run(story, copies=TWO)
