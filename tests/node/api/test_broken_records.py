"""Records that cannot be shown whole: stored by an older version, or with another tz database.

Each list has the other records, a node starts with them, and a job among them can be replaced and
deleted.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rota.core.model.ids import ExecutionId, JobId, ShardId
from rota.core.model.job import JobPlan
from rota.core.model.ledger import FireOutcome, LedgerEntry, ledger_key
from rota.core.timing.instants import DAY, HOUR, LATEST_INSTANT, SECOND, Instant
from rota.core.timing.schedule import Schedule
from rota.core.vocabulary.changes import Record, Table
from rota.core.vocabulary.codec import encode_record
from rota.node.shards.local_shards import Shards
from rota.storage.memory import MemoryStore
from rota.storage.shards import shard_prefix
from rota.storage.store import Family
from support.in_process import Client, running_works, save, serving, trigger, until

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

        async with running_works(store, tmp_path, life=2) as wiring, serving(wiring) as client:
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

        async with running_works(store, tmp_path, life=2) as wiring, serving(wiring) as client:
            status, _ = await client.call("DELETE", f"/api/v1/jobs/{job_id}")
            left = (await found(client, "/jobs"))["items"]

        assert status == 204
        assert [job["name"] for job in left] == ["sound"]

    asyncio.run(main())


@dataclass(frozen=True)
class Ended:
    """A job with two finished executions of the instants 1 and 2, and two ledger entries."""

    store: MemoryStore
    job_id: JobId
    shard: ShardId
    execution_ids: list[ExecutionId]

    def damage(self, table: Table, key: str, value: bytes = b"\x01\xc1") -> None:
        """Put bytes that no record has in the place of the record of *table* at *key*."""
        place = shard_prefix(self.shard) + bytes((table,)) + key.encode()
        assert self.store.get(Family.HIST, place) is not None
        batch = self.store.batch()
        batch.put(Family.HIST, place, value)
        self.store.write(batch)
        self.store.sync()


async def ended_executions(folder: Path) -> Ended:
    store = MemoryStore()
    async with running_works(store, folder) as wiring:
        shards = wiring.context.shards
        job_id = await save(shards, "job", schedule="@every 1h")
        ids = [await trigger(shards, job_id) for _ in range(2)]
        shard = shards.of_id(job_id)
        await until(lambda: not shard.state.executions)
        await shards.settled(shard)
    records: dict[tuple[Table, str], Record] = {
        (Table.LEDGER, ledger_key(job_id, Instant(hour * HOUR), 0)): LedgerEntry(
            job_id=job_id,
            schedule=0,
            fire_at=Instant(hour * HOUR),
            until=Instant(hour * HOUR),
            count=1,
            outcome=FireOutcome.PAUSED,
            recorded_at=Instant(hour * HOUR),
        )
        for hour in (1, 2)
    }
    put(store, shard.id, records)
    return Ended(store, job_id, shard.id, sorted(ids, reverse=True))


DAMAGED = [b"", b"\x07\x90", b"\x01\xc1", b"\x01\x93\x01\x02\x03"]


@pytest.mark.parametrize("value", DAMAGED, ids=["empty", "format 7", "no msgpack", "other types"])
def test_an_execution_that_cannot_be_decoded_is_listed_as_broken(
    tmp_path: Path, value: bytes
) -> None:
    async def main() -> None:
        ended = await ended_executions(tmp_path)
        odd, sound = ended.execution_ids
        ended.damage(Table.PAST_EXECUTION, odd, value)

        async with (
            running_works(ended.store, tmp_path, life=2) as wiring,
            serving(wiring) as client,
        ):
            of_job = (await found(client, f"/executions?jobId={ended.job_id}"))["items"]
            of_all = (await found(client, "/executions"))["items"]
            succeeded = (await found(client, "/executions?status=success"))["items"]
            status, alone = await client.call("GET", f"/api/v1/executions/{odd}")
            body = {"executionIds": [odd, sound]}
            _, waited = await client.call("POST", "/api/v1/executions:wait", body)
            cancelled, _ = await client.call("POST", f"/api/v1/executions/{odd}/cancel")
            deleted, _ = await client.call("DELETE", f"/api/v1/jobs/{ended.job_id}")

        assert [each["executionId"] for each in of_job] == [odd, sound]
        assert [each["status"] for each in of_job] == ["broken", "success"]
        assert "PAST_EXECUTION" in of_job[0]["broken"]
        assert of_all == of_job == waited["items"]
        assert [each["executionId"] for each in succeeded] == [sound]
        assert (status, alone["code"]) == (500, "record_unreadable")
        assert cancelled == 500
        assert deleted == 204

    asyncio.run(main())


def test_an_execution_with_a_task_that_cannot_be_decoded_is_listed(tmp_path: Path) -> None:
    async def main() -> None:
        ended = await ended_executions(tmp_path)
        odd, sound = ended.execution_ids
        ended.damage(Table.PAST_TASK, f"{odd}/main")

        async with (
            running_works(ended.store, tmp_path, life=2) as wiring,
            serving(wiring) as client,
        ):
            listed = (await found(client, "/executions"))["items"]
            status, alone = await client.call("GET", f"/api/v1/executions/{odd}")
            output, _ = await client.call("GET", f"/api/v1/executions/{odd}/tasks/main/output")

        assert [each["executionId"] for each in listed] == [odd, sound]
        assert (status, alone["code"], output) == (500, "record_unreadable", 500)
        assert f"{odd}/main" in alone["detail"]

    asyncio.run(main())


def test_broken_records_are_counted_among_the_newest_of_a_job(tmp_path: Path) -> None:
    async def main() -> None:
        ended = await ended_executions(tmp_path)
        odd, sound = ended.execution_ids
        ended.damage(Table.PAST_EXECUTION, odd)
        ended.damage(Table.LEDGER, ledger_key(ended.job_id, Instant(2 * HOUR), 0))

        async with (
            running_works(ended.store, tmp_path, life=2) as wiring,
            serving(wiring) as client,
        ):
            recent = (await found(client, f"/jobs/{ended.job_id}"))["recent"]

        assert recent["counts"] == {"success": 1, "failed": 0, "cancelled": 0, "broken": 1}
        assert recent["lastSuccess"]["executionId"] == sound

    asyncio.run(main())


def test_a_ledger_entry_that_cannot_be_decoded_is_listed_as_broken(tmp_path: Path) -> None:
    async def main() -> None:
        ended = await ended_executions(tmp_path)
        ended.damage(Table.LEDGER, ledger_key(ended.job_id, Instant(HOUR), 0))

        async with (
            running_works(ended.store, tmp_path, life=2) as wiring,
            serving(wiring) as client,
        ):
            page = (await found(client, f"/jobs/{ended.job_id}/ledger"))["items"]

        assert [each["fireTime"] for each in page] == [
            "1970-01-01T01:00:00.000000Z",
            "1970-01-01T02:00:00.000000Z",
        ]
        assert [each["outcome"] for each in page] == ["broken", "paused"]
        assert "LEDGER" in page[0]["broken"]

    asyncio.run(main())


@pytest.mark.parametrize("table", [Table.JOB, Table.NAME, Table.PLAN])
def test_a_shard_whose_state_cannot_be_decoded_stays_closed_and_the_others_work(
    tmp_path: Path, table: Table
) -> None:
    async def main() -> None:
        store = MemoryStore()
        async with running_works(store, tmp_path) as wiring:
            shards = wiring.context.shards
            names = one_of_each_shard(shards)
            job_ids = {name: await save(shards, name, schedule="@every 1d") for name in names}
        odd, *sound = names
        key = f"default/{odd}" if table is Table.NAME else job_ids[odd]
        number = shards.of_name("default", odd).id
        place = shard_prefix(number) + bytes((table,)) + key.encode()
        assert store.get(Family.STATE, place) is not None
        batch = store.batch()
        batch.put(Family.STATE, place, b"\x07\x90")
        store.write(batch)
        store.sync()

        async with running_works(store, tmp_path, life=2) as wiring, serving(wiring) as client:
            status, refusal = await client.call("GET", f"/api/v1/jobs/{job_ids[odd]}")
            deleted, _ = await client.call("DELETE", f"/api/v1/jobs/{job_ids[odd]}")
            listed, _ = await client.call("GET", "/api/v1/jobs")
            shown = [await found(client, f"/jobs/{job_ids[each]}") for each in sound]
            made, _ = await client.call("POST", f"/api/v1/jobs/{job_ids[sound[0]]}/trigger")
            ready, why = await client.call("GET", "/readyz")

        assert (status, refusal["code"]) == (500, "record_unreadable")
        assert f"shard {number}" in refusal["detail"]
        assert key in refusal["detail"]
        assert (deleted, listed) == (500, 500)
        assert [each["name"] for each in shown] == sound
        assert made == 201
        assert ready == 503
        assert key in why["detail"]

    asyncio.run(main())


def one_of_each_shard(shards: Shards) -> list[str]:
    """Return a name of a job in each shard, in the order of the shards."""
    names: dict[ShardId, str] = {}
    for number in range(1000):
        names.setdefault(shards.of_name("default", f"job-{number}").id, f"job-{number}")
    assert len(names) == len(shards)
    return [names[each] for each in sorted(names)]


async def stored_job(store: MemoryStore, folder: Path, schedule: Schedule, due: Instant) -> JobId:
    """Store the job ``odd`` as another version would have, beside a sound one."""
    async with running_works(store, folder) as wiring:
        await save(wiring.context.shards, "sound", schedule="@every 1d")
        job_id = await save(wiring.context.shards, "odd", schedule="@every 1d")
        shard = wiring.context.shards.of_id(job_id)
        job = shard.state.jobs[job_id]
    odd = replace(job, spec=replace(job.spec, schedules=(schedule,)))
    records: dict[tuple[Table, str], Record] = {
        (Table.JOB, job_id): odd,
        (Table.PLAN, job_id): JobPlan(next_fires=(due,)),
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
