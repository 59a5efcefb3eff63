"""Backfills through the API of a node."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rota.storage.memory import MemoryStore
from support.in_process import Client, running_works, serving

PATH = "/api/v1/jobs/daily/backfills"
JUNE = {"since": "2026-06-01T00:00:00Z", "until": "2026-06-04T00:00:00Z"}
TIMES = [f"2026-06-0{day}T03:00:00.000000Z" for day in (1, 2, 3)]


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with running_works(MemoryStore(), tmp_path) as wiring, serving(wiring) as client:
        yield client


async def save(client: Client, **fields: Any) -> Any:
    """Save the job ``daily``."""
    job = {"name": "daily", "command": "true", "schedule": "0 3 * * *", **fields}
    _, saved = await client.call("POST", "/api/v1/jobs", job)
    return saved


async def start(client: Client, **fields: Any) -> Any:
    """Start a backfill."""
    status, made = await client.call("POST", PATH, {**JUNE, **fields})
    assert status == 201, made
    return made


async def ended(client: Client, made: Any) -> Any:
    """Wait for the end of a backfill, and return it."""
    while True:
        _, found = await client.call("GET", f"{PATH}/{made['backfillId']}")
        if found["finishedAt"]:
            return found
        await asyncio.sleep(0.02)


async def executions(client: Client) -> list[Any]:
    """Return the executions of ``daily`` in the order of their creation."""
    _, found = await client.call("GET", "/api/v1/executions?jobId=daily")
    return sorted(found["items"], key=lambda each: each["queuedAt"])


async def test_each_fire_time_of_the_range_runs_once(client: Client) -> None:
    saved = await save(client)

    made = await start(client)
    done = await ended(client, made)
    again = await ended(client, await start(client))
    _, listed = await client.call("GET", PATH)
    _, after = await client.call("GET", "/api/v1/jobs/daily")

    assert (made["total"], made["nextTimes"], made["startedBy"]["principal"]) == (
        3,
        TIMES[1:],
        "operator",
    )
    assert (done["status"], done["succeeded"], done["failed"]) == ("done", 3, 0)
    assert [each["fireTime"] for each in await executions(client)] == TIMES
    assert {each["trigger"] for each in await executions(client)} == {"backfill"}
    assert again["total"] == 0
    assert [each["total"] for each in listed["items"]] == [0, 3]
    assert after["nextFireAt"] == saved["nextFireAt"]


async def test_what_failed_runs_again_if_it_is_asked_for(client: Client) -> None:
    await save(client, command="exit 1")
    await ended(client, await start(client))
    await save_again(client, "true")

    missing = await start(client)
    failed = await ended(client, await start(client, reprocess="failed"))
    later = await start(client, reprocess="failed")
    everything = await ended(client, await start(client, reprocess="all"))

    totals = [each["total"] for each in (missing, failed, later, everything)]
    assert totals == [0, 3, 0, 3]
    assert failed["succeeded"] == 3


async def save_again(client: Client, command: str) -> None:
    """Replace the command of ``daily``."""
    await client.call("PATCH", "/api/v1/jobs/daily", {"command": command})


async def test_the_newest_times_run_first_if_it_is_asked_for(client: Client) -> None:
    await save(client)

    await ended(client, await start(client, order="newest"))

    assert [each["fireTime"] for each in await executions(client)] == TIMES[::-1]


async def test_a_dry_run_counts_and_starts_nothing(client: Client) -> None:
    await save(client)

    status, dry = await client.call("POST", f"{PATH}?dryRun=true", JUNE)
    _, listed = await client.call("GET", PATH)

    assert (status, dry["total"], dry["nextTimes"]) == (201, 3, TIMES)
    assert (dry["status"], dry["begun"], dry["running"]) == ("dry_run", 0, 0)
    assert listed["items"] == []
    assert await executions(client) == []


async def test_calendars_of_the_job_apply_and_blackouts_do_not(client: Client) -> None:
    second = {"dates": ["2026-06-02"]}
    await client.call("PUT", "/api/v1/calendars/second", second)
    await client.call(
        "PUT", "/api/v1/calendars/freeze", {"weekdays": ["MON-SUN"], "blackoutOf": ["*"]}
    )
    await save(client, exceptCalendars=["second"])

    await ended(client, await start(client))

    assert [each["fireTime"] for each in await executions(client)] == [TIMES[0], TIMES[2]]


async def test_a_backfill_is_paused_resumed_and_cancelled(client: Client) -> None:
    await save(client, command="sleep 60")
    made = await start(client)
    path = f"{PATH}/{made['backfillId']}"

    found = [
        (await client.call("POST", f"{path}/{word}"))[1]["status"]
        for word in ("pause", "resume", "cancel")
    ]
    status, problem = await client.call("POST", f"{path}/resume")
    [running] = await executions(client)
    await client.call("POST", f"/api/v1/executions/{running['executionId']}/cancel")

    assert found == ["paused", "running", "cancelled"]
    assert (status, problem["code"]) == (409, "backfill_ended")


async def test_a_second_backfill_is_refused_until_the_first_has_ended(client: Client) -> None:
    await save(client, command="sleep 60")
    made = await start(client)

    status, problem = await client.call("POST", PATH, JUNE)
    await client.call("POST", f"{PATH}/{made['backfillId']}/cancel")

    assert (status, problem["code"]) == (409, "backfill_active")
    assert made["backfillId"] in problem["detail"]


async def test_a_repeated_request_gets_the_same_backfill(client: Client) -> None:
    await save(client)

    _, first = await start_with_key(client, JUNE)
    await ended(client, first)
    _, second = await start_with_key(client, JUNE)
    status, problem = await start_with_key(client, {**JUNE, "parallel": 3})

    assert second["backfillId"] == first["backfillId"]
    assert len(await executions(client)) == 3
    assert (status, problem["code"]) == (422, "idempotency_key_reused")


async def start_with_key(client: Client, body: Any) -> tuple[int, Any]:
    """Start a backfill with an idempotency key."""
    headers, url = {"Idempotency-Key": "june"}, client.url + PATH
    async with client.session.post(url, json=body, headers=headers) as answer:
        return answer.status, await answer.json(content_type=None)


@pytest.mark.parametrize(
    ("body", "pointer", "detail"),
    [
        ({"since": "soon"}, "/since", "soon"),
        ({"since": "2026-06-04T00:00:00Z", "until": "2026-06-01T00:00:00Z"}, "/until", "not later"),
        ({"since": "2026-06-01T00:00:00Z", "until": "2999-01-01T00:00:00Z"}, "/until", "future"),
    ],
)
async def test_a_wrong_range_is_refused(
    client: Client, body: Any, pointer: str, detail: str
) -> None:
    await save(client)

    status, problem = await client.call("POST", PATH, body)

    assert (status, problem["code"]) == (422, "invalid_backfill")
    assert problem["errors"][0]["pointer"] == pointer
    assert detail in problem["errors"][0]["detail"]


async def test_too_many_fire_times_are_refused(client: Client) -> None:
    await save(client, schedule="* * * * * *")

    status, problem = await client.call("POST", PATH, JUNE)

    assert status == 422
    assert (
        problem["errors"][0]["detail"]
        == "the range has more than 10,000 fire times to run; split it"
    )


async def test_only_fire_times_that_the_schedule_has_decided_belong_to_it(
    client: Client,
) -> None:
    await save(client, schedule="@every 1s", overlap="allow")
    status, missing = await client.call("GET", f"{PATH}/0")

    made = await client.call("POST", PATH, {"since": "2026-06-01T00:00:00Z", "until": None})
    short = {"since": "2026-06-01T00:00:00Z", "until": "2026-06-01T00:00:05Z"}
    _, dry = await client.call("POST", f"{PATH}?dryRun=true", short)

    assert made[0] == 422
    assert dry["total"] == 5
    assert (status, missing["code"]) == (404, "backfill_not_found")
