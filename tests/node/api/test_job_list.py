"""The list of jobs: pages and filters."""

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from rota.core.vocabulary.commands import DeleteJob, PauseJob
from rota.node.access.principal import OPERATOR
from rota.node.api.app import OPERATIONS
from rota.node.api.forwarding.request_forwarding import respond
from rota.node.api.handlers import job_list
from rota.node.api.requests.request_context import RequestContext
from rota.node.context import NodeContext
from rota.node.shards.shard import NotPrimary
from rota.node.system import pacing
from support.authority import lose_authority
from support.in_process import Client, HeldStore, running_works, save, serving, trigger
from support.request_contexts import without_node
from support.rotad import Refusal, Rotad


async def names(client: Client, query: str = "") -> list[str]:
    """Return the names on all pages of a list, page by page."""
    found: list[str] = []
    cursor = ""
    while True:
        _, page = await client.call("GET", f"/api/v1/jobs?{query}{cursor}")
        found += [f"{each['namespace']}/{each['name']}" for each in page["items"]]
        if not page["nextCursor"]:
            return found
        cursor = f"&cursor={page['nextCursor']}"


async def create(client: Client, name: str, **body: Any) -> None:
    """Create a job that fires once a day."""
    job = {"name": name, "type": "scripted", "schedule": "@daily", **body}
    status, _ = await client.call("POST", "/api/v1/jobs", job)
    assert status == 201


@pytest.mark.parametrize("limit", [1, 2, 7, 1_000])
async def test_pages_hold_every_job_once_in_order(tmp_path: Path, limit: int) -> None:
    async with running_works(HeldStore(), tmp_path) as wiring, serving(wiring) as client:
        made = [f"job-{number * 7 % 23:02}" for number in range(23)]
        for name in made:
            await create(client, name)

        found = await names(client, f"limit={limit}")

        assert found == sorted(f"default/{name}" for name in made)


async def test_one_off_jobs_are_selected_or_left_out(tmp_path: Path) -> None:
    async with running_works(HeldStore(), tmp_path) as wiring, serving(wiring) as client:
        await create(client, "daily")
        status, made = await client.call("POST", "/api/v1/jobs", {"type": "scripted"})
        one_off = f"default/{made['name']}"

        assert status == 201
        assert await names(client, "oneOff=false&") == ["default/daily"]
        assert await names(client, "oneOff=true&") == [one_off]
        assert await names(client) == sorted(["default/daily", one_off])


async def test_a_page_continues_after_a_deleted_last_job(
    tmp_path: Path,
) -> None:
    async with running_works(HeldStore(), tmp_path) as wiring, serving(wiring) as client:
        shards = wiring.context.shards
        made = {name: await save(shards, name) for name in "abcd"}
        _, page = await client.call("GET", "/api/v1/jobs?limit=2")
        await shards.ask(shards.of_id(made["b"]), DeleteJob(job_id=made["b"]))

        found = await names(client, f"cursor={page['nextCursor']}")

        assert page["nextCursor"] == "default/b"
        assert found == ["default/c", "default/d"]


async def test_jobs_are_found_by_namespace_text_labels_and_status(tmp_path: Path) -> None:
    async with running_works(HeldStore(), tmp_path) as wiring, serving(wiring) as client:
        shards = wiring.context.shards
        await create(client, "plain")
        await create(client, "red", labels={"colour": "red", "size": ""}, namespace="team")
        await create(client, "blue", labels={"colour": "blue"}, namespace="team-b")
        await create(client, "over", schedule="@at 2020-01-01T00:00:00Z", misfire="skip")
        await create(client, "busy", parameters={"sleepMs": 10**9})
        await client.call("POST", "/api/v1/jobs/busy/trigger")
        paused = await save(shards, "paused")
        await shards.ask(shards.of_id(paused), PauseJob(job_id=paused))

        found = {
            query: await names(client, query)
            for query in (
                "namespace=team", "q=/b", "label=colour", "label=colour%3Dred", "label=size%3D",
                "label=colour&label=size", "label=colour%3Dblue&label=size", "status=paused",
                "status=running", "status=finished", "status=scheduled&q=a", "namespace=absent",
            )
        }  # fmt: skip

        assert found == {
            "namespace=team": ["team/red"],
            "q=/b": ["default/busy", "team-b/blue"],
            "label=colour": ["team-b/blue", "team/red"],
            "label=colour%3Dred": ["team/red"],
            "label=size%3D": ["team/red"],
            "label=colour&label=size": ["team/red"],
            "label=colour%3Dblue&label=size": [],
            "status=paused": ["default/paused"],
            "status=running": ["default/busy"],
            "status=finished": ["default/over"],
            "status=scheduled&q=a": ["default/plain", "team-b/blue", "team/red"],
            "namespace=absent": [],
        }


async def test_a_filter_examines_a_limited_number_of_jobs_and_gives_a_cursor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_list, "EXAMINED_MAX", 3)
    async with running_works(HeldStore(), tmp_path) as wiring, serving(wiring) as client:
        for name in ("a", "b", "c", "d", "wanted"):
            await create(client, name)

        _, page = await client.call("GET", "/api/v1/jobs?q=wanted")

        assert (page["items"], page["nextCursor"]) == ([], "default/c")
        assert await names(client, "q=wanted") == ["default/wanted"]


@pytest.mark.parametrize(
    "path", ["/api/v1/jobs", "/api/v1/executions", "/api/v1/executions?jobId=a"]
)
async def test_a_long_search_pauses_for_other_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    async with running_works(HeldStore(), tmp_path) as wiring:
        shards = wiring.context.shards
        wiring.context.attempts.slot_table.slots = 0
        first, *_ = [await save(shards, name) for name in "abcdefghij"]
        for _ in range(10):
            await trigger(shards, first)

        monkeypatch.setattr(pacing, "SLICE_S", 0.0)
        monkeypatch.setattr(job_list, "SLICE", 1)
        turns = 0
        async with asyncio.TaskGroup() as group:
            listing = group.create_task(listed(wiring.context, path))
            while not listing.done():
                await asyncio.sleep(0)
                turns += 1

        assert len(listing.result()["items"]) == 10
        assert turns > 10


@pytest.mark.parametrize("path", ["/api/v1/executions", "/api/v1/executions?jobId=a"])
async def test_a_shard_that_moves_away_in_a_pause_of_a_search_is_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    async with running_works(HeldStore(), tmp_path) as wiring:
        shards = wiring.context.shards
        wiring.context.attempts.slot_table.slots = 0
        job_id = await save(shards, "a")
        for _ in range(50):
            await trigger(shards, job_id)

        async def pause(pace: pacing.Pace) -> None:
            lose_authority(wiring, monkeypatch)

        monkeypatch.setattr(pacing.Pace, "rest", pause)

        with pytest.raises(NotPrimary):
            await listed(wiring.context, path)


async def listed(context: NodeContext, path: str) -> Any:
    """Return the document of a list, as the handler that is asked for it makes it."""
    http = make_mocked_request("GET", path, app=web.Application())
    request = RequestContext(http, context, request_id="request", principal=OPERATOR)
    [operation] = [each for each in OPERATIONS if each.method == "GET" and each.path == http.path]
    response = await respond(request, operation)
    assert isinstance(response, web.Response)
    assert isinstance(response.body, bytes)
    return json.loads(response.body)


def test_a_label_that_is_repeated_is_looked_for_once() -> None:
    query = "&".join(["label=red", "label=red%3D1"] * 400)
    request = without_node(make_mocked_request("GET", f"/api/v1/jobs?{query}"))

    assert job_list.labels_of(request) == [("red", None), ("red", "1")]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("cursor=nothing", "cursor"),
        ("cursor=a/b/c", "cursor"),
        ("status=idle", "status"),
        ("label=%3Dred", "label"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(node: Rotad, query: str, name: str) -> None:
    with pytest.raises(Refusal) as raised:
        node.call("GET", f"/api/v1/jobs?{query}")

    assert raised.value.status == 422
    assert raised.value.problem["errors"][0]["pointer"] == f"/query/{name}"


def test_a_ledger_is_read_from_either_end(node: Rotad) -> None:
    node.create(name="tick", schedules=["@every 100ms", "@every 200ms"], type="scripted")
    node.wait_until(lambda: len(node.ledger("tick")) > 8)
    node.call("POST", "/api/v1/jobs/tick/pause")
    oldest_first = [(each["fireTime"], each["schedule"]) for each in node.ledger("tick")]
    path = f"/api/v1/jobs/tick/ledger?limit=2&order=desc&to={quote(oldest_first[-1][0])}"

    found: list[Any] = []
    cursor = ""
    while True:
        page = node.call("GET", path + cursor)
        found += [(each["fireTime"], each["schedule"]) for each in page["items"]]
        if not page["nextCursor"]:
            break
        cursor = f"&cursor={page['nextCursor']}"

    before_last = [each for each in oldest_first if each[0] < oldest_first[-1][0]]
    assert found == before_last[::-1]
    job_id = node.call("GET", "/api/v1/jobs/tick")["jobId"]
    assert {(each["jobId"], each["job"]) for each in node.ledger("tick")} == {
        (job_id, "default/tick")
    }


async def test_a_job_shows_its_finished_execution_with_the_latest_fire_time(tmp_path: Path) -> None:
    async with running_works(HeldStore(), tmp_path) as wiring, serving(wiring) as client:
        await create(client, "fresh")
        await create(client, "mixed")
        await create(client, "failing", parameters={"outcome": "failed"})
        for parameters in ({"outcome": "failed"}, {}):
            await run(client, "mixed", parameters)
        execution_id = await run(client, "failing", None)
        [fresh, failing, mixed] = [
            (await client.call("GET", f"/api/v1/jobs/{name}"))[1]
            for name in ("fresh", "failing", "mixed")
        ]
        _, page = await client.call("GET", "/api/v1/jobs")

        assert fresh["lastExecution"] is None
        assert mixed["lastExecution"]["status"] == "success"
        assert failing["lastExecution"] == {
            "executionId": execution_id,
            "status": "failed",
            **{name: failing["lastExecution"][name] for name in ("fireTime", "startedAt")},
            "finishedAt": failing["lastExecution"]["finishedAt"],
            "reason": "task main failed: exited with code 1",
        }
        assert failing["lastExecution"]["finishedAt"] is not None
        assert [job["lastExecution"] for job in page["items"]] == [
            failing["lastExecution"],
            None,
            mixed["lastExecution"],
        ]
        assert await names(client, "lastStatus=failed&limit=1") == ["default/failing"]
        assert await names(client, "lastStatus=success") == ["default/mixed"]
        assert await names(client, "lastStatus=cancelled") == []


async def test_a_single_job_shows_the_outcomes_of_its_newest_executions(tmp_path: Path) -> None:
    async with running_works(HeldStore(), tmp_path) as wiring, serving(wiring) as client:
        await create(client, "job")
        ids = [
            await run(client, "job", {"outcome": outcome})
            for outcome in ("succeeded", "failed", "failed")
        ]
        _, job = await client.call("GET", "/api/v1/jobs/job")
        _, page = await client.call("GET", "/api/v1/jobs")
        _, success = await client.call("GET", f"/api/v1/executions/{ids[0]}")

        assert job["recent"] == {
            "counts": {"success": 1, "failed": 2, "cancelled": 0, "broken": 0},
            "lastSuccess": {"executionId": ids[0], "finishedAt": success["finishedAt"]},
            "failureStreak": 2,
            "skipStreak": 0,
        }
        assert [each["recent"] for each in page["items"]] == [None]


async def run(client: Client, name: str, parameters: Any) -> str:
    """Trigger a job, and return the id of its execution when that has ended."""
    body = {} if parameters is None else {"parameters": parameters}
    _, made = await client.call("POST", f"/api/v1/jobs/{name}/trigger", body)
    path = f"/api/v1/executions/{made['executionId']}/wait?timeout=20s"
    _, ended = await client.call("GET", path)
    assert ended["finishedAt"], ended
    return str(made["executionId"])


async def test_the_status_of_a_job_is_that_of_its_executions_and_schedules(tmp_path: Path) -> None:
    long = {"sleepMs": 10**9}
    async with running_works(HeldStore(), tmp_path, slots=1) as wiring, serving(wiring) as client:
        await create(client, "a-manual", schedule="@manual")
        await create(client, "b-scheduled")
        await create(client, "c-after", schedule=None, dependencies=["b-scheduled"])
        await create(client, "d-running", parameters=long)
        await create(client, "e-waiting", parameters=long)
        await create(client, "f-over", schedule="@at 2020-01-01T00:00:00Z", misfire="skip")
        for name in ("d-running", "e-waiting"):
            await client.call("POST", f"/api/v1/jobs/{name}/trigger", {})
        _, page = await client.call("GET", "/api/v1/jobs")

        assert {job["name"]: job["status"] for job in page["items"]} == {
            "a-manual": "manual",
            "b-scheduled": "scheduled",
            "c-after": "scheduled",
            "d-running": "running",
            "e-waiting": "waiting",
            "f-over": "finished",
        }
        for status in ("manual", "waiting"):
            [name] = await names(client, f"status={status}")
            assert name.endswith(status)
