"""Three real nodes with few slots: tasks without a slot on one node run on the others."""

import hashlib
from collections.abc import Iterator

import pytest

from support.cluster import Cluster
from support.etcd import EtcdCluster, needs_etcd

pytestmark = needs_etcd

AS_RESULT = "(printf '{\"rows\": \"'; tr -d '\\n'; printf '\"}') > $ROTA_RESULT"


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory, etcd: EtcdCluster) -> Iterator[Cluster]:
    """Three nodes with two slots each; one of them has a fast disk."""
    with Cluster(tmp_path_factory.mktemp("narrow"), etcd, 3, "--slots", "2") as cluster:
        cluster.nodes[2].flags += ("--label", "disk=ssd")
        yield cluster.start()
    assert cluster.left_over() == []


def test_a_burst_of_one_job_runs_on_all_nodes_and_each_node_serves_its_output(
    narrow: Cluster,
) -> None:
    first, second, third = narrow
    command = ["sh", "-c", "echo $ROTA_EXECUTION_ID; sleep 0.5"]
    job_id = first.create(name="burst", command=command)["jobId"]

    made = [second.trigger(job_id) for _ in range(12)]
    ended = [third.ended(each) for each in made]

    attempts = [each["tasks"]["main"]["attempts"] for each in ended]
    assert [each["status"] for each in ended] == ["success"] * 12
    assert all(len(tried) == 1 for tried in attempts)
    assert {tried[0]["nodeId"] for tried in attempts} == {"n1", "n2", "n3"}
    outputs = [
        node.call("GET", f"/api/v1/executions/{each}/tasks/main/output")
        for node, each in zip((first, second, third) * 4, made, strict=True)
    ]
    assert outputs == [f"{each}\n" for each in made]


def test_a_task_runs_on_the_node_with_its_labels_for_any_primary(narrow: Cluster) -> None:
    first, *_ = narrow
    jobs = [
        first.create(name=f"fast-{number}", command="true", nodeSelector={"disk": "ssd"})
        for number in range(6)
    ]

    ended = [first.ended(first.trigger(job["jobId"])) for job in jobs]

    attempts = [attempt for each in ended for attempt in each["tasks"]["main"]["attempts"]]
    assert len(attempts) == 6
    assert {attempt["nodeId"] for attempt in attempts} == {"n3"}


def test_results_reach_tasks_that_run_on_other_nodes(narrow: Cluster) -> None:
    first, *_ = narrow
    rows = '{"rows": "%s"}' % ("x" * 1_000_000)
    tasks = [
        {"name": "extract", "command": f"head -c 1000000 /dev/zero | tr '\\0' x | {AS_RESULT}"},
        {
            "name": "load",
            "needs": ["extract"],
            "nodeSelector": {"disk": "ssd"},
            "command": "cp $ROTA_RESULTS $ROTA_RESULT",
        },
        {"name": "check", "needs": ["load"], "command": f"md5sum < $ROTA_RESULTS | {AS_RESULT}"},
    ]
    jobs = [first.create(name=f"hand-on-{number}", tasks=tasks)["jobId"] for number in range(4)]

    ended = [first.ended(execution) for execution in [first.trigger(job) for job in jobs]]

    expected = hashlib.md5(b'{"load":{"extract":%s}}' % rows.encode()).hexdigest()
    assert [each["status"] for each in ended] == ["success"] * 4
    results = [each["tasks"]["check"]["attempts"][0]["result"] for each in ended]
    assert results == [{"rows": f"{expected}  -"}] * 4
