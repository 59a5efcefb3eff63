"""Takeover of the shards of a killed node, with real nodes, wardens and etcd."""

from collections.abc import Iterator
from functools import partial

import pytest

from rota.core.model.ids import slot_of
from rota.ring.placement import shard_of
from support.cluster import SHARDS, Cluster, Json, answer
from support.etcd import EtcdCluster, needs_etcd
from support.rotad import Rotad

pytestmark = needs_etcd

PATIENT = ("--session-ttl", "60s")
"""Session TTL beyond a test: a takeover needs more evidence than the silence of a node."""
LONG = {"sleepMs": 600_000}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, etcd: EtcdCluster) -> Iterator[Cluster]:
    """Three nodes with a long session TTL."""
    with Cluster(tmp_path_factory.mktemp("patient"), etcd, 3, *PATIENT) as cluster:
        yield cluster.start()


@pytest.fixture
def patient(shared: Cluster) -> Cluster:
    """The shared nodes, with all their copies, whichever a test before has killed."""
    for node in shared:
        if node.process is None or node.process.poll() is not None:
            node.spawn()
    shared.wait_whole()
    return shared


def test_the_warden_proves_the_end_of_a_process_and_its_shards_are_taken_over(
    patient: Cluster,
) -> None:
    first, second, third = patient
    jobs = jobs_of_all_shards(first, "proven")
    before = [deaths_seen(node) for node in (first, third)]

    second.kill()

    for job in jobs:
        assert answer(third, "GET", f"/api/v1/jobs/{job}")["jobId"] == job
        assert answer(first, "POST", f"/api/v1/jobs/{job}/trigger")["executionId"]
    assert "n2" not in patient.sessions()
    assert [deaths_seen(node) for node in (first, third)] == [count + 1 for count in before]


def test_a_node_restarted_at_once_after_a_kill_gets_its_shards_again(
    patient: Cluster,
) -> None:
    first, second, _ = patient
    jobs = jobs_of_all_shards(first, "back")

    second.kill()
    second.spawn()

    patient.wait_whole()
    assert [answer(second, "GET", f"/api/v1/jobs/{job}")["jobId"] for job in jobs] == jobs


def test_without_proof_of_a_warden_takeover_waits_for_the_end_of_the_session(
    own_cluster: Cluster,
) -> None:
    own_cluster.start()
    first, second, third = own_cluster
    jobs = jobs_of_all_shards(first, "lost")

    second.vanish()

    for job in jobs:
        assert answer(third, "GET", f"/api/v1/jobs/{job}")["jobId"] == job
    assert "peer dead" not in first.log() + third.log()


def test_after_a_kill_scripted_tasks_restart_elsewhere_and_tasks_of_the_warden_continue(
    patient: Cluster,
) -> None:
    first, second, _ = patient
    names = names_of_all_shards("runs")
    scripted = [begun(first, name, type="scripted", parameters=LONG) for name in names]
    process = [begun(first, f"{name}-beside", command="sleep 600") for name in names]
    before = {each: attempts_of(first, each) for each in scripted + process}
    on_second = [each for each, [attempt] in before.items() if attempt["nodeId"] == "n2"]

    second.kill()

    assert set(on_second) & set(scripted)
    assert set(on_second) & set(process)
    for each in set(on_second) & set(scripted):
        patient.wait_until(partial(has_begun_again, first, each), f"{each} is not started again")
        lost, again = attempts_of(first, each)
        assert (lost["outcome"], again["outcome"]) == ("lost", None)
        assert again["nodeId"] != "n2"
    for each in process:
        assert attempts_of(first, each) == before[each]


def deaths_seen(node: Rotad) -> int:
    """Return how many proofs of a death are in a node's log."""
    return node.log().count('"event": "peer dead"')


def jobs_of_all_shards(node: Rotad, prefix: str) -> list[Json]:
    """Return the ids of jobs, one in each shard, made at *node*."""
    names = names_of_all_shards(prefix)
    return [node.create(name=name, command="true")["jobId"] for name in names]


def names_of_all_shards(prefix: str) -> list[str]:
    """Return names of jobs, one in each shard."""
    names: dict[int, str] = {}
    for number in range(100 * SHARDS):
        name = f"{prefix}-{number}"
        names.setdefault(shard_of(slot_of("default", name), SHARDS), name)
    assert len(names) == SHARDS
    return list(names.values())


def begun(node: Rotad, name: str, **definition: Json) -> str:
    """Create a job and trigger it; return the execution once its attempt is recorded."""
    node.create(name=name, **definition)
    execution = node.trigger(name)
    node.wait_until(lambda: attempts_of(node, execution) != [])
    return execution


def has_begun_again(node: Rotad, execution: str) -> bool:
    """Return True if a second attempt of an execution's task is recorded."""
    return len(attempts_of(node, execution)) == 2


def attempts_of(node: Rotad, execution: str) -> Json:
    """Return the attempts of an execution's task."""
    return answer(node, "GET", f"/api/v1/executions/{execution}")["tasks"]["main"]["attempts"]
