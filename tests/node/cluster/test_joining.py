"""Foundation of a cluster, entry into it, and refused starts with their reasons."""

import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rota.core.errors import Refused
from rota.core.model.ids import NodeId, ShardId
from rota.core.replication.timeouts import Timing
from rota.core.timing.instants import MILLISECOND, SECOND, Duration
from rota.node.api.documents.cluster_status import ETCD_SILENT
from rota.node.cluster.copy_placement import CopyPlacement
from rota.node.cluster.joining import WrongCluster, join, timing_of
from rota.node.coordination.coordinator import Cluster as Founded
from rota.node.coordination.coordinator import Member
from rota.node.coordination.embedded import EmbeddedCoordinator
from rota.node.system.config import load_config
from rota.node.system.entropy import SystemEntropy
from rota.storage.directory import Identity
from support.cluster import Cluster, answer
from support.etcd import EtcdCluster, needs_etcd
from support.rotad import Rotad, processes_of

Json = Any  # Any: answers of nodes, examined by each test.
USAGE = 64


# -- membership in one cluster ---------------------------------------------------------------------


@needs_etcd
@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--shards", "16"), "shards = 8 (here 16)"),
        (("--replicas", "2"), "replicas = 3 (here 2)"),
        (("--min-sync", "3"), "min_sync = 2 (here 3)"),
        (("--session-ttl", "3s"), "session_ttl = 2s (here 3s)"),
        (("--peer-lease", "1s"), "peer_lease = 600ms (here 1s)"),
        (("--attempt-lease", "9s"), "attempt_lease = 3s (here 9s)"),
    ],
)
def test_a_node_with_other_settings_than_its_cluster_does_not_start(
    cluster: Cluster, tmp_path: Path, flags: tuple[str, str], expected: str
) -> None:
    with another(cluster, tmp_path / "n9", *flags) as node:
        node.spawn()

        assert node.exit_status() == USAGE
        assert expected in node.log()


@needs_etcd
def test_data_of_a_node_alone_do_not_join_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    with Rotad(tmp_path / "n9", "--shards", "8") as alone:
        alone.start()
        alone.stop()

    with another(cluster, tmp_path / "n9") as node:
        node.spawn()

        assert node.exit_status() == USAGE
        assert "the directory is that of a node without a cluster" in node.log()


@needs_etcd
def test_a_node_with_data_does_not_join_an_etcd_without_its_cluster(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    first, *_ = own_cluster
    first.spawn()
    first.wait_logged("node started")
    first.stop()
    own_cluster.etcd.members[0].ask(
        "/v3/kv/deleterange",
        {"key": f"/rota/{own_cluster.name}/".encode(), "range_end": b"/rota0"},
    )

    first.spawn()

    assert first.exit_status() == USAGE
    assert "etcd has lost its data, or --etcd or --cluster is wrong" in first.log()

    first.flags = (*first.flags, "--await-recovery", "--shards", "16")
    first.spawn()

    assert first.exit_status() == USAGE
    assert "was founded with shards = 8 (here 16)" in first.log()


@needs_etcd
def test_a_node_without_data_does_not_await_a_recovery(own_cluster: Cluster) -> None:
    first, *_ = own_cluster
    first.flags = (*first.flags, "--await-recovery")

    first.spawn()

    assert first.exit_status() == USAGE
    assert "a node without data cannot take part in a recovery" in first.log()


@needs_etcd
def test_two_nodes_of_one_name_do_not_both_live(cluster: Cluster, tmp_path: Path) -> None:
    with another(cluster, tmp_path / "n1") as twin:
        twin.spawn()
        twin.wait_logged("another process is alive as node")

        # The record of the first node is unchanged, so other nodes find its address.
        assert cluster.member("n1")["store_id"] == store_id_of(cluster.node("n1"))
        assert not twin.is_ready()


@needs_etcd
@pytest.mark.parametrize(
    ("node_id", "expected"),
    [
        ("n1", 'node \\"n1\\" is alive with this data directory or a copy of it'),
        ("n9", 'node \\"n1\\" is alive with this data directory or a copy of it'),
    ],
)
def test_a_copy_of_a_data_directory_in_use_starts_nothing_and_ends_nothing(
    cluster: Cluster, tmp_path: Path, node_id: str, expected: str
) -> None:
    first = cluster.node("n1")
    job = next(name for name in names() if cluster.primary_of(name) is first)
    execution_id = first.trigger(first.create(name=job, command="sleep 1000")["jobId"])
    running = wait_for_processes(first)
    session = cluster.sessions()["n1"]
    shutil.copytree(first.data_dir, tmp_path / "copy" / node_id, ignore=ignored)

    with another(cluster, tmp_path / "copy" / node_id) as twin:
        twin.spawn()
        twin.wait_logged(expected, times=2)

        assert not (twin.data_dir / "warden.lock").exists()
        assert (cluster.sessions()["n1"], processes_of(first.data_dir)) == (session, running)
    tasks = first.call("GET", f"/api/v1/executions/{execution_id}")["tasks"]
    assert [len(task["attempts"]) for task in tasks.values()] == [1]
    first.call("POST", f"/api/v1/executions/{execution_id}/cancel")
    first.ended(execution_id)


@needs_etcd
def test_a_copy_of_a_data_directory_does_not_join_under_another_name_when_the_original_stops(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    _, _, third = own_cluster.start()
    shutil.copytree(third.data_dir, tmp_path / "copy" / "n9", ignore=ignored)
    third.stop()

    with another(own_cluster, tmp_path / "copy" / "n9") as twin:
        twin.spawn()

        assert twin.exit_status(60) == USAGE
        assert 'is that of node \\"n3\\", or a copy of it' in twin.log()
        assert not (twin.data_dir / "warden.lock").exists()


@needs_etcd
def test_a_node_that_waits_for_a_full_etcd_logs_the_remedy(tmp_path: Path) -> None:
    with (
        EtcdCluster(tmp_path, 1, "--quota-backend-bytes", str(4 << 20)) as etcd,
        Cluster(tmp_path, etcd) as cluster,
    ):
        etcd.members[0].use_up_quota()

        first, *_ = cluster
        first.spawn()

        first.wait_logged("the node waits to join its cluster until etcd accepts writes")
        assert "`etcdctl alarm disarm`" in first.log()


# -- outages of etcd -------------------------------------------------------------------------------


@needs_etcd
def test_a_node_waits_for_an_etcd_that_is_not_there_yet(tmp_path: Path) -> None:
    with EtcdCluster(tmp_path) as etcd, Cluster(tmp_path, etcd) as cluster:
        for member in etcd.members:
            member.kill()
        for node in cluster:
            node.spawn()
        for node in cluster:
            node.wait_logged("etcd does not answer")

        etcd.start()

        cluster.wait_whole()


@needs_etcd
def test_a_node_that_waits_for_etcd_can_be_stopped(tmp_path: Path) -> None:
    with Cluster(tmp_path, EtcdCluster(tmp_path)) as cluster:
        first, *_ = cluster
        first.spawn()
        first.wait_logged("etcd does not answer")

        assert first.stop() == 0


@needs_etcd
@pytest.mark.parametrize(
    ("given", "is_warned"),
    [("", True), ("--etcd-user rota --etcd-password-file {password}", False)],
    ids=["none", "user"],
)
def test_a_node_that_uses_etcd_without_credentials_warns_once(
    tmp_path: Path, given: str, is_warned: bool
) -> None:
    password = tmp_path / "password"
    password.write_text("wheel\n")
    flags = given.format(password=password).split()
    with Cluster(tmp_path, EtcdCluster(tmp_path), 1, *flags) as cluster:
        [node] = cluster
        node.spawn()
        node.wait_logged("etcd does not answer")
        node.stop()

    warnings = [line for line in node.log().splitlines() if "etcd used without" in line]
    assert len(warnings) == is_warned
    assert all("set etcd_user and etcd_password_file" in line for line in warnings)


@needs_etcd
def test_shards_work_during_and_after_an_outage_of_etcd(tmp_path: Path) -> None:
    with EtcdCluster(tmp_path) as etcd, Cluster(tmp_path, etcd) as cluster:
        cluster.start()
        epochs = {shard: each["epoch"] for shard, each in cluster.configurations().items()}
        with etcd.members[0].paused():
            # Longer than a session TTL: primaries act by the promises of their backups.
            for node in cluster:
                node.wait_logged("session not renewed", times=3)
            ended = [node.run(name=node.data_dir.name, command="true") for node in cluster]
            are_ready = [node.is_ready() for node in cluster]
            without_etcd = answer(cluster.nodes[0], "GET", "/api/v1/cluster")["nodes"]
        after = [node.run(name=f"{node.data_dir.name}-2", command="true") for node in cluster]
        primaries = {shard: each["primary"] for shard, each in cluster.configurations().items()}

    assert {each["status"] for each in ended + after} == {"success"}
    assert are_ready == [True] * 3
    assert [each["troubles"] for each in without_etcd] == [[ETCD_SILENT]] * 3
    assert set(primaries) == set(epochs)


async def test_a_node_that_awaits_a_recovery_has_as_many_shards_as_its_data(tmp_path: Path) -> None:
    coordinator = EmbeddedCoordinator(tmp_path / "COORDINATION", SystemEntropy())
    known = Identity(format=1, store_id="s", shard_count=8, cluster="c")
    settings = {"etcd": "http://127.0.0.1:2379", "await_recovery": True}

    as_its_data = load_config(None, {}, {**settings, "shards": 8})
    assert (await join(as_its_data, coordinator, known, "new")).id == "c"
    otherwise = load_config(None, {}, {**settings, "shards": 16})
    with pytest.raises(WrongCluster, match=r"shards = 8 \(here 16\)"):
        await join(otherwise, coordinator, known, "new")


# -- durations from a cluster's settings -----------------------------------------------------------


def test_the_durations_of_a_cluster_by_default_are_those_of_the_protocol() -> None:
    assert timing_of(Founded(id="c", shards=8, replicas=3)) == Timing()


def test_shorter_leases_make_everything_faster() -> None:
    lease = Duration(600 * MILLISECOND)
    cluster = Founded(
        id="c", shards=8, replicas=3, peer_lease=lease, attempt_lease=Duration(3 * SECOND)
    )

    timing = timing_of(cluster)

    assert timing.beat * 5 == lease == timing.silence
    assert timing.takeover_step == 60 * MILLISECOND
    assert timing.kill_grace == SECOND


# -- placement of copies ---------------------------------------------------------------------------


def test_targets_follow_zones_weights_and_states() -> None:
    members = members_of(
        Member(node_id=NodeId("a"), store_id="", address="", zone="x"),
        Member(node_id=NodeId("b"), store_id="", address="", zone="x"),
        Member(node_id=NodeId("c"), store_id="", address="", zone="y"),
        Member(node_id=NodeId("d"), store_id="", address="", zone="y", state="draining"),
        Member(node_id=NodeId("e"), store_id="", address="", zone="y", weight=0.0),
    )
    targets = CopyPlacement(64, 2)

    held = [targets(members, ShardId(shard)) for shard in range(64)]

    assert all("c" in nodes and len(nodes) == 2 for nodes in held)
    assert {node for nodes in held for node in nodes} == {"a", "b", "c"}


def test_targets_change_when_a_member_does() -> None:
    both = [Member(node_id=NodeId(name), store_id="", address="") for name in "ab"]
    drained = msgspec.structs.replace(both[0], state="draining")
    targets = CopyPlacement(8, 2)

    before = targets(members_of(*both), ShardId(0))
    after = targets(members_of(drained, both[1]), ShardId(0))

    assert set(before) == {"a", "b"}
    assert after == ("b",)


@pytest.mark.parametrize("odd", [{"state": "dozing"}, {"weight": -1.0}, {"zone": "no zone!"}])
def test_an_invalid_member_gets_no_copies_and_does_not_affect_others(odd: Json) -> None:
    sound = Member(node_id=NodeId("a"), store_id="", address="")
    other = msgspec.structs.replace(sound, node_id=NodeId("b"), **odd)

    assert CopyPlacement(8, 3)(members_of(sound, other), ShardId(1)) == ("a",)


# -- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {"listen": "127.0.0.1:0"},
            "listen: 127.0.0.1:0 is not an address that other nodes can use",
        ),
        (
            {"peer_listen": "127.0.0.1:0"},
            "peer_listen: 127.0.0.1:0 is not an address that other nodes can use",
        ),
        ({"listen": "0.0.0.0:7400", "insecure": True}, "set advertise to one"),
        ({"peer_listen": "0.0.0.0:7401"}, "peer_listen: 0.0.0.0:7401 can be reached from other"),
        ({"replicas": 2, "min_sync": 3}, "min_sync: 3 is more than the 2 replicas"),
        (
            {"session_ttl": "100ms"},
            "session_ttl: 100ms is out of range; give a value from 1s to 1m",
        ),
        ({"replicas": 1}, "replicas: 1 is out of range; give a value from 2 to 9"),
        ({"weight": "heavy"}, "weight: 'heavy' is not a number"),
        ({"weight": 101}, "weight: 101 is out of range; give a value from 0 to 100"),
        ({"advertise": "somewhere"}, "advertise: 'somewhere' is not HOST:PORT"),
    ],
)
def test_settings_that_contradict_a_cluster_are_refused(settings: Json, expected: str) -> None:
    with pytest.raises(Refused) as refused:
        load_config(None, {}, {"etcd": "http://127.0.0.1:2379", **settings})

    assert expected in refused.value.detail


def test_an_address_for_others_may_be_another_than_where_a_node_listens() -> None:
    config = load_config(
        None,
        {},
        {
            "etcd": "http://127.0.0.1:2379",
            "insecure": True,
            "listen": "0.0.0.0:7400",
            "advertise": "n1.example:7400",
            "peer_listen": "0.0.0.0:7401",
            "peer_advertise": "n1.example:7401",
        },
    )

    assert (config.advertise, config.peer_advertise) == ("n1.example:7400", "n1.example:7401")


# -- helpers ---------------------------------------------------------------------------------------


def another(cluster: Cluster, data_dir: Path, *flags: str) -> Rotad:
    """Return a further node of a cluster, named as its directory; not started."""
    return Rotad(data_dir, *cluster.flags_of(data_dir.name), *flags)


def names() -> Iterator[str]:
    return (f"copied-{number}" for number in itertools.count())


def ignored(folder: str, entries: list[str]) -> set[str]:
    """Return the files that are not copied: sockets, and what the node and its warden change."""
    del folder
    return {name for name in entries if name in ("db", "api.sock") or name.startswith("warden.")}


def wait_for_processes(node: Rotad) -> list[int]:
    node.wait_until(lambda: bool(processes_of(node.data_dir)))
    return processes_of(node.data_dir)


def members_of(*members: Member) -> dict[NodeId, Member]:
    return {member.node_id: member for member in members}


def store_id_of(node: Rotad) -> str:
    return str(json.loads((node.data_dir / "FORMAT").read_text())["storeId"])
