"""Forwarding of requests to primaries: whole requests, parts, streams, and missing primaries."""

import asyncio
import json
import signal
import urllib.request
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from msgspec.structs import replace as changed

from rota.client import Client
from rota.core.errors import Kind, Refused
from rota.core.model.ids import Epoch, NodeId
from rota.core.vocabulary.commands import SaveJob
from rota.node.api.forwarding.request_forwarding import respond
from rota.node.api.requests.node_headers import OF_NODES
from rota.node.api.requests.operations import Handler, Operation, Operations, Target
from rota.node.api.requests.permissions import ANYONE
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.writes import write
from rota.node.peers.forward_port import OPENING_PATH
from rota.node.peers.peer_apis import PeerApis
from rota.node.shards.shard import NotPrimary, Shard
from rota.storage.memory import MemoryStore
from rota.wire.headers import NODE, PRIMARY
from rota.wire.operations import Operation as Row
from support.cluster import SHARDS, Cluster, answer
from support.etcd import needs_etcd
from support.forwarding_nodes import proofs_of
from support.in_process import HeldStore, running_works, spec_of, until
from support.raw_http import bare_request, exchange, status_of
from support.request_contexts import request_to
from support.rotad import Refusal, Rotad
from support.stopping import stop
from support.strange_servers import accept_forwards

pytestmark = needs_etcd
OTHER = NodeId("n2")
Json = Any  # Any: answers of nodes, examined by each test.


# -- one shard -------------------------------------------------------------------------------------


def test_a_job_is_changed_through_any_node(cluster: Cluster) -> None:
    owner, other, third = nodes_of(cluster, "changed")
    other.create(name="changed", command="true")

    other.call("POST", "/api/v1/jobs/changed/pause", {"reason": "for now"})
    third.call("PATCH", "/api/v1/jobs/changed", {"description": "patched"})
    put = {"name": "changed", "command": "false"}
    other.call("PUT", "/api/v1/jobs/default/changed", put, {"If-Match": '"2"'})

    job = owner.call("GET", "/api/v1/jobs/changed")
    assert (job["version"], job["definition"]["command"]) == (3, "false")


def test_a_refusal_comes_back_as_the_owner_said_it(cluster: Cluster) -> None:
    owner, other, _ = nodes_of(cluster, "refused")
    other.create(name="refused", command="true")

    with pytest.raises(Refusal) as refused:
        other.call("PUT", "/api/v1/jobs/default/refused", {"command": "x"}, {"If-Match": '"7"'})
    with pytest.raises(Refusal) as refused_there:
        owner.call("PUT", "/api/v1/jobs/default/refused", {"command": "x"}, {"If-Match": '"7"'})

    assert refused.value.status == refused_there.value.status == 412
    assert refused.value.problem["detail"] == refused_there.value.problem["detail"]


def test_an_idempotency_key_holds_across_nodes(cluster: Cluster) -> None:
    owner, other, third = nodes_of(cluster, "once")
    owner.create(name="once", command="true")
    key = {"Idempotency-Key": "the same"}

    made = [
        node.call("POST", "/api/v1/jobs/once/trigger", {}, key)["executionId"]
        for node in (other, third, owner)
    ]

    assert len(set(made)) == 1


def test_a_late_copy_of_a_write_finds_its_key_through_any_node(cluster: Cluster) -> None:
    owner, other, third = nodes_of(cluster, "late")
    put = ("PUT", "/api/v1/jobs/default/late", {"command": "true"}, {"Idempotency-Key": "put"})
    delete = ("DELETE", "/api/v1/jobs/late", None, {"Idempotency-Key": "delete"})
    other.call(*put)
    third.call(*delete)

    with pytest.raises(Refusal, match="job_not_found"):
        third.call(*put)
    made = owner.create(name="late", command="true")
    other.call(*delete)

    assert third.call("GET", "/api/v1/jobs/late")["jobId"] == made["jobId"]


def test_a_change_through_another_node_names_the_client_and_all_nodes_list_it(
    cluster: Cluster,
) -> None:
    _, other, _ = nodes_of(cluster, "audited")
    headers = {"X-Request-Id": "mine"}
    other.call("POST", "/api/v1/jobs", {"name": "audited", "command": "true"}, headers)

    lists = [
        node.call("GET", "/api/v1/changes?object=default/audited")["items"] for node in cluster
    ]
    checks = [node.call("GET", "/api/v1/changes:verify")["items"] for node in cluster]

    assert lists[0] == lists[1] == lists[2]
    [change] = lists[0]
    caller = {"principal": "operator", "key": None, "requestId": "mine", "address": "127.0.0.1"}
    assert (change["action"], change["by"]) == ("job.created", caller)
    for check in checks:
        assert [each["shard"] for each in check] == list(range(SHARDS))
        assert {each["fault"] for each in check} == {""}


def test_a_request_id_is_the_same_on_both_nodes(cluster: Cluster) -> None:
    _, other, _ = nodes_of(cluster, "no-such-job")

    with pytest.raises(Refusal) as refused:
        other.call("GET", "/api/v1/jobs/no-such-job", headers={"X-Request-Id": "mine"})

    assert refused.value.headers["X-Request-Id"] == refused.value.problem["requestId"] == "mine"
    cluster.wait_until(
        lambda: sum('"request": "mine"' in node.log() for node in cluster) == 2,
        "the request is not in the logs of two nodes",
    )


def test_an_answer_names_the_node_and_the_primary(cluster: Cluster) -> None:
    owner, other, _ = nodes_of(cluster, "asked")
    other.create(name="asked", command="true")

    with urllib.request.urlopen(f"{owner.url}/api/v1/jobs/asked") as answer:
        direct = answer.headers
    with urllib.request.urlopen(f"{other.url}/api/v1/jobs/asked") as answer:
        forwarded = answer.headers

    assert (direct[NODE], direct[PRIMARY]) == (owner.data_dir.name, None)
    assert (forwarded[NODE], forwarded[PRIMARY]) == (other.data_dir.name, owner.data_dir.name)


def test_a_client_of_several_nodes_soon_asks_the_primary(cluster: Cluster) -> None:
    owner, other, third = nodes_of(cluster, "direct")
    owner.create(name="direct", command="true")

    asked: list[str] = []
    with Client([other.url, third.url, owner.url]) as client:
        for _ in range(5):
            client.job("direct")
            asked.append(client.url)

    assert asked[2:] == [owner.url] * 3


async def test_a_forwarded_request_is_not_forwarded_again(tmp_path: Path) -> None:
    async with (
        running_works(MemoryStore(), tmp_path) as wiring,
        PeerApis.open(Linked(), proofs_of("n")) as others,
    ):
        context = replace(wiring.context, others=others)

        async def lose_the_shard(request: RequestContext) -> web.Response:
            raise context.shards.of_name("default", "job").elsewhere()

        with pytest.raises(NotPrimary):
            await respond(request_to(context, sender=OTHER), operation_of(lose_the_shard))


@pytest.mark.parametrize("site", [{}, {"Sec-Fetch-Site": "same-origin"}])
def test_a_change_for_a_page_of_one_node_is_forwarded(
    cluster: Cluster, site: dict[str, str]
) -> None:
    _, other, _ = nodes_of(cluster, "of-a-page")
    other.call("PUT", "/api/v1/jobs/default/of-a-page", {"command": "true"})
    page = {"Origin": other.url, **site}

    made = other.call("POST", "/api/v1/jobs/of-a-page/trigger", None, page)
    items = [{"job": "of-a-page"}, *({"job": f"no-such-{number}"} for number in range(20))]
    batch = other.call("POST", "/api/v1/executions:batch", {"items": items}, page)

    assert made["executionId"]
    codes = [each["error"] and each["error"]["code"] for each in batch["items"]]
    assert codes == [None, *["job_not_found"] * 20]


def test_a_request_that_was_meant_for_a_proxy_is_forwarded(cluster: Cluster) -> None:
    _, other, _ = nodes_of(cluster, "by-proxy")
    other.create(name="by-proxy", command="true")

    first_lines = [
        f"GET {prefix}/api/v1/{path} HTTP/1.1"
        for prefix in ("", "http://localhost")
        for path in ("jobs/by-proxy", "jobs?q=by-proxy")
    ]
    answers = [exchange(other, bare_request(line, "Host: localhost")) for line in first_lines]

    assert [status_of(each) for each in answers] == [200] * 4


def test_a_job_may_depend_on_jobs_of_other_nodes(cluster: Cluster) -> None:
    names = [f"first-{number}" for number in range(8)]
    node = cluster.nodes[0]
    ids = [node.create(name=name, command="true")["jobId"] for name in names]
    dependencies = [*names[:4], *ids[4:]]

    for number, asked in enumerate(cluster):
        asked.create(name=f"then-{number}", command="true", dependencies=dependencies)

    shown = [node.call("GET", f"/api/v1/jobs/then-{number}") for number in range(3)]
    expected = [f"default/{name}" for name in names]
    assert [job["dependencies"] for job in shown] == [expected] * 3
    with pytest.raises(Refusal, match="does not exist; create it first"):
        node.create(name="never", command="true", dependencies=["no-such-job", *names])


def test_a_circle_of_jobs_of_several_nodes_is_refused(cluster: Cluster) -> None:
    names = [f"ring-{number}" for number in range(8)]
    node = cluster.nodes[0]
    node.create(name=names[0], command="true")
    for before, name in pairwise(names):
        node.create(name=name, command="true", dependencies=[before])

    for asked in cluster:
        with pytest.raises(Refusal, match="form a circle: default/ring-0 -> default/ring-7 -> "):
            asked.call("PATCH", f"/api/v1/jobs/{names[0]}", {"dependencies": [names[-1]]})


def test_a_calendar_that_a_job_of_another_node_names_is_not_deleted(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    node.call("PUT", "/api/v1/calendars/bank", {})
    cluster.wait_until(
        lambda: all(each.call("GET", "/api/v1/calendars")["items"] for each in cluster),
        "all nodes have the calendar",
    )
    node.create(name="of-a-bank", command="true", exceptCalendars=["bank"])

    for asked in cluster:
        with pytest.raises(Refusal, match="job default/of-a-bank names the calendar 'bank'"):
            asked.call("DELETE", "/api/v1/calendars/bank")


def test_a_preview_of_calendars_has_the_jobs_of_all_nodes(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    names = [f"daily-{number}" for number in range(8)]
    for name in names:
        node.create(name=name, namespace="frozen", command="true", schedule="@daily")
    freeze = {"weekdays": ["MON-SUN"], "blackoutOf": ["frozen"]}
    body = {"calendars": [{"name": "freeze", "definition": freeze}]}

    for asked in cluster:
        found = asked.call("POST", "/api/v1/calendars:preview?days=3", body)
        assert [each["job"] for each in found["items"]] == [f"frozen/{name}" for name in names]


def test_a_job_runs_after_a_job_of_another_node(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    names = [f"before-{number}" for number in range(6)]
    for name in names:
        node.create(name=name, command="true")
    for name in names:
        node.create(name=f"after-{name}", command="true", dependencies=[name])

    for name in names:
        node.ended(node.trigger(name))

    def have_ended() -> bool:
        paths = (f"/api/v1/executions?jobId=after-{name}&status=success" for name in names)
        return all(node.call("GET", path)["items"] for path in paths)

    node.wait_until(have_ended)


# -- batches ---------------------------------------------------------------------------------------


def test_a_batch_is_split_and_its_results_are_in_order(cluster: Cluster) -> None:
    node = cluster.nodes[1]
    items = [{"name": f"many-{number}", "command": "true"} for number in range(40)]
    items[7] = {"name": "many-7", "schedule": "61 * * * *", "command": "true"}
    items[9] = {"nome": "many-9"}

    made = node.call("POST", "/api/v1/jobs:batch", {"items": items})["items"]

    statuses = [201] * 40
    statuses[7] = statuses[9] = 422
    assert [each["status"] for each in made] == statuses
    named = [each["job"] for each in made if each["job"]]
    assert named == [f"default/many-{number}" for number in range(40) if number not in (7, 9)]
    pointers = [error["pointer"] for error in made[7]["error"]["errors"]]
    assert pointers == ["/items/7/schedule"]

    changed = [{**each, "priority": 1} for each in items]
    again = node.call("PUT", "/api/v1/jobs:batch", {"items": changed})["items"]
    assert [each["change"] for each in again if each["job"]] == ["replaced"] * 38


@pytest.mark.parametrize("header", OF_NODES)
def test_the_port_of_the_api_refuses_headers_of_nodes(cluster: Cluster, header: str) -> None:
    for method, path in (
        ("GET", "/api/v1/jobs"),
        ("POST", "/api/v1/jobs:batch"),
        ("GET", "/livez"),
    ):
        body: Json = None if method == "GET" else {"items": []}
        with pytest.raises(Refusal) as refused:
            cluster.nodes[0].call(method, path, body, {header: "n2"})

        assert (refused.value.status, refused.value.problem["code"]) == (403, "not_a_node")


def test_a_batch_is_repeatable_through_another_node(cluster: Cluster) -> None:
    first, second, third = cluster
    items = [{"name": f"again-{number}", "command": "true"} for number in range(20)]
    first.call("POST", "/api/v1/jobs:batch", {"items": items})
    triggers = {"items": [{"job": f"again-{number}"} for number in range(20)]}
    key = {"Idempotency-Key": "twenty"}

    made = [
        node.call("POST", "/api/v1/executions:batch", triggers, key)["items"]
        for node in (second, third, first)
    ]

    ids = [each["executionId"] for each in made[0]]
    assert made[0] == made[1] == made[2]
    assert len(set(ids)) == 20
    waited = third.call("POST", "/api/v1/executions:wait", {"executionIds": ids})["items"]
    assert [each["executionId"] for each in waited] == ids
    assert {each["status"] for each in waited} == {"success"}


def test_a_wait_for_many_executions_reports_a_missing_one(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    ids = [node.trigger(node.create(name=f"w-{n}", command="true")["jobId"]) for n in range(6)]
    ids[3] = ids[3][:-4] + "9999"

    with pytest.raises(Refusal, match="execution_not_found"):
        node.call("POST", "/api/v1/executions:wait", {"executionIds": ids, "timeout": 5})


# -- lists -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def listed(cluster: Cluster) -> list[str]:
    """Thirty jobs in a namespace of their own, each with one execution; their names in order."""
    names = [f"j{number:02}" for number in range(30)]
    items = [{"name": name, "namespace": "listed", "command": "true"} for name in names]
    cluster.nodes[0].call("POST", "/api/v1/jobs:batch", {"items": items})
    triggers = [{"job": f"listed/{name}"} for name in names]
    made = cluster.nodes[0].call("POST", "/api/v1/executions:batch", {"items": triggers})
    ids = [each["executionId"] for each in made["items"]]
    cluster.nodes[0].call("POST", "/api/v1/executions:wait", {"executionIds": ids})
    return names


@pytest.mark.parametrize("limit", [1, 7, 30, 100])
def test_the_list_of_jobs_is_the_same_through_any_node(
    cluster: Cluster, listed: list[str], limit: int
) -> None:
    for nodes in (list(cluster), list(reversed(list(cluster)))):
        # Each page through the next node.
        jobs = pages(nodes, f"/api/v1/jobs?namespace=listed&limit={limit}")

        assert [job["name"] for job in jobs] == listed


@pytest.mark.parametrize("limit", [1, 7, 30, 100])
def test_the_list_of_executions_is_the_same_through_any_node(
    cluster: Cluster, listed: list[str], limit: int
) -> None:
    listings = [
        pages(nodes, f"/api/v1/executions?namespace=listed&limit={limit}")
        for nodes in (list(cluster), list(cluster)[:1], list(reversed(list(cluster))))
    ]

    fires = [each["fireTime"] for each in listings[0]]
    assert listings[0] == listings[1] == listings[2]
    assert sorted(each["job"] for each in listings[0]) == [f"listed/{name}" for name in listed]
    assert fires == sorted(fires, reverse=True)


def test_a_filter_finds_what_is_on_any_node(cluster: Cluster, listed: list[str]) -> None:
    found = [pages([node], "/api/v1/jobs?namespace=listed&q=7&limit=2") for node in cluster]

    assert [[job["name"] for job in jobs] for jobs in found] == [["j07", "j17", "j27"]] * 3


# -- streams ---------------------------------------------------------------------------------------


async def test_output_is_followed_through_another_node(cluster: Cluster) -> None:
    _, other, third = nodes_of(cluster, "talking")
    other.create(name="talking", command="echo one; read line; echo two", stdin="x\n")
    execution = other.trigger("talking")

    async with reading(third, f"/api/v1/executions/{execution}/tasks/main/output?follow=true") as (
        text
    ):
        content = await text.read()

    assert content == b"one\ntwo\n"


async def test_output_comes_while_it_is_written(cluster: Cluster) -> None:
    _, other, third = nodes_of(cluster, "slow-talk")
    other.create(name="slow-talk", command="echo one; sleep 60")
    execution = other.trigger("slow-talk")
    path = f"/api/v1/executions/{execution}/tasks/main/output?follow=true"
    await asyncio.to_thread(other.wait_until, lambda: bool(attempts_of(other, execution)), 10)

    async with reading(third, path) as text:
        first = await text.readline()
        third.call("POST", f"/api/v1/executions/{execution}/cancel")
        rest = await text.read()

    assert (first, rest) == (b"one\n", b"")


async def test_events_of_all_nodes_come_through_any(cluster: Cluster) -> None:
    node = cluster.nodes[2]
    async with reading(node, "/api/v1/events?namespace=all-nodes&type=execution", NDJSON) as text:
        opened = json.loads(await text.readline())
        names = [f"e{number}" for number in range(12)]
        items = [{"name": name, "namespace": "all-nodes", "command": "true"} for name in names]
        await asyncio.to_thread(node.call, "POST", "/api/v1/jobs:batch", {"items": items})
        triggers = {"items": [{"job": f"all-nodes/{name}"} for name in names]}
        await asyncio.to_thread(node.call, "POST", "/api/v1/executions:batch", triggers)
        events = await until_ended(text, 12)

    assert opened["type"] == "stream.opened"
    assert len(opened["id"].split(",")) == 3
    for name in names:
        states = [each["status"] for each in events if each["job"] == f"all-nodes/{name}"]
        assert [state for state in states if state != "queued"] == ["running", "success"]


async def test_events_continue_after_an_id_through_another_node(cluster: Cluster) -> None:
    first, second, third = cluster
    query = "/api/v1/events?namespace=resumed&type=execution"
    async with reading(first, query, NDJSON) as text:
        opened = json.loads(await text.readline())
    items = [{"name": f"r{n}", "namespace": "resumed", "command": "true"} for n in range(8)]
    second.call("POST", "/api/v1/jobs:batch", {"items": items})
    triggers = {"items": [{"job": f"resumed/r{n}"} for n in range(8)]}
    second.call("POST", "/api/v1/executions:batch", triggers)

    async with reading(third, query, NDJSON, **{"Last-Event-ID": opened["id"]}) as text:
        assert json.loads(await text.readline())["type"] == "stream.opened"
        events = await until_ended(text, 8)

    assert {each["job"] for each in events} == {f"resumed/r{n}" for n in range(8)}
    assert all(not each["type"].startswith("stream.") for each in events)


async def test_events_of_one_job_come_through_a_node_that_does_not_have_it(
    cluster: Cluster,
) -> None:
    owner, other, _ = nodes_of(cluster, "watched")
    job = owner.create(name="watched", command="true")
    async with reading(other, "/api/v1/events?jobId=watched&type=execution", NDJSON) as text:
        await text.readline()
        execution = await asyncio.to_thread(owner.trigger, "watched")
        events = await until_ended(text, 1)

    assert {each["jobId"] for each in events} == {job["jobId"]}
    assert {each["executionId"] for each in events} == {execution}


async def test_an_id_of_a_node_that_is_not_there_is_a_gap(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    async with reading(node, "/api/v1/events", NDJSON) as text:
        opened = json.loads(await text.readline())

    seen = {"Last-Event-ID": f"{opened['id']},0badcafe-7"}
    async with reading(node, "/api/v1/events", NDJSON, **seen) as text:
        words = [json.loads(await text.readline())["type"] for _ in range(2)]

    assert words == ["stream.opened", "stream.gap"]


# -- shards that move ------------------------------------------------------------------------------


async def test_a_wait_and_its_output_follow_an_execution_whose_shard_goes_elsewhere(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    own_cluster.start()
    owner, other, third = nodes_of(own_cluster, "moving")
    until_it_is_there = f"echo begun; until test -e {tmp_path}/go; do sleep 0.1; done; echo over"
    other.create(name="moving", command=until_it_is_there)
    execution = other.trigger("moving")
    path = f"/api/v1/executions/{execution}"
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(asyncio.to_thread(other.call, "GET", f"{path}/wait?timeout=60"))
        async with reading(third, f"{path}/tasks/main/output?follow=true") as text:
            assert await text.readline() == b"begun\n"

        await asyncio.to_thread(own_cluster.drain, owner)
        # The attempt is still on its first node, which is no longer the primary.
        async with reading(third, f"{path}/tasks/main/output?follow=true") as text:
            assert await text.readline() == b"begun\n"
            (tmp_path / "go").touch()
            assert await text.read() == b"over\n"

    assert waiting.result()["status"] == "success"
    assert waiting.result()["tasks"]["main"]["attempts"][0]["nodeId"] == owner.data_dir.name


async def test_events_continue_over_a_handover_without_a_gap(own_cluster: Cluster) -> None:
    own_cluster.start()
    owner, other, _ = nodes_of(own_cluster, "e0")
    for number in range(4):
        other.create(name=f"e{number}", command="true")
    async with reading(other, "/api/v1/events?type=execution", NDJSON) as text:
        await text.readline()
        await asyncio.to_thread(own_cluster.drain, owner)
        for number in range(4):
            await asyncio.to_thread(other.trigger, f"e{number}")
        events = await until_ended(text, 4)

    assert all(not each["type"].startswith("stream.") for each in events)
    assert {each["job"] for each in events} == {f"default/e{number}" for number in range(4)}


async def test_events_end_with_a_lost_node_and_continue_with_a_gap(own_cluster: Cluster) -> None:
    own_cluster.start()
    first, second, third = own_cluster
    async with reading(first, "/api/v1/events", NDJSON) as text:
        await text.readline()
        third.kill()
        last = json.loads((await text.read()).strip().splitlines()[-1])
    answer(second, "GET", "/api/v1/jobs")

    async with reading(second, "/api/v1/events", NDJSON, **{"Last-Event-ID": last["id"]}) as text:
        words = [json.loads(await text.readline())["type"] for _ in range(2)]
        # A node that joins ends the stream too: its events are not followed yet.
        await asyncio.to_thread(third.start)
        words.append(json.loads((await text.read()).strip().splitlines()[-1])["type"])

    assert last["type"] == "stream.closed"
    assert words == ["stream.opened", "stream.gap", "stream.closed"]


# -- missing primaries -----------------------------------------------------------------------------


def test_without_a_primary_there_is_no_partial_answer(own_cluster: Cluster) -> None:
    own_cluster.start()
    first, second, third = own_cluster
    first.create(name="anything", command="true")

    # A single node has no authority: two of three copies are gone.
    second.kill()
    third.kill()

    for method, path, body in (
        ("GET", "/api/v1/jobs", None),
        ("GET", "/api/v1/executions", None),
        ("GET", "/api/v1/events", None),
        ("POST", "/api/v1/jobs:batch", {"items": [{"name": f"b{n}"} for n in range(20)]}),
    ):
        with pytest.raises(Refusal) as refused:
            first.call(method, path, body)
        assert (refused.value.status, refused.value.problem["code"]) == (503, "not_primary")
        assert refused.value.headers["Retry-After"] == "1"
    with pytest.raises(Refusal) as refused:
        first.call("GET", "/readyz")
    assert refused.value.problem["code"] == "not_ready"
    assert answer(first, "GET", "/livez") == "ok\n"


def test_a_request_waits_for_a_takeover(own_cluster: Cluster) -> None:
    own_cluster.start()
    owner, other, _ = nodes_of(own_cluster, "awaited")
    other.create(name="awaited", command="true")

    owner.stop()

    # The node has ended its session, so that another takes over as soon as it may; asked once.
    assert other.call("GET", "/api/v1/jobs/awaited")["name"] == "awaited"


def test_a_node_that_stands_still_is_waited_for_and_then_done_without(own_cluster: Cluster) -> None:
    own_cluster.start()
    owner, other, _ = nodes_of(own_cluster, "stuck")
    other.create(name="stuck", command="sleep 60")
    execution = other.trigger("stuck")
    assert owner.process is not None

    stop(owner.process.pid)
    try:
        jobs = answer(other, "GET", "/api/v1/jobs")["items"]
        shown = answer(other, "GET", f"/api/v1/executions/{execution}/wait?timeout=0.1s")
    finally:
        owner.process.send_signal(signal.SIGCONT)

    assert [job["name"] for job in jobs] == ["stuck"]
    assert shown["executionId"] == execution


def test_what_may_have_been_done_by_a_node_that_was_lost_is_not_done_again(
    own_cluster: Cluster,
) -> None:
    own_cluster.start()
    owner, other, third = nodes_of(own_cluster, "perhaps")
    other.create(name="perhaps", command="true")
    assert owner.process is not None

    stop(owner.process.pid)
    try:
        with pytest.raises(Refusal) as refused:
            other.call("POST", "/api/v1/jobs/perhaps/trigger", {})
        found = answer(third, "GET", "/api/v1/executions?jobId=perhaps")["items"]
    finally:
        owner.process.send_signal(signal.SIGCONT)

    assert (refused.value.status, refused.value.problem["code"]) == (503, "primary_lost")
    assert found == []


@pytest.mark.parametrize("sender", [None, OTHER], ids=["direct", "forwarded"])
async def test_a_request_for_which_something_was_decided_is_not_answered_elsewhere(
    tmp_path: Path, sender: NodeId | None
) -> None:
    async with (
        running_works(MemoryStore(), tmp_path) as wiring,
        PeerApis.open(Nowhere(), proofs_of("n")) as others,
    ):
        context = replace(wiring.context, others=others)

        async def write_and_lose_the_shard(request: RequestContext) -> web.Response:
            shard = context.shards.of_name("default", "job")
            await write(request, shard, SaveJob(spec=spec_of("job")))
            raise shard.elsewhere()

        request = request_to(context, sender=sender)
        with pytest.raises(Refused, match="primary_lost"):
            await respond(request, operation_of(write_and_lose_the_shard))


async def test_a_request_for_which_a_stopping_node_decided_something_is_not_repeated(
    tmp_path: Path,
) -> None:
    async with running_works(MemoryStore(), tmp_path) as wiring:
        context = wiring.context

        async def write_and_meet_the_stop(request: RequestContext) -> web.Response:
            shard = context.shards.of_name("default", "job")
            await write(request, shard, SaveJob(spec=spec_of("job")))
            raise Refused(Kind.UNAVAILABLE, "stopping", "this node is stopping")

        request = request_to(context, sender=OTHER)
        with pytest.raises(Refused, match="primary_lost"):
            await respond(request, operation_of(write_and_meet_the_stop))


async def test_a_stream_of_the_new_primary_does_not_wait_for_what_was_read_here_before(
    tmp_path: Path,
) -> None:
    async with (
        running_works(MemoryStore(), tmp_path) as wiring,
        streaming() as address,
        PeerApis.open(Linked(), proofs_of("n")) as others,
    ):
        member = wiring.foundation.environment.member
        others.set_members({OTHER: changed(member, node_id=OTHER, peer_address=address)})
        shards = wiring.context.shards
        shard = shards.of_name("default", "job")
        newest = shard.replica.newest
        assert newest is not None
        given_up = changed(newest, epoch=Epoch(newest.epoch + 1), primary=OTHER)

        async def read_and_lose_the_shard(request: RequestContext) -> web.Response:
            request.state(shard)
            shards.learn(shard.id, given_up)
            await until(lambda: not shard.is_open)
            raise shard.elsewhere()

        request = request_to(replace(wiring.context, others=others))
        response = await respond(request, operation_of(read_and_lose_the_shard))

    assert (response.status, response.headers[PRIMARY]) == (200, OTHER)


async def test_no_handler_runs_for_a_shard_that_has_another_primary(tmp_path: Path) -> None:
    async with running_works(MemoryStore(), tmp_path) as wiring:
        context, shard = wiring.context, wiring.context.shards.of_name("default", "job")
        ran: list[str] = []

        async def target(request: RequestContext) -> Shard:
            return shard

        async def handler(request: RequestContext) -> web.Response:
            ran.append(request.id)
            return web.Response()

        await respond(request_to(context), operation_of(handler, target))
        shard.close()
        with pytest.raises(NotPrimary):
            await respond(request_to(context), operation_of(handler, target))

        assert len(ran) == 1


async def test_a_response_waits_for_the_commit_of_what_its_handler_read(tmp_path: Path) -> None:
    store = HeldStore()
    async with running_works(store, tmp_path) as wiring:
        shards = wiring.context.shards
        shard = shards.of_name("default", "job")
        read: list[int] = []

        async def handler(request: RequestContext) -> web.Response:
            read.append(len(request.state(shard).jobs))
            return web.Response()

        store.hold()
        async with asyncio.TaskGroup() as group:
            group.create_task(shards.ask(shard, SaveJob(spec=spec_of("job"))))
            await until(lambda: store.held_count > 0)
            request, operation = request_to(wiring.context), operation_of(handler)
            responding = group.create_task(respond(request, operation))
            await until(lambda: bool(read))
            is_early = responding.done()
            store.let_go()

        assert read == [1]
        assert not is_early


def operation_of(handler: Handler, target: Target | None = None) -> Operation:
    """Return an operation that a node does not have."""
    operations = Operations("Test")
    operations.declare(Row("POST", "/", bytes), permission=ANYONE, target=target)(handler)
    return operations.declared[0]


class Nowhere:
    """There is no other node."""

    peers: tuple[NodeId, ...] = ()

    @contextmanager
    def watched(self, node_id: NodeId, on_lost: Callable[[], None]) -> Generator[None]:
        """Never call *on_lost*."""
        yield


class Linked(Nowhere):
    """There is a link to one other node."""

    peers = (OTHER,)


@asynccontextmanager
async def streaming() -> AsyncGenerator[str]:
    """Answer every request by a body of unknown length; gives the address."""

    async def answer_in_parts(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == OPENING_PATH:
            return await accept_forwards(request)
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"part")
        await response.write_eof()
        return response

    server = await asyncio.get_running_loop().create_server(
        web.Server(answer_in_parts), "127.0.0.1", 0
    )
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


# -- helpers ---------------------------------------------------------------------------------------

NDJSON = "application/x-ndjson"


def nodes_of(cluster: Cluster, job: str) -> tuple[Rotad, Rotad, Rotad]:
    """Return the node that decides for a job, and the other two."""
    owner = cluster.primary_of(job)
    others = [node for node in cluster if node is not owner]
    return owner, others[0], others[1]


def pages(nodes: list[Rotad], path: str) -> list[Json]:
    """Return all pages of a list, each through another node."""
    items: list[Json] = []
    cursor, turn = "", 0
    while True:
        node = nodes[turn % len(nodes)]
        page = node.call("GET", path + (f"&cursor={cursor}" if cursor else ""))
        items += page["items"]
        if not page["nextCursor"]:
            return items
        cursor, turn = page["nextCursor"].replace("/", "%2F"), turn + 1


def attempts_of(node: Rotad, execution: str) -> list[Json]:
    """Return the attempts of an execution's only task."""
    shown = node.call("GET", f"/api/v1/executions/{execution}")
    return list(shown["tasks"]["main"]["attempts"])


@asynccontextmanager
async def reading(
    node: Rotad, path: str, accept: str = "*/*", **headers: str
) -> AsyncGenerator[aiohttp.StreamReader]:
    """Read a stream."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(node.url + path, headers={"Accept": accept, **headers}) as answer,
    ):
        assert answer.status == 200, await answer.text()
        yield answer.content


async def until_ended(text: aiohttp.StreamReader, count: int) -> list[Json]:
    """Return the events until *count* executions have ended."""
    events: list[Json] = []
    async with asyncio.timeout(20):
        while sum(each["type"] == "execution.success" for each in events) < count:
            line = await text.readline()
            if line.strip():
                events.append(json.loads(line))
    return events
