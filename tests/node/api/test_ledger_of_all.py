"""The ledger of all jobs: what began no execution, the latest first."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rota.core.vocabulary.commands import DeleteJob, PauseJob
from rota.node.runtime.wiring import NodeWiring
from rota.storage.memory import MemoryStore
from support.in_process import Client, running_works, serving, until

Json = Any  # Any: an answer of a node, examined by each test.
LEDGER = "/api/v1/ledger"


@pytest.fixture
async def wiring(tmp_path: Path) -> AsyncIterator[NodeWiring]:
    async with running_works(MemoryStore(), tmp_path) as wiring:
        yield wiring


@pytest.fixture
async def client(wiring: NodeWiring) -> AsyncIterator[Client]:
    async with serving(wiring) as client:
        yield client


async def create(client: Client, name: str, **fields: Json) -> Json:
    """Create a job."""
    body = {"name": name, "type": "scripted", **fields}
    status, job = await client.call("POST", "/api/v1/jobs", body)
    assert status == 201, job
    return job


async def passed(client: Client, name: str, at: str = "2026-01-01T00:00:00Z", **more: Json) -> Json:
    """Create a job whose only fire time has passed, and is missed."""
    return await create(client, name, schedule=f"@at {at}", misfire="skip", **more)


async def listed(client: Client, query: str = "") -> list[Json]:
    """Return the items of a page."""
    status, page = await client.call("GET", f"{LEDGER}{query}")
    assert status == 200, page
    items: list[Json] = page["items"]
    return items


async def wait_for(client: Client, count: int) -> list[Json]:
    """Return the whole list once it has *count* entries."""
    found: list[Json] = []
    for _ in range(2_000):
        found = await listed(client, "?limit=1000")
        if len(found) >= count:
            return found
        await asyncio.sleep(0.01)
    raise AssertionError(found)


async def test_entries_of_all_jobs_are_listed_with_their_jobs_and_reasons(client: Client) -> None:
    first = await passed(client, "first")
    second = await passed(client, "second", "2026-01-02T00:00:00Z", namespace="billing")

    found = await wait_for(client, 2)

    assert [(each["jobId"], each["job"], each["outcome"]) for each in found] == [
        (second["jobId"], "billing/second", "missed"),
        (first["jobId"], "default/first", "missed"),
    ]
    assert all("the misfire policy is skip" in each["reason"] for each in found)


async def test_fire_times_that_fired_are_not_listed(wiring: NodeWiring, client: Client) -> None:
    job = await create(client, "fires", schedule="@at 2026-01-01T00:00:00Z", misfire="latest")
    await until(lambda: wiring.context.events.count >= 3)
    _, ledger = await client.call("GET", "/api/v1/jobs/fires/ledger")

    assert [each["outcome"] for each in ledger["items"]] == ["fired"]
    assert ledger["items"][0]["jobId"] == job["jobId"]
    assert job["jobId"]
    assert await listed(client) == []


async def test_the_list_is_filtered(wiring: NodeWiring, client: Client) -> None:
    await passed(client, "missed")
    await passed(client, "other", namespace="billing")
    job = await create(client, "rests", schedule="* * * * * *")
    shard = wiring.context.shards.of_id(job["jobId"])
    await wiring.context.shards.ask(shard, PauseJob(job_id=job["jobId"]))
    await wait_for(client, 3)

    async def jobs(query: str) -> set[str]:
        return {each["job"] for each in await listed(client, query)}

    assert await jobs("?outcome=paused") == {"default/rests"}
    assert await jobs("?namespace=billing") == {"billing/other"}
    assert await jobs("?to=2026-01-02T00:00:00Z") == {"default/missed", "billing/other"}
    assert await jobs("?from=2026-01-02T00:00:00Z") == {"default/rests"}
    assert await jobs("?outcome=skipped") == set()
    status, problem = await client.call("GET", f"{LEDGER}?outcome=fired")
    assert (status, problem["code"]) == (422, "invalid_query")


async def test_pages_make_up_the_whole_list_without_repetition(client: Client) -> None:
    for number in range(25):
        # Several of one instant, in several shards.
        await passed(client, f"job-{number}", f"2026-01-{1 + number % 7:02}T00:00:00Z")
    whole = await wait_for(client, 25)

    pages: list[Json] = []
    query = "?limit=4"
    while True:
        _, page = await client.call("GET", f"{LEDGER}{query}")
        pages += page["items"]
        assert len(page["items"]) <= 4
        if page["nextCursor"] is None:
            break
        query = f"?limit=4&cursor={page['nextCursor']}"

    assert pages == whole
    assert [each["fireTime"] for each in whole] == sorted(
        (each["fireTime"] for each in whole), reverse=True
    )


async def test_a_filter_that_matches_little_gives_short_pages_with_a_cursor(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.node.api.handlers.ledger.EXAMINED_MAX", 3)
    for number in range(5):
        await passed(client, f"job-{number}", f"2026-01-0{9 - number}T00:00:00Z")
    _, page = await client.call("GET", f"{LEDGER}?outcome=skipped")
    seen = [page]
    while seen[-1]["nextCursor"] is not None:
        cursor = seen[-1]["nextCursor"]
        _, page = await client.call("GET", f"{LEDGER}?outcome=skipped&cursor={cursor}")
        seen.append(page)

    assert len(seen) >= 2
    assert all(page["items"] == [] for page in seen)


async def test_entries_of_a_deleted_job_have_its_id_alone(
    wiring: NodeWiring, client: Client
) -> None:
    job = await passed(client, "gone")
    await wait_for(client, 1)
    shard = wiring.context.shards.of_id(job["jobId"])
    await wiring.context.shards.ask(shard, DeleteJob(job_id=job["jobId"]))

    [entry] = await listed(client)

    assert (entry["jobId"], entry["job"]) == (job["jobId"], None)
    assert await listed(client, "?namespace=default") == []


@pytest.mark.parametrize("query", ["cursor=x", "to=", "from=x", "limit=0", "outcome=none"])
async def test_a_malformed_query_is_refused(query: str, client: Client) -> None:
    status, problem = await client.call("GET", f"{LEDGER}?{query}")

    assert (status, problem["code"]) == (422, "invalid_query")
