"""What becomes of the shards of a node whose process is killed: real nodes, their wardens, etcd."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from rota.core.model.ids import slot_of
from rota.ring.placement import shard_of
from support.cluster import SHARDS, Cluster, Json, answer
from support.etcd import EtcdCluster, needs_etcd
from support.rotad import Rotad

pytestmark = needs_etcd

PATIENT = ("--session-ttl", "60s")
"""Nobody takes over in the time of a test, unless somebody knows more than that one is silent."""
LONG = {"sleepMs": 600_000}


@pytest.fixture
def patient(tmp_path: Path, etcd: EtcdCluster) -> Iterator[Cluster]:
    """Three nodes that trust each other for long."""
    with Cluster(tmp_path, etcd, 3, *PATIENT) as cluster:
        yield cluster.start()


def test_the_death_of_a_process_is_proven_by_its_warden_and_its_shards_go_on(
    patient: Cluster,
) -> None:
    first, second, third = patient
    jobs = jobs_of_all_shards(first)

    second.kill()

    for job in jobs:
        assert answer(third, "GET", f"/api/v1/jobs/{job}")["jobId"] == job
        assert answer(first, "POST", f"/api/v1/jobs/{job}/trigger")["executionId"]
    assert "n2" not in patient.sessions()
    assert '"event": "peer dead"' in first.log()
    assert '"event": "peer dead"' in third.log()


def test_a_node_that_is_back_at_once_after_it_was_killed_gets_its_part_again(
    patient: Cluster,
) -> None:
    first, second, _ = patient
    jobs = jobs_of_all_shards(first)

    second.kill()
    second.spawn()

    patient.wait_whole()
    assert [answer(second, "GET", f"/api/v1/jobs/{job}")["jobId"] for job in jobs] == jobs


def test_without_a_warden_that_saw_it_the_others_wait_until_the_session_is_over(
    own_cluster: Cluster,
) -> None:
    own_cluster.start()
    first, second, third = own_cluster
    jobs = jobs_of_all_shards(first)

    second.vanish()

    for job in jobs:
        assert answer(third, "GET", f"/api/v1/jobs/{job}")["jobId"] == job
    assert "peer dead" not in first.log() + third.log()


def test_what_a_killed_process_ran_itself_starts_elsewhere_and_what_its_warden_has_goes_on(
    patient: Cluster,
) -> None:
    first, second, _ = patient
    names = names_of_all_shards()
    scripted = [begun(first, name, type="scripted", parameters=LONG) for name in names]
    process = [begun(first, f"{name}-beside", command="sleep 600") for name in names]
    before = {each: attempts_of(first, each) for each in scripted + process}
    on_second = [each for each, [attempt] in before.items() if attempt["nodeId"] == "n2"]

    second.kill()

    assert set(on_second) & set(scripted)
    assert set(on_second) & set(process)
    for each in set(on_second) & set(scripted):
        patient.wait_until(partial(has_begun_again, first, each), f"{each} does not go on")
        lost, again = attempts_of(first, each)
        assert (lost["outcome"], again["outcome"]) == ("lost", None)
        assert again["nodeId"] != "n2"
    for each in process:
        assert attempts_of(first, each) == before[each]


def jobs_of_all_shards(node: Rotad) -> list[Json]:
    """Return the ids of jobs, one in each shard, made at *node*."""
    return [node.create(name=name, command="true")["jobId"] for name in names_of_all_shards()]


def names_of_all_shards() -> list[str]:
    """Return names of jobs, one in each shard."""
    names: dict[int, str] = {}
    for number in range(100 * SHARDS):
        names.setdefault(shard_of(slot_of("default", f"job-{number}"), SHARDS), f"job-{number}")
    assert len(names) == SHARDS
    return list(names.values())


def begun(node: Rotad, name: str, **definition: Json) -> str:
    """Make a job and have it run; return the execution, whose attempt is on record."""
    node.create(name=name, **definition)
    execution = node.trigger(name)
    node.wait_until(lambda: attempts_of(node, execution) != [])
    return execution


def has_begun_again(node: Rotad, execution: str) -> bool:
    """Tell whether a second attempt of an execution's task is on record."""
    return len(attempts_of(node, execution)) == 2


def attempts_of(node: Rotad, execution: str) -> Json:
    """Return the attempts of an execution's task."""
    return answer(node, "GET", f"/api/v1/executions/{execution}")["tasks"]["main"]["attempts"]
