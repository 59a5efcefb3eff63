"""Why a job ran, did not run, will run or will not run at a time, through the API of a node."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rota.storage.memory import MemoryStore
from support.access_client import API, access_to
from support.in_process import Client, running_works, serving

Json = Any  # Any: an answer of a node, examined by each test.
JOB = "/api/v1/jobs/daily"
NEVER = {"command": "true", "schedule": "0 0 1 1 *"}
FUTURE = "2090-01-01T00:00:00Z"
PAST = "2026-06-01T00:00:00Z"


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with running_works(MemoryStore(), tmp_path) as wiring, serving(wiring) as client:
        yield client


async def send(client: Client, method: str, path: str, body: Json = None) -> Json:
    """Send a request that must succeed, and return its answer."""
    status, answer = await client.call(method, path, body)
    assert status < 300, answer
    return answer


async def save(client: Client, **fields: Json) -> Json:
    """Create or replace the job ``daily``."""
    return await send(client, "PUT", "/api/v1/jobs/default/daily", {**NEVER, **fields})


async def codes(client: Client, at: str) -> list[str]:
    """Return the codes of the causes of a time."""
    found = await send(client, "GET", f"{JOB}/explain?at={at}")
    return [each["code"] for each in found["causes"]]


async def first_entry(client: Client) -> Json:
    """Wait for the first entry of the ledger of the job, and return it."""
    while True:
        found = await send(client, "GET", f"{JOB}/ledger")
        if found["items"]:
            return found["items"][0]
        await asyncio.sleep(0.02)


async def test_an_explanation_names_the_job_and_the_time(client: Client) -> None:
    made = await save(client)

    found = await send(client, "GET", f"{JOB}/explain?at=2090-01-01T02:00:00%2B02:00")

    at = "2090-01-01T00:00:00.000000Z"
    assert found == {
        "job": "default/daily",
        "jobId": made["jobId"],
        "at": at,
        "causes": [
            {
                "code": "will_fire",
                "at": at,
                "cause": "it is a fire time of schedule 0",
                "change": "rota jobs pause default/daily",
            }
        ],
    }


async def test_times_without_an_outcome_have_causes(client: Client) -> None:
    await save(client)

    before = await codes(client, "2001-01-01T00:00:00Z")
    between = await send(client, "GET", f"{JOB}/explain?at=2090-01-02T00:00:00Z")
    now = await send(client, "GET", f"{JOB}/explain")

    assert before == ["not_yet_created"]
    [cause] = between["causes"]
    assert cause["code"] == "no_fire_time"
    assert "the next one is 2091-01-01T00:00:00" in cause["cause"]
    assert [each["code"] for each in now["causes"]] == ["no_fire_time"]


async def test_an_exclusion_and_a_pause_are_named(client: Client) -> None:
    await send(client, "PUT", "/api/v1/calendars/all-days", {"weekdays": ["MON-SUN"]})
    await save(client, exceptCalendars=["all-days"])

    excluded = await send(client, "GET", f"{JOB}/explain?at={FUTURE}")
    await send(client, "POST", f"{JOB}/pause", {"reason": "move"})
    paused = await send(client, "GET", f"{JOB}/explain?at={FUTURE}")

    assert [each["code"] for each in excluded["causes"]] == ["excluded"]
    assert "all-days" in excluded["causes"][0]["cause"]
    assert [each["code"] for each in paused["causes"]] == ["paused"]
    assert "by operator: move" in paused["causes"][0]["cause"]


async def test_a_fire_time_that_one_of_two_schedules_excludes_will_fire(client: Client) -> None:
    # Without a time zone, a calendar has that of the schedule: only 01:00 in Berlin is excluded.
    body = {"windows": [{"start": "00:30", "end": "02:00"}]}
    await send(client, "PUT", "/api/v1/calendars/early", body)
    schedules = [
        {"schedule": "0 1 1 1 *", "timezone": "Europe/Berlin"},
        {"schedule": "0 0 1 1 *", "timezone": "UTC"},
    ]

    await save(client, schedule=None, schedules=schedules[:1], exceptCalendars=["early"])
    one = await codes(client, FUTURE)
    await save(client, schedule=None, schedules=schedules, exceptCalendars=["early"])
    both = await codes(client, FUTURE)

    assert (one, both) == (["excluded"], ["will_fire"])


async def test_a_fire_time_has_its_execution_and_the_version_that_decided(client: Client) -> None:
    await save(client, schedule="* * * * * *", command="false")
    first = await first_entry(client)
    at, execution = first["fireTime"], first["executionId"]
    await send(client, "GET", f"/api/v1/executions/{execution}/wait?timeout=30s")
    await save(client)

    found = await send(client, "GET", f"{JOB}/explain?at={at}")

    assert [each["code"] for each in found["causes"]] == ["version", "fired", "execution_failed"]
    assert "version 1 was in use; the present one is 2" in found["causes"][0]["cause"]
    assert found["causes"][2]["change"] == f"rota rerun {execution}"


async def test_a_backfill_of_a_fire_time_is_named(client: Client) -> None:
    await save(client, schedule="0 0 * * *")
    until = "2026-06-02T00:00:00Z"
    made = await send(client, "POST", f"{JOB}/backfills", {"since": PAST, "until": until})

    found = await codes(client, PAST)

    assert made["total"] == 1
    assert found == ["not_yet_created", "backfill"]


async def test_a_trigger_for_a_fire_time_is_named(client: Client) -> None:
    await save(client)
    await send(client, "POST", f"{JOB}/trigger", {"fireTime": PAST})

    assert await codes(client, PAST) == ["not_yet_created", "other_trigger"]


async def test_a_malformed_time_and_a_missing_job_are_refused(client: Client) -> None:
    await save(client)

    malformed, problem = await client.call("GET", f"{JOB}/explain?at=03:00")
    missing, _ = await client.call("GET", f"/api/v1/jobs/none/explain?at={PAST}")

    assert (malformed, problem["code"], missing) == (422, "invalid_query", 404)


async def test_only_the_verb_audit_shows_which_earlier_version_decided(tmp_path: Path) -> None:
    async with access_to(tmp_path) as access:
        await access.init()
        viewer = await access.key("v", "viewer", "team-a")
        path = f"{API}/jobs/team-a/daily"
        _, made = await access.call(access.admin, "PUT", path, NEVER)
        await access.call(access.admin, "PUT", path, {**NEVER, "command": "false"})
        explain = f"{API}/jobs/team-a%2Fdaily/explain?at={made['createdAt']}"

        found = {
            who: (await access.call(token, "GET", explain))[1]["causes"][0]
            for who, token in (("viewer", viewer), ("admin", access.admin))
        }

    assert [each["code"] for each in found.values()] == ["version", "version"]
    assert found["admin"]["cause"] == "version 1 was in use; the present one is 2"
    assert found["viewer"]["at"] is None
    assert found["viewer"]["cause"].startswith("an earlier version was in use; the present one, 2,")
