"""``?dryRun=true``: the checks and the answer of the write, without its effect."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rota.core.vocabulary.commands import Trigger
from rota.node.runtime.wiring import NodeWiring
from rota.node.shards.dry_run import dry_run
from rota.node.system.disk_guard import judge
from support.in_process import Client, HeldStore, running_works, save, serving, trigger, turns

TICK = {"name": "job", "schedule": "@daily", "command": "true"}


@asynccontextmanager
async def two_nodes(folder: Path) -> AsyncGenerator[tuple[tuple[NodeWiring, Client], Client]]:
    """Two nodes: one for dry runs, and one for the writes."""
    async with (
        running_works(HeldStore(), folder / "tried") as tried,
        running_works(HeldStore(), folder / "done") as done,
        serving(tried) as trying,
        serving(done) as doing,
    ):
        yield (tried, trying), doing


WRITES: list[tuple[str, str, Any]] = [
    ("POST", "/jobs", {**TICK, "name": "another", "priority": 3}),
    ("POST", "/jobs", TICK),
    ("POST", "/jobs", {**TICK, "command": "false"}),
    ("POST", "/jobs", {**TICK, "name": "another", "dependencies": ["absent"]}),
    ("POST", "/jobs", {**TICK, "name": "another", "type": "nope", "command": None}),
    ("PUT", "/jobs/default/job", {**TICK, "command": "false"}),
    ("PUT", "/jobs/default/new", {"command": "false"}),
    ("PATCH", "/jobs/job", {"schedule": "@hourly", "labels": {"a": "b"}}),
    ("PATCH", "/jobs/job", {"schedule": "61 * * * *"}),
    ("DELETE", "/jobs/job", None),
    ("DELETE", "/jobs/absent", None),
    ("POST", "/jobs/job/pause", {"reason": "moving house"}),
    ("POST", "/jobs/paused/resume", None),
    ("POST", "/jobs/job/trigger", {"parameters": {"a": 1}}),
    ("POST", "/jobs/busy/trigger", None),
    ("POST", "/jobs:batch", {"items": [{**TICK, "name": "x"}, {**TICK, "name": "x"}, TICK, 5]}),
    ("POST", "/jobs:batch", {"items": [TICK, {**TICK, "command": "x"}]}),
    ("POST", "/jobs:batch", {"items": []}),
    ("PUT", "/jobs:batch", {"items": [{**TICK, "priority": 3}, {**TICK, "name": "x"}]}),
    ("POST", "/executions:batch", {"items": [{"job": "job"}, {"job": "absent"}]}),
    ("POST", "/executions/{busy}/cancel", None),
    ("POST", "/executions/{waiting}/cancel", None),
]


@pytest.mark.parametrize(("method", "path", "body"), WRITES, ids=[f"{m} {p}" for m, p, _ in WRITES])
async def test_a_dry_run_is_answered_like_the_write_and_changes_nothing(
    tmp_path: Path, method: str, path: str, body: Any
) -> None:
    async with two_nodes(tmp_path) as ((wiring, trying), doing):
        here, there = await furnish(trying), await furnish(doing)
        shards, attempts = wiring.context.shards, wiring.context.attempts
        before = [(shard.replica.copy.tip, shard.state.fork()) for shard in shards]
        slot_table = (attempts.slot_table.used, attempts.slot_table.waiting)

        tried = await ask(trying, method, path.format(**here), body, "?dryRun=true")
        done = await ask(doing, method, path.format(**there), body, "")

        assert tried == done
        assert [(shard.replica.copy.tip, shard.state.fork()) for shard in shards] == before
        assert (attempts.slot_table.used, attempts.slot_table.waiting) == slot_table


async def test_the_answer_to_a_dry_run_has_a_header(tmp_path: Path) -> None:
    async with running_works(HeldStore(), tmp_path) as wiring, serving(wiring) as client:
        said = {
            given: await header(client, f"/jobs/absent/trigger?dryRun={given}")
            for given in ("true", "1", "false", "0")
        }

        status, problem = await client.call("POST", "/api/v1/jobs/x/trigger?dryRun=yes")

        assert said == {"true": "true", "1": "true", "false": None, "0": None}
        assert (status, problem["errors"][0]["pointer"]) == (422, "/query/dryRun")


async def test_a_try_uses_up_no_idempotency_key(tmp_path: Path) -> None:
    async with running_works(HeldStore(), tmp_path) as wiring, serving(wiring) as client:
        job_id = await save(wiring.context.shards, "job")

        await ask(client, "POST", "/jobs/job/trigger", {"parameters": 1}, "?dryRun=1", key="k")
        made = await ask(client, "POST", "/jobs/job/trigger", {"parameters": 2}, "", key="k")
        repeated = await ask(client, "POST", "/jobs/job/trigger", {"parameters": 2}, "", key="k")
        tried = await ask(
            client, "POST", "/jobs/job/trigger", {"parameters": 2}, "?dryRun=1", key="k"
        )

        assert made == repeated == tried
        assert wiring.context.shards.of_id(job_id).state.requests.keys() == {"operator/k"}


async def test_a_node_that_takes_no_writes_tries_none(tmp_path: Path) -> None:
    async with running_works(HeldStore(), tmp_path) as wiring, serving(wiring) as client:
        wiring.context.shards.see_space(judge(0, reserve_bytes=1))

        status, _, problem = await ask(client, "POST", "/jobs", TICK, "?dryRun=true")

        assert (status, problem["code"]) == (503, "disk_full")


async def test_a_try_waits_for_what_it_saw_to_be_committed(tmp_path: Path) -> None:
    store = HeldStore()
    async with running_works(store, tmp_path) as wiring, asyncio.TaskGroup() as group:
        shards = wiring.context.shards
        job_id = await save(shards, "job")
        store.hold()
        asked = group.create_task(trigger(shards, job_id))
        await turns()

        request = shards.of_id(job_id), Trigger(job_id=job_id)
        tried = group.create_task(dry_run(shards, wiring.context.clock, [request]))
        await turns()
        before = tried.done()
        store.let_go()
        await asked
        await tried

        assert not before


async def furnish(client: Client) -> dict[str, str]:
    """Create the jobs of the writes, and return ids for their paths."""
    for body in (
        TICK,
        {"name": "paused", "schedule": "@daily", "command": "true"},
        {"name": "busy", "type": "scripted", "parameters": {"sleepMs": 10**9}, "overlap": "skip"},
        {"name": "long", "type": "scripted", "parameters": {"sleepMs": 10**9}},
        {"name": "late", "dependencies": ["long"], "schedule": "@at 2020-01-01T00:00:00Z",
         "misfire": "latest", "command": "true"},
    ):  # fmt: skip
        status, _ = await client.call("POST", "/api/v1/jobs", body)
        assert status == 201
    await client.call("POST", "/api/v1/jobs/paused/pause")
    _, busy = await client.call("POST", "/api/v1/jobs/busy/trigger")
    while True:
        _, late = await client.call("GET", "/api/v1/executions?jobId=late")
        _, shown = await client.call("GET", f"/api/v1/executions/{busy['executionId']}")
        if late["items"] and shown["status"] == "running":
            return {"busy": busy["executionId"], "waiting": late["items"][0]["executionId"]}


async def ask(
    client: Client, method: str, path: str, body: Any, query: str, *, key: str = ""
) -> tuple[int, str | None, Any]:
    """Return the status, the entity tag and the document of an answer, but what chance gives."""
    headers = {"Idempotency-Key": key} if key else {}
    url = f"{client.url}/api/v1{path}{query}"
    async with client.session.request(method, url, json=body, headers=headers) as answer:
        text = await answer.text()
        content = json.loads(text, object_hook=without_chance) if text else None
        return answer.status, answer.headers.get("ETag"), content


async def header(client: Client, path: str) -> str | None:
    """Return the header of an answer that says that it was a try."""
    async with client.session.post(f"{client.url}/api/v1{path}") as answer:
        return answer.headers.get("Rota-Dry-Run")


CHANCE = {
    "jobId", "executionId", "requestId", "createdAt", "updatedAt", "pausedAt", "queuedAt",
    "startedAt", "finishedAt", "fireTime", "latenessMs", "detail", "token", "progress",
}  # fmt: skip


def without_chance(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document without what differs from node to node and from moment to moment."""
    return {name: bool(value) if name in CHANCE else value for name, value in document.items()}
