"""``rota cluster`` and ``rota node``: printed text and exit statuses."""

import os
import re
import subprocess
from collections.abc import Iterator

import pytest

from support.cluster import SHARDS, Cluster
from support.etcd import EtcdCluster, needs_etcd
from support.rota_program import PROGRAM, Rota, until

pytestmark = needs_etcd


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory, etcd: EtcdCluster) -> Iterator[Cluster]:
    """Three nodes for two copies of each shard, for tests that do not change them."""
    folder = tmp_path_factory.mktemp("roomy")
    with Cluster(folder, etcd, 3, "--replicas", "2", "--zone", "here") as cluster:
        for node in cluster:
            node.spawn()
        for node in cluster:
            node.wait_ready()
        yield cluster


@pytest.fixture
def rota_there(rota_alone: Rota, roomy: Cluster, monkeypatch: pytest.MonkeyPatch) -> Rota:
    """The command with the addresses of all three nodes."""
    monkeypatch.setenv("ROTA_URL", ",".join(node.url for node in roomy))
    until(lambda: rota_alone("cluster", "status").status == 0)
    return rota_alone


def test_the_status_of_a_whole_cluster_takes_few_lines(rota_there: Rota) -> None:
    ran = rota_there("cluster", "status")

    assert (ran.status, ran.err) == (0, "")
    assert re.fullmatch(
        r"cluster  roomy0, as n\d sees it\n"
        r"nodes    3 active\n"
        rf"shards   {SHARDS}: all open\n"
        r"behind   at most \d+ entr(y|ies)\n"
        r"moves    none\n"
        r"warning  n1, n2, n3: auth = open: every request has all rights\n",
        ran.out,
    )
    assert rota_there("cluster", "status", "-o", "json").json["isWhole"] is True


def test_members_are_listed_with_what_they_hold_and_run(rota_there: Rota) -> None:
    table = rota_there("cluster", "members").out.splitlines()
    names = rota_there("cluster", "members", "-o", "name").out.split()
    documents = rota_there("cluster", "members", "-o", "json").json

    assert table[0].split() == [
        *("NODE", "STATE", "ZONE", "PRIMARY", "BACKUP", "RUNNING", "SLOTS", "WAITING", "ADDRESS"),
    ]
    assert re.match(r"n1 +active +here +\d +\d +0 +64 +0 +127\.0\.0\.1:\d+$", table[1])
    assert names == ["n1", "n2", "n3"]
    assert sum(each["primaries"] + each["backups"] for each in documents) == 2 * SHARDS


def test_shards_are_listed_all_or_those_of_a_node(rota_there: Rota) -> None:
    shards = rota_there("cluster", "shards", "-o", "json").json
    of_one = rota_there("cluster", "shards", "--node", "n1", "-o", "name").out.split()
    unwell = rota_there("cluster", "shards", "--unwell")

    held = [
        str(each["shard"])
        for each in shards
        if any(replica["nodeId"] == "n1" for replica in each["replicas"])
    ]
    assert len(shards) == SHARDS
    assert of_one == held
    assert 0 < len(held) < SHARDS
    assert (unwell.status, unwell.out, unwell.err) == (0, "", "no such shards\n")


def test_a_node_is_drained_with_wait_and_undrained(rota_there: Rota) -> None:
    drained = rota_there("node", "drain", "n3", "--wait", "--timeout", "60s")

    assert drained.status == 0, drained.err
    assert drained.err.splitlines()[-1] == "drained n3"
    assert rota_there("cluster", "shards", "--node", "n3").err == "no such shards\n"
    [third] = [
        each
        for each in rota_there("cluster", "members", "-o", "json").json
        if each["nodeId"] == "n3"
    ]
    assert third["state"] == "draining"

    taken_back = rota_there("node", "undrain", "n3")

    assert (taken_back.status, taken_back.err) == (0, "undrained n3\n")
    until(lambda: rota_there("cluster", "shards", "--node", "n3", "-o", "name").out)


def test_drain_with_wait_includes_running_attempts_and_ends_at_its_timeout(
    rota_there: Rota, roomy: Cluster
) -> None:
    jobs = [f"long-{number}" for number in range(12)]
    for job in jobs:
        rota_there("jobs", "create", job, "--", "sleep", "600")
        rota_there("trigger", job)
    members = until(
        lambda: [
            each
            for each in rota_there("cluster", "members", "-o", "json").json
            if each["load"] and each["load"]["running"]
        ]
    )
    busy = members[0]["nodeId"]

    drained = rota_there("node", "drain", busy, "--wait", "--timeout", "3s")

    assert drained.status == 7
    assert re.search(
        rf"^error: {busy} is not drained yet: .*attempts? running", drained.err, re.MULTILINE
    )

    rota_there("node", "undrain", busy)
    for job in jobs:
        rota_there("executions", "cancel", f"{job}@latest")
        rota_there("jobs", "delete", job)
    assert roomy.nodes[0].is_ready()


def test_a_node_that_lives_is_not_forgotten(rota_there: Rota) -> None:
    ran = rota_there("node", "forget", "n2")

    assert ran.status == 5
    assert ran.err.startswith("error: n2 is alive and would be back at once: stop it first")


def test_a_node_that_is_not_there_is_not_found(rota_there: Rota) -> None:
    ran = rota_there("node", "drain", "n9")

    assert ran.status == 3
    assert ran.err.startswith("error: there is no node 'n9'; check the id: `rota cluster members`")


def test_a_dry_run_says_what_would_be(rota_there: Rota) -> None:
    ran = rota_there("node", "drain", "n1", "--wait", "--dry-run")

    assert (ran.status, ran.err) == (0, "dry run: nothing is changed; n1 would be drained\n")
    assert rota_there("cluster", "status").status == 0


def test_names_of_nodes_are_completed(rota_there: Rota) -> None:
    del rota_there
    ran = subprocess.run(
        PROGRAM,
        env={
            **os.environ,
            "_ROTA_COMPLETE": "bash_complete",
            "COMP_WORDS": "rota node drain n",
            "COMP_CWORD": "3",
        },
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )

    assert [line.partition(",")[2] for line in ran.stdout.split()] == ["n1", "n2", "n3"]


def test_a_cluster_without_one_of_its_nodes_is_not_whole(
    rota_alone: Rota, own_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_cluster.start()
    first, _, third = own_cluster
    monkeypatch.setenv("ROTA_URL", first.url)

    third.kill()

    said = until(
        lambda: [
            ran
            for ran in [rota_alone("cluster", "status")]
            if "with fewer than 3 copies" in ran.out and "1 gone: n3" in ran.out
        ]
    )
    assert said[0].status == 8
    moves = rota_alone("cluster", "moves", "-o", "json").json
    assert {(each["change"], each["target"]) for each in moves} <= {
        ("copy", "n3"),
        ("handover", "n3"),
    }
