"""Status of a cluster at any node; nodes are drained, undrained and forgotten."""

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rota.node.cluster.node_admin import hold_again
from rota.node.coordination.coordinator import Member
from rota.node.coordination.testing.simulated_coordinator import (
    PerfectLink,
    SimulatedCoordinator,
    SimulatedServer,
)
from rota.node.system.clock import SystemClock
from rota.node.system.entropy import SystemEntropy
from support.cluster import SHARDS, Cluster
from support.etcd import EtcdCluster, needs_etcd
from support.rotad import Refusal, Rotad
from support.stopping import stop
from support.virtual_nodes import A, Nodes, run, until

Json = Any  # Any: answers of nodes, examined by each test.


@pytest.fixture
def roomy(tmp_path: Path, etcd: EtcdCluster) -> Iterator[Cluster]:
    """Three nodes for two copies of each shard, so that another node is always available."""
    with Cluster(tmp_path, etcd, 3, "--replicas", "2") as cluster:
        for node in cluster:
            node.spawn()
        for node in cluster:
            node.wait_ready()
        cluster.wait_until(
            lambda: is_settled(cluster.nodes[0]), "shards do not get to their target nodes"
        )
        yield cluster


# -- status ----------------------------------------------------------------------------------------


@needs_etcd
def test_every_node_shows_the_cluster_as_etcd_has_it(cluster: Cluster) -> None:
    cluster.wait_until(
        lambda: all(lags(shown(node)) == {0} for node in cluster),
        "it is not shown that all copies have everything",
    )

    views = [shown(node) for node in cluster]

    held = cluster.configurations()
    for view, node_id in zip(views, cluster.ids, strict=True):
        assert view["nodeId"] == node_id
        assert [each["nodeId"] for each in view["nodes"]] == cluster.ids
        assert {each["state"] for each in view["nodes"]} == {"active"}
        assert all(each["load"]["slots"] == 64 for each in view["nodes"])
        assert sum(each["primaries"] for each in view["nodes"]) == SHARDS
        assert sum(each["backups"] for each in view["nodes"]) == 2 * SHARDS
        assert [each["shard"] for each in view["shards"]] == list(range(SHARDS))
        for shard in view["shards"]:
            there = held[shard["shard"]]
            assert (shard["primary"], shard["epoch"]) == (there["primary"], there["epoch"])
            assert {each["nodeId"] for each in shard["replicas"]} == set(cluster.ids)
            assert shard["isOpen"] is True
            assert shard["target"][0] == shard["primary"]
        assert view["moves"] == []


def test_a_node_alone_shows_itself(own_node: Rotad) -> None:
    own_node.start()

    view = shown(own_node)

    [alone] = view["nodes"]
    assert (alone["state"], alone["primaries"], alone["backups"]) == ("active", 256, 0)
    assert view["replicas"] == 1
    assert all(shard["isOpen"] for shard in view["shards"])
    assert view["moves"] == []


@needs_etcd
def test_every_node_shows_the_running_attempts_of_each(cluster: Cluster) -> None:
    first, *_ = cluster
    job = first.create(name="long", command="exec sleep 600")["jobId"]
    execution = first.trigger(job)

    cluster.wait_until(
        lambda: all(
            sum(each["load"]["running"] for each in shown(node)["nodes"]) == 1 for node in cluster
        ),
        "it is not shown that something runs",
    )

    first.call("POST", f"/api/v1/executions/{execution}/cancel")
    assert first.ended(execution)["status"] == "cancelled"


@needs_etcd
def test_values_of_a_node_without_an_answer_are_unknown(own_cluster: Cluster) -> None:
    own_cluster.start()
    first, _, third = own_cluster
    assert third.process is not None

    stop(third.process.pid)
    try:
        view = shown(first)
    finally:
        third.process.send_signal(signal.SIGCONT)

    loads = {each["nodeId"]: each["load"] for each in view["nodes"]}
    assert loads["n3"] is None
    assert loads["n1"] is not None
    assert loads["n2"] is not None
    of_third = [shard for shard in view["shards"] if shard["primary"] == "n3"]
    assert of_third
    for shard in of_third:
        assert shard["isOpen"] is None
        assert [each["lag"] for each in shard["replicas"]] == [0, None, None]


@needs_etcd
def test_a_node_that_is_gone_is_shown_as_gone_and_its_copies_as_missing(
    own_cluster: Cluster,
) -> None:
    own_cluster.start()
    first, second, third = own_cluster

    third.kill()

    def is_seen() -> bool:
        view = shown(second)
        copies = [move for move in view["moves"] if move["change"] == "copy"]
        if states(view)["n3"] != "gone":
            return False
        assert {move["target"] for move in copies} <= {"n3"}
        assert not any(move["isRunning"] for move in copies)
        return {move["shard"] for move in copies} == set(range(SHARDS))

    own_cluster.wait_until(is_seen, "what is missing is not shown")
    view = shown(first)
    assert {each["nodeId"]: each["session"] for each in view["nodes"]}["n3"] is None


@needs_etcd
def test_a_node_with_an_empty_disk_gets_its_copies_again(own_cluster: Cluster) -> None:
    own_cluster.start()
    first, _, third = own_cluster
    job = first.create(name="kept", command="true")["jobId"]
    third.kill()
    shutil.rmtree(third.data_dir)

    third.start()

    own_cluster.wait_until(own_cluster.is_whole, "n3 does not get its copies back")
    own_cluster.wait_until(lambda: is_settled(first), "shards do not get to their target nodes")
    assert third.call("GET", f"/api/v1/jobs/{job}")["name"] == "kept"


# -- drained nodes ---------------------------------------------------------------------------------


@needs_etcd
def test_a_drained_node_holds_nothing_and_can_be_forgotten(roomy: Cluster) -> None:
    first, second, third = roomy
    jobs = [first.create(name=f"kept-{number}", command="true")["jobId"] for number in range(12)]

    drained = first.call("POST", "/api/v1/nodes/n3:drain")

    assert (drained["nodeId"], drained["state"]) == ("n3", "draining")
    roomy.wait_until(lambda: holds(second, "n3") == 0, "n3 keeps copies")
    assert moves_from(second, "n3") == []
    assert third.call("GET", f"/api/v1/jobs/{jobs[0]}")["name"] == "kept-0"
    for query in ("", "?dryRun=true"):
        with pytest.raises(Refusal, match="node_alive"):
            first.call("DELETE", f"/api/v1/nodes/n3{query}")

    third.stop()
    roomy.wait_until(lambda: states(shown(first))["n3"] == "gone", "n3 does not go")
    first.call("DELETE", "/api/v1/nodes/n3")

    roomy.wait_until(lambda: "n3" not in states(shown(second)), "n3 is not forgotten")
    assert [second.call("GET", f"/api/v1/jobs/{job}")["jobId"] for job in jobs] == jobs
    assert first.run(name="after", command="true")["status"] == "success"


@needs_etcd
def test_a_node_stays_drained_when_it_is_started_again_until_it_is_taken_back(
    roomy: Cluster,
) -> None:
    first, _, third = roomy
    first.call("POST", "/api/v1/nodes/n3:drain")
    roomy.wait_until(lambda: holds(first, "n3") == 0, "n3 keeps copies")
    third.stop()
    third.start()
    roomy.wait_until(lambda: states(shown(first))["n3"] == "draining", "n3 is not drained")

    third.call("POST", "/api/v1/nodes/n3:undrain")

    roomy.wait_until(lambda: holds(first, "n3") > 0, "n3 gets nothing back")
    roomy.wait_until(lambda: is_settled(first), "shards do not get to their target nodes")
    assert states(shown(first))["n3"] == "active"


@needs_etcd
def test_with_as_many_copies_as_nodes_those_of_a_drained_node_count_no_more_while_enough_remain(
    own_cluster: Cluster,
) -> None:
    own_cluster.start()
    first, second, third = own_cluster

    first.call("POST", "/api/v1/nodes/n2:drain")
    own_cluster.wait_until(lambda: holds(first, "n2") == 0, "n2 keeps copies")
    first.call("POST", "/api/v1/nodes/n3:drain")

    own_cluster.wait_until(lambda: set(primaries(own_cluster)) == {"n1"}, "n3 is still a primary")
    own_cluster.wait_until(lambda: moves_from(first, "n3") == [], "something is still to move")
    assert holds(first, "n3") == SHARDS
    assert second.run(name="after", command="true")["status"] == "success"

    for node_id in ("n2", "n3"):
        third.call("POST", f"/api/v1/nodes/{node_id}:undrain")
    own_cluster.wait_until(own_cluster.is_whole, "the shards do not come back")


@needs_etcd
def test_the_last_node_that_could_hold_anything_is_not_drained(cluster: Cluster) -> None:
    first, *_ = cluster
    refusals: list[Refusal] = []

    def is_refused() -> bool:
        with pytest.raises(Refusal) as refused:
            first.call("POST", "/api/v1/nodes/n3:drain")
        refusals.append(refused.value)
        return refused.value.status != 503  # A 503 comes only during a handover.

    try:
        for node_id in ("n1", "n2"):
            first.call("POST", f"/api/v1/nodes/{node_id}:drain")

        cluster.wait_until(is_refused, "no node answers")
    finally:
        for node_id in ("n1", "n2"):
            first.call("POST", f"/api/v1/nodes/{node_id}:undrain")
        cluster.wait_until(cluster.is_whole, "the shards do not come back")

    assert (refusals[-1].status, refusals[-1].problem["code"]) == (409, "last_node")


@needs_etcd
def test_an_unknown_node_can_neither_be_drained_nor_forgotten(cluster: Cluster) -> None:
    first, *_ = cluster

    for method, path in (("POST", "n9:drain"), ("POST", "n9:undrain"), ("DELETE", "n9")):
        with pytest.raises(Refusal, match="node_not_found"):
            first.call(method, f"/api/v1/nodes/{path}")


@needs_etcd
def test_a_dry_run_changes_nothing(cluster: Cluster) -> None:
    first, *_ = cluster

    would_be = first.call("POST", "/api/v1/nodes/n3:drain?dryRun=true")

    assert would_be["state"] == "draining"
    assert cluster.member("n3")["state"] == "active"


# -- concurrent changes ----------------------------------------------------------------------------


class Interrupted(SimulatedCoordinator):
    """A coordinator at which another client registers a member after the first read."""

    def __init__(self, server: SimulatedServer, meanwhile: Member) -> None:
        super().__init__(server, A, link=PerfectLink(), entropy=SystemEntropy())
        self._server_of_test = server
        self._meanwhile: Member | None = meanwhile

    async def change(self, expected: Member, fresh: Member) -> bool:
        """Register the other client's member before the first change."""
        if self._meanwhile is not None:
            meanwhile, self._meanwhile = self._meanwhile, None
            self._server_of_test.change(lambda state: state.register(meanwhile))
        return await super().change(expected, fresh)


async def test_a_state_change_does_not_undo_a_concurrent_update_by_the_node() -> None:
    server = SimulatedServer(SystemClock())
    before = Member(node_id=A, store_id="s", address="old:1", state="draining")
    server.change(lambda state: state.register(before))
    moved = msgspec.structs.replace(before, address="new:2")

    said = await hold_again(Interrupted(server, moved), A, is_dry=False)

    assert said == msgspec.structs.replace(moved, state="active")
    assert server.state.view().members == {A: said}


def test_a_starting_node_does_not_undo_a_concurrent_drain() -> None:
    async def story(nodes: Nodes) -> None:
        await nodes[A].end()
        known = nodes.server.state.view().members[A]
        earlier = msgspec.structs.replace(known, key=b"of an earlier life")
        nodes.server.change(lambda state: state.register(earlier))
        drained: list[Member] = []

        def drain_before(call: str) -> None:
            if call in ("change", "register") and not drained:
                known = nodes.server.state.view().members[A]
                drained.append(msgspec.structs.replace(known, state="draining"))
                nodes.server.change(lambda state: state.register(drained[0]))

        nodes[A].on_call = drain_before
        await nodes[A].start()
        await until(lambda: bool(drained))
        await nodes.settle()

        assert nodes.server.state.view().members[A].state == "draining"

    run(story)


# -- helpers ---------------------------------------------------------------------------------------


def shown(node: Rotad) -> Json:
    """Return the status of the cluster from a node."""
    return node.call("GET", "/api/v1/cluster")


def states(view: Json) -> dict[str, str]:
    """Return the state of each node."""
    return {each["nodeId"]: each["state"] for each in view["nodes"]}


def primaries(cluster: Cluster) -> list[str]:
    """Return the primary of each shard."""
    return [str(each["primary"]) for each in cluster.configurations().values()]


def holds(node: Rotad, node_id: str) -> int:
    """Return the number of counted copies on *node_id*, according to *node*."""
    [shown_one] = [each for each in shown(node)["nodes"] if each["nodeId"] == node_id]
    return int(shown_one["primaries"] + shown_one["backups"])


def moves_from(node: Rotad, node_id: str) -> list[Json]:
    """Return the moves of copies away from *node_id*."""
    return [move for move in shown(node)["moves"] if move["source"] == node_id]


def is_settled(node: Rotad) -> bool:
    """Return True if every shard is open, has its copies, and is on its target nodes."""
    view = shown(node)
    return not view["moves"] and all(
        shard["isOpen"] and len(shard["replicas"]) == view["replicas"] for shard in view["shards"]
    )


def lags(view: Json) -> set[int | None]:
    """Return the lags of all copies."""
    return {each["lag"] for shard in view["shards"] for each in shard["replicas"]}
