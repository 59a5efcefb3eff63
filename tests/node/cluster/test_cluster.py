"""A cluster of three real nodes and a real etcd: shared answers, kills, restarts."""

import json
import re
from base64 import b64decode, b64encode
from collections import Counter
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from support.cluster import SHARDS, Cluster, answer
from support.etcd import EtcdCluster, needs_etcd
from support.rotad import Rotad

pytestmark = needs_etcd
Json = Any  # Any: answers of nodes, examined by each test.


# -- one cluster -----------------------------------------------------------------------------------


def test_three_nodes_hold_every_shard_three_times_and_share_the_primaries(
    cluster: Cluster,
) -> None:
    held = cluster.configurations()

    primaries = Counter(each["primary"] for each in held.values())
    assert sorted(held) == list(range(SHARDS))
    assert set(primaries) == {"n1", "n2", "n3"}
    assert all(len(each["sync"]) == 3 for each in held.values())


def test_every_node_shows_jobs_created_at_one_node(cluster: Cluster) -> None:
    first, *_ = cluster
    jobs = [first.create(name=f"shared-{number}", command="true") for number in range(12)]

    shown = [[node.call("GET", f"/api/v1/jobs/{job['jobId']}") for job in jobs] for node in cluster]

    assert shown[0] == shown[1] == shown[2]
    assert [job["jobId"] for job in shown[0]] == [job["jobId"] for job in jobs]


def test_any_node_runs_jobs_created_at_any_other(cluster: Cluster) -> None:
    nodes = list(cluster)
    jobs = [
        nodes[number % 3].create(name=f"run-{number}", command=f"echo {number}")["jobId"]
        for number in range(12)
    ]
    made = [nodes[(number + 1) % 3].trigger(job) for number, job in enumerate(jobs)]

    ended = [nodes[(number + 2) % 3].ended(each) for number, each in enumerate(made)]

    assert [each["status"] for each in ended] == ["success"] * 12
    tails = [each["tasks"]["main"]["attempts"][-1]["outputTail"] for each in ended]
    assert tails == [f"{number}\n" for number in range(12)]


def test_every_node_has_a_job_type_that_was_written_at_one_node(cluster: Cluster) -> None:
    nodes = list(cluster)
    template = {"command": 'echo "$ROTA_PARAMETERS" > "$ROTA_RESULT"'}
    nodes[0].call("PUT", "/api/v1/types/sum", {"template": template})
    for node in nodes[1:]:
        node.wait_until(partial(has_types, node))

    made = [
        node.call("POST", "/api/v1/jobs", {"type": "sum", "parameters": number})
        for number, node in enumerate(nodes)
    ]
    jobs = [one_off_end(nodes[0], each["jobId"]) for each in made]

    assert [each["status"] for each in jobs] == ["success"] * 3
    assert [each["result"] for each in jobs] == [0, 1, 2]
    assert len({each["name"] for each in made}) == 3


def test_every_node_lists_the_missed_fire_times_of_all_nodes(cluster: Cluster) -> None:
    nodes = list(cluster)
    for number in range(9):
        nodes[0].create(
            name=f"late-{number}",
            namespace="late",
            command="true",
            schedule=f"@at 2026-01-0{1 + number % 3}T00:00:00Z",
            misfire="skip",
        )
    path = "/api/v1/ledger?namespace=late&outcome=missed&limit=5"
    nodes[0].wait_until(lambda: nodes[0].call("GET", path)["nextCursor"] is not None)

    lists: list[Json] = []
    for node in nodes:
        first = node.call("GET", path)
        node.wait_until(lambda: len(node.call("GET", path.replace("=5", "=9"))["items"]) == 9)  # noqa: B023 - at once
        rest = node.call("GET", f"{path}&cursor={first['nextCursor']}")
        lists.append(first["items"] + rest["items"])

    assert lists[0] == lists[1] == lists[2]
    assert len({each["job"] for each in lists[0]}) == 9


def has_types(node: Rotad) -> bool:
    """Return True if a node has a job type."""
    return bool(node.call("GET", "/api/v1/types")["items"])


def one_off_end(node: Rotad, job_id: str) -> Json:
    """Return the document of a one-off job, when its execution has ended."""
    path = f"/api/v1/jobs/{job_id}"
    node.wait_until(lambda: node.call("GET", path)["endedAt"] is not None)
    return node.call("GET", path)


def test_the_key_of_a_node_is_shown_nowhere(cluster: Cluster) -> None:
    keys = [b64decode(cluster.member(node_id)["key"]) for node_id in cluster.ids]
    forms = [
        form
        for key in keys
        for form in (key.hex(), b64encode(key).decode(), repr(key)[2:-1], key.decode("latin-1"))
    ]
    first, *_ = cluster

    shown = [
        *(node.log() for node in cluster),
        json.dumps(first.call("GET", "/api/v1/cluster")),
        first.call("GET", "/metrics"),
        *(
            path.read_bytes().decode("latin-1")
            for node in cluster
            for path in node.data_dir.rglob("*")
            if path.is_file()
        ),
    ]

    assert len(set(keys)) == len(keys) == 3
    assert all(len(key) == 32 for key in keys)
    assert [form for form in forms if any(form in text for text in shown)] == []


# -- killed nodes ----------------------------------------------------------------------------------


def test_shards_of_a_killed_node_are_taken_over_with_all_that_was_acknowledged_and_come_back(
    own_cluster: Cluster,
) -> None:
    own_cluster.start()
    first, second, third = own_cluster
    jobs = [first.create(name=f"kept-{number}", command="true")["jobId"] for number in range(24)]
    ran = [second.trigger(job) for job in jobs]
    for execution in ran:
        third.ended(execution)

    first.kill()

    shown = [answer(second, "GET", f"/api/v1/jobs/{job}") for job in jobs]
    assert [job["jobId"] for job in shown] == jobs
    again = [answer(third, "GET", f"/api/v1/executions/{each}") for each in ran]
    assert [each["status"] for each in again] == ["success"] * 24
    primaries = {each["primary"] for each in own_cluster.configurations().values()}
    assert primaries == {"n2", "n3"}
    meanwhile = answer(second, "POST", "/api/v1/jobs", {"name": "meanwhile", "command": "true"})

    first.start()

    own_cluster.wait_until(own_cluster.is_whole, "the node does not get its shards back")
    assert first.call("GET", f"/api/v1/jobs/{meanwhile['jobId']}")["name"] == "meanwhile"
    assert third.run(name="after", command="true")["status"] == "success"


def test_nodes_answer_while_the_quota_of_etcd_is_used_up(tmp_path: Path) -> None:
    for folder in ("etcd", "nodes"):
        (tmp_path / folder).mkdir()
    with (
        EtcdCluster(tmp_path / "etcd", 1, "--quota-backend-bytes", str(4 << 20)) as etcd,
        Cluster(tmp_path / "nodes", etcd) as cluster,
    ):
        cluster.start()
        etcd.members[0].use_up_quota()
        cluster.wait_until(
            lambda: all("alarm NOSPACE" in trouble for trouble in troubles(cluster.nodes[0])),
            "no node reports that etcd is full",
        )

        for life in cluster.sessions().values():  # etcd refuses new sessions.
            lease = str(int(life["session"], 16))
            etcd.members[0].ask("/v3/kv/lease/revoke", {"ID": lease})
        for node in cluster:
            cluster.wait_until(partial(is_refused, node), "etcd refuses nothing")
        etcd.members[0].make_room()

        cluster.wait_whole()  # No node has ended, or there would be too few.


def troubles(node: Rotad) -> list[str]:
    """Return the troubles of each node in one text, as shown by *node*."""
    nodes = answer(node, "GET", "/api/v1/cluster")["nodes"]
    return ["; ".join(each["troubles"] or ()) for each in nodes]


def is_refused(node: Rotad) -> bool:
    lines = node.call("GET", "/metrics").splitlines()
    return any(re.match(r"rota_coordinator_refusals_total [1-9]", line) for line in lines)


def test_a_schedule_continues_after_a_kill_and_each_fire_time_has_one_outcome(
    own_cluster: Cluster,
) -> None:
    own_cluster.start()
    names = [f"tick-{number}" for number in range(6)]
    for name in names:
        own_cluster.nodes[0].create(name=name, command="true", schedule="@every 1s", misfire="all")
    own_cluster.wait_until(
        lambda: all(ticks(own_cluster.nodes[1], name) >= 2 for name in names), "nothing fires"
    )
    victim = own_cluster.primary_of("tick-0")
    survivors = [node for node in own_cluster if node is not victim]

    victim.kill()
    before = {name: ticks(survivors[0], name) for name in names}
    own_cluster.wait_until(
        lambda: all(ticks(survivors[1], name) >= before[name] + 4 for name in names),
        "firing does not continue",
    )

    for name in names:
        fires = [entry["fireTime"] for entry in ledger(survivors[0], name)]
        assert fires == sorted(set(fires))
        assert gaps(fires) <= {1.0}, fires


# -- helpers ---------------------------------------------------------------------------------------


def ledger(node: Rotad, job: str) -> list[Json]:
    """Return a job's ledger; repeat the request until a node answers."""
    return list(answer(node, "GET", f"/api/v1/jobs/{job}/ledger?limit=1000")["items"])


def ticks(node: Rotad, job: str) -> int:
    """Return how many fire times of a job have an outcome."""
    return len(ledger(node, job))


def gaps(fires: list[str]) -> set[float]:
    """Return the seconds between fire times."""
    instants = [datetime.fromisoformat(fire).timestamp() for fire in fires]
    return {round(later - earlier, 3) for earlier, later in pairwise(instants)}
