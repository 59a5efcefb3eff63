"""The judgements of ``rota doctor``."""

from pathlib import Path

import pytest

from rota.client.cli.doctor.checks import (
    DISK_RESERVE_BYTES,
    CheckView,
    judge_certificate,
    judge_clock,
    judge_disk,
    judge_files,
    judge_sandbox,
    judge_zones,
)
from rota.client.cli.doctor.nodes import checks_of_cluster, checks_of_etcd
from rota.wire.documents import ClusterView, NodeView, ReplicaView, ShardView

DATA = Path("data")


@pytest.mark.parametrize(
    ("check", "state", "seen"),
    [
        (judge_clock(is_synchronized=True), "ok", "synchronized"),
        (judge_clock(is_synchronized=False), "warn", "no program"),
        (judge_clock(is_synchronized=None), "warn", "unknown"),
        (judge_zones("2027a"), "ok", "2027a"),
        (judge_zones(None), "fail", "Europe/Berlin"),
        (judge_files(None), "ok", "no limit"),
        (judge_files(65_536), "ok", "65,536"),
        (judge_files(4_096), "warn", "4,096"),
        (judge_files(256), "fail", "256"),
        (judge_disk(DATA, DISK_RESERVE_BYTES * 4), "ok", "1.0GiB free for data"),
        (judge_disk(DATA, DISK_RESERVE_BYTES), "warn", "256MiB"),
        (judge_disk(DATA, DISK_RESERVE_BYTES - 1), "fail", "free for data"),
        (judge_disk(DATA, 0, is_there=False), "warn", "there is no folder data; its disk would"),
        (judge_sandbox(None), "ok", "bubblewrap"),
        (judge_sandbox("there is no bwrap"), "warn", "no bwrap"),
        (judge_certificate("n1.crt", 14), "ok", "ends in 14 days"),
        (judge_certificate("n1.crt", 13), "warn", "ends in 13 days"),
        (judge_certificate("n1.crt", -1), "fail", "ended 1 day ago"),
    ],
)
def test_what_is_measured_is_judged_and_has_a_remedy_unless_it_is_ok(
    check: CheckView, state: str, seen: str
) -> None:
    assert check.state == state
    assert seen in check.seen
    assert bool(check.mend) == (state != "ok")


def node_of(node_id: str, state: str = "active", troubles: list[str] | None = None) -> NodeView:
    return NodeView(
        node_id=node_id,
        state=state,
        is_draining=False,
        session=None if state == "gone" else "1",
        zone="",
        weight=1.0,
        labels={},
        address="",
        peer_address="",
        version="",
        load=None,
        primaries=1,
        backups=0,
        troubles=troubles,
        auth="keys",
    )


def cluster_of(nodes: list[NodeView], *, is_open: bool = True, replicas: int = 1) -> ClusterView:
    copies = [ReplicaView(node_id="n1", role="primary", lag=0)]
    shard = ShardView(
        shard=0, epoch=1, primary="n1", is_open=is_open, replicas=copies, target=["n1"]
    )
    return ClusterView(
        cluster="c", node_id="n1", replicas=replicas, nodes=nodes, shards=[shard], moves=[]
    )


def test_a_whole_cluster_is_ok() -> None:
    found = list(checks_of_cluster(cluster_of([node_of("n1", troubles=[])])))

    assert [(each.check, each.state) for each in found] == [
        ("nodes", "ok"),
        ("health", "ok"),
        ("shards", "ok"),
    ]


def test_lost_nodes_their_problems_and_closed_shards_fail() -> None:
    nodes = [node_of("n1", troubles=["its disk is nearly full"]), node_of("n2", "gone")]

    found = {each.check: each for each in checks_of_cluster(cluster_of(nodes, is_open=False))}

    assert {each.state for each in found.values()} == {"fail"}
    assert found["nodes"].seen == "n2 of 2 gone"
    assert found["health"].seen == "n1: its disk is nearly full"
    assert found["shards"].seen == "1 of 1 are not open"


def test_a_silent_node_and_missing_copies_are_warnings() -> None:
    nodes = [node_of("n1", troubles=[]), node_of("n2")]

    found = {each.check: each for each in checks_of_cluster(cluster_of(nodes, replicas=3))}

    assert (found["health"].state, found["health"].seen) == ("warn", "no answer from n2")
    assert (found["shards"].state, found["shards"].seen) == ("warn", "1 of 1 lack copies")


def test_an_etcd_that_does_not_answer_fails() -> None:
    [refused, wrong] = checks_of_etcd(["http://127.0.0.1:1", "127.0.0.1:2379"], None)

    assert (refused.check, refused.state) == ("etcd", "fail")
    assert "refused" in refused.seen
    assert "is no URL" in wrong.seen
