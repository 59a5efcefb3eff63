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
