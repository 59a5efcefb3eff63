"""Documents of namespaces on one node: jobs are checked when they are saved and when they run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.client import Client
from rota.client.errors import Invalid
from support.rotad import Refusal, Rotad

Json = Any  # Any: fields of a job.


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rotad]:
    """A node that refuses unknown namespaces."""
    folder: Path = tmp_path_factory.mktemp("node")
    with Rotad(folder / "data", "--drain", "0s", "--unknown-namespaces", "refuse") as node:
        yield node.start()


@pytest.fixture
def client(node: Rotad) -> Iterator[Client]:
    with Client(node.url) as client:
        client.put_document("namespaces", "free", {})
        client.put_document(
            "namespaces", "team-a", {"policy": {"executors": ["process"], "sandbox": "strict"}}
        )
        yield client


def job(namespace: str, **fields: Json) -> Json:
    """Return a job of a namespace."""
    return {"name": "job", "namespace": namespace, "command": "true", **fields}


def test_a_job_that_the_policy_does_not_allow_is_not_saved(client: Client) -> None:
    with pytest.raises(Invalid) as refused:
        client.create_job(job("team-a"))

    assert refused.value.code == "policy_violation"
    assert [each.pointer for each in refused.value.problem.errors] == ["/sandbox"]
    assert (
        "write 'strict' (policy of the namespace 'team-a')"
        in refused.value.problem.errors[0].detail
    )


def test_the_place_of_a_problem_is_that_of_the_task(client: Client) -> None:
    tasks = [
        {"name": "a", "command": "true", "sandbox": "strict"},
        {"name": "b", "command": "true"},
    ]

    with pytest.raises(Invalid) as refused:
        client.create_job({"name": "two", "namespace": "team-a", "tasks": tasks})

    assert [each.pointer for each in refused.value.problem.errors] == ["/tasks/1/sandbox"]


def test_an_attempt_that_the_policy_does_not_allow_any_more_fails_and_is_not_retried(
    client: Client,
) -> None:
    client.put_job(job("free", retries=3))
    client.put_document("namespaces", "free", {"policy": {"executors": ["container"]}})

    execution = client.wait(client.trigger("job", namespace="free").execution_id)

    assert execution.tasks is not None
    [attempt] = execution.tasks["main"].attempts
    assert execution.status == "failed"
    assert attempt.reason == (
        "policy of the namespace 'free': the executor 'process' is not allowed; "
        "allowed are container"
    )


def test_jobs_run_on_the_nodes_of_the_policy_with_its_limits(client: Client) -> None:
    policy = {"nodes": {"pool": "a"}, "limits": {"memory": "1GiB"}}
    client.put_document("namespaces", "team-d", {"policy": policy})
    fit = {"limits": {"memory": "64MiB"}, "nodeSelector": {"pool": "a"}}

    with pytest.raises(Invalid) as refused:
        client.create_job(job("team-d"))

    found = [each.pointer for each in refused.value.problem.errors]
    assert found == ["/limits/memory", "/nodeSelector"]
    assert client.create_job(job("team-d", **fit)).name == "job"
    client.put_document("namespaces", "team-d", {"policy": policy, "defaults": fit})
    assert client.create_job(job("team-d", name="by-default")).name == "by-default"


def test_an_attempt_fails_on_a_node_without_the_labels_of_the_policy(client: Client) -> None:
    client.put_job(job("free", name="placed"))
    client.put_document("namespaces", "free", {"policy": {"nodes": {"pool": "a"}}})

    execution = client.wait(client.trigger("placed", namespace="free").execution_id)

    assert execution.tasks is not None
    [attempt] = execution.tasks["main"].attempts
    assert attempt.reason == "policy of the namespace 'free': this node lacks the label pool=a"


def test_an_unknown_namespace_is_refused_by_the_setting(client: Client) -> None:
    with pytest.raises(Invalid) as refused:
        client.create_job(job("team-b"))

    assert refused.value.code == "unknown_namespace"
    assert client.create_job(job("default")).namespace == "default"


@pytest.mark.parametrize(
    ("policy", "pointer"),
    [
        ({"sandbox": "tight"}, "/policy/sandbox"),
        ({"network": False}, "/policy/network"),
        ({"network": "lan"}, "/policy/network"),
        ({"binds": ["srv"]}, "/policy/binds/0"),
        ({"binds": ["/srv/../etc"]}, "/policy/binds/0"),
        ({"sandboxes": "strict"}, "/policy/sandboxes"),
        ({"limits": {"memory": "much"}}, "/policy/limits/memory"),
        ({"limits": {"cpu": 0}}, "/policy/limits/cpu"),
        ({"limits": {"pids": -1}}, "/policy/limits/pids"),
        ({"nodes": {"": "x"}}, "/policy/nodes"),
    ],
)
def test_an_invalid_policy_is_refused_with_its_place(
    policy: Json, pointer: str, client: Client
) -> None:
    with pytest.raises(Invalid) as refused:
        client.put_document("namespaces", "team-c", {"policy": policy})

    assert [each.pointer for each in refused.value.problem.errors] == [pointer]


@pytest.mark.parametrize("query", ["", "?dryRun=true"])
def test_a_patch_to_another_namespace_is_refused_before_its_policy_is_looked_at(
    client: Client, node: Rotad, query: str
) -> None:
    client.put_job(job("free", name="stays"))

    for namespace in ("team-a", "unknown"):
        with pytest.raises(Refusal) as refused:
            node.call("PATCH", f"/api/v1/jobs/free%2Fstays{query}", {"namespace": namespace})

        assert refused.value.problem["code"] == "invalid_job"
        assert "cannot be renamed" in refused.value.problem["detail"]
        assert [each["pointer"] for each in refused.value.problem["errors"]] == ["/namespace"]
