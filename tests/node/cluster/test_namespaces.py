"""Namespaces in a cluster: a change at one node counts at all of them."""

from functools import partial

import pytest

from support.cluster import Cluster
from support.rotad import Refusal, Rotad

NAMESPACE = "/api/v1/namespaces/everywhere"
JOBS = 12
"""So many jobs that each node is the primary of some of them."""


def has_version(node: Rotad, version: int) -> bool:
    found = node.call("GET", "/api/v1/namespaces")["items"]
    return any(each["name"] == "everywhere" and each["version"] == version for each in found)


def test_a_pause_and_a_policy_count_at_all_nodes(cluster: Cluster) -> None:
    first, *others = cluster.nodes
    names = [f"spread-{number}" for number in range(JOBS)]
    for name in names:
        first.call("PUT", f"/api/v1/jobs/everywhere/{name}", {"command": "true", "retries": 2})

    paused = first.call("POST", f"{NAMESPACE}:pause", {"reason": "incident 7"})
    for node in others:
        node.wait_until(partial(has_version, node, paused["version"]))
    for name in names:
        with pytest.raises(Refusal, match="namespace_paused"):
            others[0].call("POST", f"/api/v1/jobs/everywhere%2F{name}/trigger")

    resumed = first.call("POST", f"{NAMESPACE}:resume")
    for node in others:
        node.wait_until(partial(has_version, node, resumed["version"]))
    tight = others[0].call("PUT", NAMESPACE, {"policy": {"sandbox": "strict"}})
    for node in cluster.nodes:
        node.wait_until(partial(has_version, node, tight["version"]))
    for name in names:
        made = others[1].call("POST", f"/api/v1/jobs/everywhere%2F{name}/trigger")
        ended = first.ended(made["executionId"])
        assert ended["status"] == "failed"
        [attempt] = ended["tasks"]["main"]["attempts"]
        assert attempt["reason"].startswith("policy of the namespace 'everywhere': the sandbox")


QUOTA = "/api/v1/namespaces/counted"


def uses(node: Rotad, part: str, number: int) -> bool:
    return bool(node.call("GET", f"{QUOTA}/quota")[part]["used"] == number)


def test_a_quota_counts_the_jobs_and_executions_of_all_nodes(cluster: Cluster) -> None:
    first, *others = cluster.nodes
    document = first.call("PUT", QUOTA, {"quota": {"jobs": JOBS, "executions": 3}})
    for number in range(JOBS):
        body = {"command": "sleep 120"}
        first.call("PUT", f"/api/v1/jobs/counted/job-{number}", body)
    for node in cluster.nodes:
        node.wait_until(partial(uses, node, "jobs", JOBS))
    for node in cluster.nodes:
        with pytest.raises(Refusal, match="quota_exceeded"):
            node.call("PUT", "/api/v1/jobs/counted/one-more", {"command": "true"})

    begun = [
        first.call("POST", f"/api/v1/jobs/counted%2Fjob-{number}/trigger")["executionId"]
        for number in range(3)
    ]
    for node in cluster.nodes:
        node.wait_until(partial(uses, node, "executions", 3))
    for number in range(3, JOBS):
        with pytest.raises(Refusal, match="quota_exceeded"):
            others[0].call("POST", f"/api/v1/jobs/counted%2Fjob-{number}/trigger")

    for execution_id in begun:
        others[1].call("POST", f"/api/v1/executions/{execution_id}/cancel")
        first.ended(execution_id)
    for node in cluster.nodes:
        node.wait_until(partial(uses, node, "executions", 0))
    made = others[0].call("POST", "/api/v1/jobs/counted%2Fjob-5/trigger")
    first.call("POST", f"/api/v1/executions/{made['executionId']}/cancel")
    assert document["version"] == 1
