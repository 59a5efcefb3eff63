"""Every page of docs/how-to/operate.md is followed on real nodes, here or where the table says."""

import ast
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from support import runbook
from support.cluster import SHARDS, Cluster, answer
from support.etcd import EtcdCluster, needs_etcd
from support.rota_program import Rota, until
from support.rotad import Refusal, Rotad

pytestmark = needs_etcd
UNAVAILABLE = 6
TESTS = Path(__file__).parents[2]

PAGES = {
    runbook.INTRODUCTION: ("node/docs/test_runbooks.py::test_the_first_two_questions",),
    "Alerts": (
        "deploy/test_monitoring.py::test_every_alert_is_explained_where_operators_look",
        "deploy/test_monitoring.py::test_the_loss_of_a_node_is_noticed",
        "deploy/test_monitoring.py::test_the_loss_of_two_nodes_is_noticed",
    ),
    "Audit and explain": (
        "node/cli/test_audit.py::test_the_ledger_of_a_node_passes_the_audit",
        "node/cli/test_explain.py::test_past_and_future_times_are_explained",
    ),
    "Lose a node": (
        "node/cluster/test_takeover.py::test_the_warden_proves_the_end_of_a_process_and_its_shards_are_taken_over",
        "node/cluster/test_cluster.py::test_shards_of_a_killed_node_are_taken_over_with_all_that_was_acknowledged_and_come_back",
        "node/cluster/test_node_admin.py::test_a_node_with_an_empty_disk_gets_its_copies_again",
        "node/docs/test_runbooks.py::test_another_node_takes_the_place_of_one_that_will_not_come_back",
        "node/cluster/test_absence.py::test_copies_of_an_absent_node_are_replaced_and_restored_after_its_return",
    ),
    "Lose a zone": ("node/docs/test_runbooks.py::test_shards_with_two_copies_in_a_lost_zone",),
    "Lose etcd": (
        "node/docs/test_runbooks.py::test_etcd_without_a_member_and_then_without_a_majority",
        "node/cluster/test_joining.py::test_a_node_waits_for_an_etcd_that_is_not_there_yet",
        "node/cluster/test_joining.py::test_shards_work_during_and_after_an_outage_of_etcd",
    ),
    "etcd is full": (
        "node/cluster/test_cluster.py::test_nodes_answer_while_the_quota_of_etcd_is_used_up",
        "node/cluster/test_joining.py::test_a_node_that_waits_for_a_full_etcd_logs_the_remedy",
    ),
    "etcd lost its state": (
        "node/recovery/test_coordination_lost.py",
        "node/recovery/test_coordination_recovery.py::test_what_was_acknowledged_is_there_after_etcd_was_restored_and_recovered",
        "node/recovery/test_coordination_recovery.py::test_what_was_acknowledged_is_there_after_etcd_was_emptied_and_recovered",
        "unit/node/test_recovery_plan.py",
    ),
    "Lose two copies": (
        "node/docs/test_runbooks.py::test_two_copies_are_lost_and_one_comes_back",
        "node/recovery/test_lost_disks.py::test_a_shard_opens_from_the_one_copy_that_counts_and_is_left",
    ),
    "Lose all copies that count": (
        "node/recovery/test_shard_recovery.py::test_a_shard_whose_counting_copies_are_lost_opens_from_a_stale_one",
        "node/recovery/test_lost_disks.py::test_a_shard_stays_closed_where_the_copy_that_is_left_counts_no_more",
    ),
    "A full disk": (
        "node/shards/test_full_disk.py::test_a_task_that_fills_the_disk_can_be_stopped_and_no_fire_starts_another",
        "node/shards/test_full_disk.py::test_a_node_lives_on_a_disk_without_a_byte_and_loses_nothing_in_a_crash",
    ),
    "Copies that differ": (
        "unit/core/replication/test_copies_that_differ.py",
        "node/shards/test_copy_comparison.py",
    ),
    "A shard closed by a promise": (
        "node/recovery/test_shard_repair.py::test_a_repair_opens_a_shard_that_a_promise_keeps_closed",
        "node/recovery/test_shard_repair.py::test_a_repair_is_refused_where_it_mends_nothing_or_is_not_certain",
    ),
    "Grow": ("node/docs/test_runbooks.py::test_a_cluster_grows_and_shrinks",),
    "Shrink": ("node/docs/test_runbooks.py::test_a_cluster_grows_and_shrinks",),
    "Upgrade": (
        "node/cluster/test_rolling_restarts.py::test_a_rolling_restart_under_load_fails_no_call_skips_no_fire_and_loses_no_attempt",
    ),
    "Change a setting": (
        "node/cluster/test_rolling_restarts.py::test_a_rolling_restart_under_load_fails_no_call_skips_no_fire_and_loses_no_attempt",
        "node/cluster/test_joining.py::test_a_node_with_other_settings_than_its_cluster_does_not_start",
    ),
}
"""Which tests follow each section of the page, as files below ``tests``, and functions in them."""


def test_every_page_is_followed_by_a_test_that_there_is() -> None:
    missing = [
        place
        for place in chain.from_iterable(PAGES.values())
        if place.partition("::")[2] not in functions(TESTS / place.partition("::")[0])
    ]

    assert list(PAGES) == list(runbook.sections())
    assert all(PAGES.values())
    assert missing == []


def functions(file: Path) -> set[str]:
    """Return the names of the functions of a file, and the empty one for the file itself."""
    tree = ast.parse(file.read_text())
    return {"", *(each.name for each in tree.body if isinstance(each, ast.FunctionDef))}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, etcd: EtcdCluster) -> Iterator[Cluster]:
    """Three nodes for tests that do not change them."""
    with Cluster(tmp_path_factory.mktemp("runbooks"), etcd) as cluster:
        yield cluster.start()


@pytest.fixture
def three(shared: Cluster, rota_alone: Rota, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The shared nodes, with all their copies, as the addresses of ``rota``."""
    del rota_alone
    for node in shared:
        if node.process is None or node.process.poll() is not None:
            node.spawn()  # A test that failed has left it so.
    shared.wait_whole()
    ask(shared, monkeypatch)
    return shared


def ask(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the nodes of *cluster* as the addresses of ``rota``."""
    monkeypatch.setenv("ROTA_URL", ",".join(node.url for node in cluster if node.url))


# -- pages -----------------------------------------------------------------------------------------


def test_the_first_two_questions(three: Cluster, rota_alone: Rota) -> None:
    del three

    status, members = runbook.follow(runbook.INTRODUCTION, rota_alone)

    assert (status.status, members.status) == (0, 0)


def test_another_node_takes_the_place_of_one_that_will_not_come_back(
    own_cluster: Cluster, rota_alone: Rota, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _, third = own_cluster.start()
    ask(own_cluster, monkeypatch)
    job = first.create(name="kept", command="true")["jobId"]

    third.vanish()
    until(lambda: rota_alone("node", "forget", "n3").status == 0)
    own_cluster.nodes.remove(third)
    fourth = own_cluster.add("n4").start(60)

    own_cluster.wait_whole()
    assert rota_alone("cluster", "members", "-o", "name").out.split() == ["n1", "n2", "n4"]
    assert fourth.call("GET", f"/api/v1/jobs/{job}")["name"] == "kept"


@pytest.mark.timeout(240)
def test_shards_with_two_copies_in_a_lost_zone(
    tmp_path: Path, etcd: EtcdCluster, rota_alone: Rota, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Cluster(tmp_path, etcd, 0) as cluster:
        lost = [cluster.add(name, *IN_ZONE, "z1") for name in ("n1", "n2")]
        for name in ("n3", "n4", "n5"):
            cluster.add(name, *IN_ZONE, "z2")
        for node in cluster:
            node.spawn()
        for node in cluster:
            node.wait_ready(60)
        ask(cluster, monkeypatch)
        until(lambda: rota_alone("cluster", "status").status == 0)
        before = cluster.configurations().values()
        twice = [each for each in before if {"n1", "n2"} <= {node for node, _ in each["sync"]}]

        for node in lost:
            node.vanish()
        first = cluster.nodes[2]
        monkeypatch.setenv("ROTA_URL", first.url)

        assert 0 < len(twice) < len(before)
        cluster.wait_until(lambda: open_shards(first) == SHARDS, "shards stay closed", 60)


IN_ZONE = ("--repair-delay", "2s", "--zone")


def open_shards(node: Rotad) -> int:
    """Return how many shards are open and take writes, as far as a node can tell."""
    view = answer(node, "GET", "/api/v1/cluster")
    return sum(
        bool(each["isOpen"]) and sum(copy["role"] != "learner" for copy in each["replicas"]) >= 2
        for each in view["shards"]
        if not {copy["nodeId"] for copy in each["replicas"]} & {"n1", "n2"}
    )


def test_etcd_without_a_member_and_then_without_a_majority(
    tmp_path: Path, rota_alone: Rota, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nodes").mkdir()
    with EtcdCluster(tmp_path, 3) as etcd, Cluster(tmp_path / "nodes", etcd) as cluster:
        first, _, third = cluster.start()
        monkeypatch.setenv("ROTA_URL", first.url)
        rota_alone("jobs", "create", "asked", "--", "true")
        names = [first.create(name=f"job-{number}", command="true")["name"] for number in range(24)]
        of_third = [each for each in names if cluster.primary_of(each) is third]

        etcd.members[0].kill()
        assert rota_alone("trigger", "asked", "--wait").status == 0
        assert rota_alone("node", "drain", "n1", "--dry-run").status == 0
        asked, refused = runbook.follow(
            "Lose etcd", rota_alone, {"docker stop rota_etcd_1": etcd.members[1].kill}
        )
        with pytest.raises(Refusal) as problem:
            first.call("POST", "/api/v1/nodes/n1:drain")
        third.vanish()
        with pytest.raises(Refusal) as closed:
            first.call("POST", f"/api/v1/jobs/{of_third[0]}/trigger")
        etcd.start()

        assert (asked.status, refused.status) == (0, UNAVAILABLE)
        assert problem.value.problem["code"] == "coordinator_unavailable"
        assert closed.value.status == 503
        assert [answer(first, "GET", f"/api/v1/jobs/{each}")["name"] for each in names] == names
        third.start(60)
        cluster.wait_whole()


def test_two_copies_are_lost_and_one_comes_back(three: Cluster, rota_alone: Rota) -> None:
    first, second, third = three
    jobs = [first.create(name=f"kept-{number}", command="true")["name"] for number in range(24)]
    own = next(each for each in jobs if three.primary_of(each) is first)
    answers: list[int] = []

    def lose() -> None:
        second.vanish()
        third.vanish()

    def come_back() -> None:
        commands = ("show", own), ("pause", own, "--request-timeout", "2s")
        answers.extend(rota_alone("jobs", *command).status for command in commands)
        second.start(60)

    try:
        lost, back = runbook.follow(
            "Lose two copies",
            rota_alone,
            {"docker kill rota_node_2 rota_node_3": lose, "docker start rota_node_2": come_back},
        )
    finally:
        third.start()

    assert answers == [0, UNAVAILABLE]
    assert (lost.status, back.status) == (8, 8)
    assert [answer(first, "GET", f"/api/v1/jobs/{each}")["name"] for each in jobs] == jobs
    three.wait_whole()


@pytest.mark.timeout(240)
def test_a_cluster_grows_and_shrinks(
    three: Cluster, rota_alone: Rota, monkeypatch: pytest.MonkeyPatch
) -> None:
    added: list[Rotad] = []

    def grow() -> None:
        added.extend([three.add("n4").start(60), three.add("n5").start(60)])
        three.wait_whole()
        ask(three, monkeypatch)

    def shrink() -> None:
        for node in added:
            assert node.stop() == 0
            three.nodes.remove(node)
        ask(three, monkeypatch)

    [members] = runbook.follow("Grow", rota_alone, {"docker compose up -d --scale node=5": grow})
    drained = runbook.follow("Shrink", rota_alone, {"docker compose up -d --scale node=3": shrink})

    assert members.status == 0
    assert {each.status for each in drained} == {0}
    three.wait_whole()
    assert rota_alone("cluster", "status").status == 0
