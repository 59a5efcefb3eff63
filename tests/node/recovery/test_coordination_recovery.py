"""Real nodes, and an etcd that is restored from a snapshot or emptied: frozen, then recovered."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from rota.client.client import Client
from rota.client.errors import Conflict
from rota.core.vocabulary.shard_configuration import GENERATION_BITS
from rota.wire.documents import RecoveryView
from support import runbook
from support.cluster import SHARDS, Cluster, answer
from support.etcd import EtcdCluster, needs_etcd
from support.rota_program import PROGRAM, Rota
from support.rotad import Rotad

pytestmark = needs_etcd

JOBS = 12
INTERRUPTED = 130


@pytest.fixture
def etcd_of_one(tmp_path: Path) -> Iterator[EtcdCluster]:
    """An etcd of this test's own, to be set back."""
    with EtcdCluster(tmp_path) as etcd:
        yield etcd


@pytest.fixture
def cluster(tmp_path: Path, etcd_of_one: EtcdCluster) -> Iterator[Cluster]:
    """Three nodes, whole."""
    folder = tmp_path / "nodes"
    folder.mkdir()
    with Cluster(folder, etcd_of_one) as cluster:
        yield cluster.start()
    assert cluster.left_over() == []


def acknowledged(node: Rotad, prefix: str) -> list[str]:
    """Create jobs, of all shards most likely, and return their names."""
    names = [f"{prefix}-{number}" for number in range(JOBS)]
    for name in names:
        answer(node, "POST", "/api/v1/jobs", {"name": name, "command": "true"})
    return names


def check_jobs(cluster: Cluster, names: list[str]) -> None:
    """Check that every node finds the jobs, and that new ones run."""
    for node in cluster:
        with Client(node.url) as client:
            assert {job.name for job in client.jobs()} == set(names)
    with Client(cluster.nodes[0].url) as client:
        assert client.wait(client.trigger(names[-1]).execution_id).status == "success"


def count_out(cluster: Cluster, node: Rotad) -> None:
    """Stop a node, and wait until its copies count no more."""
    node.stop()
    node_id = node.data_dir.name
    cluster.wait_until(
        lambda: all(
            node_id not in [each for each, _ in one["sync"]]
            for one in cluster.configurations().values()
        ),
        f"{node_id} still counts",
    )


def wait_lost(cluster: Cluster) -> None:
    """Wait until every node has found that etcd lost its state."""
    for node in cluster:
        node.wait_logged("node started")
        node.is_ready()  # Which finds its address.
    cluster.wait_until(
        lambda: all(
            answer(node, "GET", "/api/v1/cluster/inventory")["lost"] is not None for node in cluster
        ),
        "nodes do not find that etcd lost its state",
    )
    assert not any(node.is_ready() for node in cluster)


def generations(cluster: Cluster) -> set[int]:
    return {each["epoch"] >> GENERATION_BITS for each in cluster.configurations().values()}


def test_what_was_acknowledged_is_there_after_etcd_was_restored_and_recovered(
    cluster: Cluster,
    etcd_of_one: EtcdCluster,
    rota_alone: Rota,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second, third = cluster
    with Client(first.url) as client, pytest.raises(Conflict, match="nothing to recover"):
        client.recover_coordination()
    [member] = etcd_of_one.members
    member.kill()
    shutil.copytree(member.data_dir, tmp_path / "snapshot")
    etcd_of_one.start()
    cluster.wait_whole()
    early = acknowledged(first, "early")
    first.call("PUT", "/api/v1/types/late", {"template": {"command": "true"}})
    count_out(cluster, third)
    names = early + acknowledged(first, "late")
    first.stop()
    second.stop()
    member.kill()
    shutil.rmtree(member.data_dir)
    shutil.copytree(tmp_path / "snapshot", member.data_dir)
    etcd_of_one.start()
    for node in cluster:
        node.spawn()
    wait_lost(cluster)

    # Nothing changes hands, and a dry run changes nothing.
    before = cluster.configurations()
    assert generations(cluster) == {0}
    with Client(second.url) as client:
        dry = client.recover_coordination(dry_run=True)
    assert cluster.configurations() == before

    monkeypatch.setenv("ROTA_URL", second.url)
    unanswered = subprocess.run(
        [*PROGRAM, "cluster", "recover-coordination"],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (unanswered.returncode, cluster.configurations()) == (INTERRUPTED, before)
    assert "write this to etcd?" in unanswered.stderr
    followed = runbook.follow("etcd lost its state", rota_alone)

    assert [each.status for each in followed] == [0, 0]
    lines = (second.data_dir / "RECOVERIES").read_bytes().splitlines()
    assert [msgspec.json.decode(line)["step"] for line in lines] == ["begun", "done"]
    assert [msgspec.json.decode(line, type=RecoveryView) for line in lines] == [dry, dry]
    assert {tuple(each.copies) for each in dry.shards} == {("n1", "n2")}
    cluster.wait_whole()
    assert generations(cluster) == {1}
    check_jobs(cluster, names)
    cluster.wait_until(lambda: types_in_etcd(cluster) == ["late"], "the type was not written back")
    with (
        Client(first.url) as client,
        pytest.raises(Conflict, match="everything that etcd lost is recovered"),
    ):
        client.recover_coordination()


def test_what_was_acknowledged_is_there_after_etcd_was_emptied_and_recovered(
    cluster: Cluster, etcd_of_one: EtcdCluster
) -> None:
    first, _, third = cluster
    names = acknowledged(first, "job")
    first.call("PUT", "/api/v1/types/kept", {"template": {"command": "true"}})
    third.wait_until(lambda: has_type(third, "kept"))
    for node in cluster:
        node.stop()
    [member] = etcd_of_one.members
    member.kill()
    shutil.rmtree(member.data_dir)
    etcd_of_one.start()
    first.spawn()
    assert first.exit_status() == 64
    assert "start all nodes with --await-recovery" in first.log()

    for node in cluster:
        node.flags = (*node.flags, "--await-recovery")
        node.spawn()
    wait_lost(cluster)
    assert cluster.configurations() == {}
    assert types_in_etcd(cluster) == []
    with Client(third.url) as client:
        done = client.recover_coordination()

    assert [each.outcome for each in done.shards] == ["recovered"] * SHARDS
    cluster.wait_whole()
    check_jobs(cluster, names)
    cluster.wait_until(lambda: types_in_etcd(cluster) == ["kept"], "the type was not written back")
    # It is the same cluster: nodes start as always.
    first.stop()
    first.flags = tuple(flag for flag in first.flags if flag != "--await-recovery")
    first.spawn()
    cluster.wait_whole()


def has_type(node: Rotad, name: str) -> bool:
    return name in [each["name"] for each in node.call("GET", "/api/v1/types")["items"]]


def types_in_etcd(cluster: Cluster) -> list[str]:
    """Return the names of the job types that etcd has."""
    return list(cluster.documents("types"))
