"""Records that cannot be shown whole: stored by an older version, or with another tz database.

Each list has the other records, a node starts with them, and a job among them can be replaced and
deleted.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from in_process import Client, running_works, save, serving
from rota.core.changes import Record, Table
from rota.core.codec import encode_record
from rota.core.ids import JobId, ShardId
from rota.core.instants import DAY, LATEST_INSTANT, SECOND, Instant
from rota.core.job import Plan
from rota.core.schedule import Schedule
from rota.storage.memory import MemoryStore
from rota.storage.shards import shard_prefix
from rota.storage.store import Family

BEYOND = Instant(LATEST_INSTANT + SECOND)
POISON = Schedule(text="@every 2932896d phase 1d")
NO_ZONE = Schedule(text="0 0 * * *", timezone="Europe/Atlantis")


@pytest.mark.parametrize(
    ("schedule", "due", "status", "reason"),
    [
        (POISON, BEYOND, "broken", "cannot be shown"),
        (NO_ZONE, Instant(DAY), "scheduled", '"Europe/Atlantis" is not a time zone'),
    ],
)
def test_a_job_that_cannot_be_read_is_listed_replaced_and_deleted_after_a_restart(
    tmp_path: Path, schedule: Schedule, due: Instant, status: str, reason: str
) -> None:
    async def main() -> None:
        store = MemoryStore()
        job_id = await stored_job(store, tmp_path, schedule, due)

        async with running_works(store, tmp_path, life=2) as works, serving(works) as client:
            listed = {job["name"]: job for job in (await found(client, "/jobs"))["items"]}
            shown = await found(client, f"/jobs/{job_id}")
            with_status = (await found(client, f"/jobs?status={status}"))["items"]
            made, _ = await client.call("POST", f"/api/v1/jobs/{job_id}/trigger")
            body = {"type": "scripted", "schedule": "@every 1h"}
            put, _ = await client.call("PUT", "/api/v1/jobs/default/odd", body)
            mended = await found(client, f"/jobs/{job_id}")

        assert set(listed) == {"odd", "sound"}
        assert listed["odd"]["status"] == shown["status"] == status
        assert "odd" in [job["name"] for job in with_status]
        assert reason in shown["broken"]
        assert (made, put) == (201, 200)
        assert (mended["status"], mended["broken"]) == ("scheduled", "")

    asyncio.run(main())


@pytest.mark.parametrize(("schedule", "due"), [(POISON, BEYOND), (NO_ZONE, Instant(DAY))])
def test_a_job_that_cannot_be_read_is_deleted(
    tmp_path: Path, schedule: Schedule, due: Instant
) -> None:
    async def main() -> None:
        store = MemoryStore()
        job_id = await stored_job(store, tmp_path, schedule, due)

        async with running_works(store, tmp_path, life=2) as works, serving(works) as client:
            status, _ = await client.call("DELETE", f"/api/v1/jobs/{job_id}")
            left = (await found(client, "/jobs"))["items"]

        assert status == 204
        assert [job["name"] for job in left] == ["sound"]

    asyncio.run(main())


async def stored_job(store: MemoryStore, folder: Path, schedule: Schedule, due: Instant) -> JobId:
    """Store the job ``odd`` as another version would have, beside a sound one."""
    async with running_works(store, folder) as works:
        await save(works.parts.shards, "sound", schedule="@every 1d")
        job_id = await save(works.parts.shards, "odd", schedule="@every 1d")
        shard = works.parts.shards.of_id(job_id)
        job = shard.state.jobs[job_id]
    odd = replace(job, spec=replace(job.spec, schedules=(schedule,)))
    records: dict[tuple[Table, str], Record] = {
        (Table.JOB, job_id): odd,
        (Table.PLAN, job_id): Plan(next_fires=(due,)),
    }
    put(store, shard.id, records)
    return job_id


def put(store: MemoryStore, shard: ShardId, records: Mapping[tuple[Table, str], Record]) -> None:
    batch = store.batch()
    for (table, key), record in records.items():
        family = Family.STATE if table < Table.HISTORY else Family.HIST
        batch.put(
            family, shard_prefix(shard) + bytes((table,)) + key.encode(), encode_record(record)
        )
    store.write(batch)
    store.sync()


async def found(client: Client, path: str) -> Any:
    status, document = await client.call("GET", f"/api/v1{path}")
    assert status == 200, (path, status, document)
    return document
