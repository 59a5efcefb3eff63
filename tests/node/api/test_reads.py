"""Reads over HTTP on a node that may have been replaced: they are refused (R15)."""

import asyncio
from pathlib import Path

import pytest

from rota.core.model.execution import ExecutionStatus
from rota.core.vocabulary.commands import Cancel
from rota.node.api.handlers.executions import load_execution
from rota.node.recovery.procedure import HASHES_AT_ONCE
from rota.storage.memory import MemoryStore
from support.authority import lose_authority
from support.in_process import Client, HeldStore, running_works, save, serving, trigger, until
from support.request_contexts import request_to

READS = (
    "jobs",
    "jobs/job",
    "jobs/nothing",
    "jobs/{job}",
    "jobs/{job}/next",
    "jobs/{job}/ledger",
    "jobs/{job}/explain",
    "events?jobId=job",
    "events?executionId={live}",
    "executions",
    "executions?jobId=job",
    "executions/{live}",
    "executions/{past}",
    "executions/{past}/wait",
    "executions/{past}/tasks/main/output",
    "executions/{past}/tasks/nothing/output",
)


@pytest.mark.parametrize("path", READS)
async def test_a_node_without_authority_answers_no_reads(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_works(MemoryStore(), tmp_path) as wiring, serving(wiring) as client:
        shards = wiring.context.shards
        job_id = await save(shards, "job", parameters={"sleepMs": 0})
        past = await trigger(shards, job_id)
        await until(lambda: past not in shards.of_id(past).state.executions)
        wiring.context.attempts.slot_table.slots = 0
        live = await trigger(shards, job_id)
        asked = path.format(job=job_id, live=live, past=past)
        before, *_ = await read(client, asked)

        lose_authority(wiring, monkeypatch)
        status, code, retry_after = await read(client, asked)

        assert before == (404 if "nothing" in path else 200)
        assert (status, code) == (503, "not_primary")
        assert int(retry_after) > 0


async def test_a_node_without_authority_does_not_answer_waits_for_executions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_works(MemoryStore(), tmp_path) as wiring, serving(wiring) as client:
        shards = wiring.context.shards
        execution_id = await trigger(shards, await save(shards, "job"))

        lose_authority(wiring, monkeypatch)
        body = {"executionIds": [execution_id], "timeout": "1ms"}
        status, problem = await client.call("POST", "/api/v1/executions:wait", body)

        assert (status, problem["code"]) == (503, "not_primary")


async def test_an_execution_whose_end_is_not_committed_yet_is_read_after_the_commit(
    tmp_path: Path,
) -> None:
    store = HeldStore()
    async with running_works(store, tmp_path) as wiring:
        context, shards = wiring.context, wiring.context.shards
        context.attempts.slot_table.slots = 0
        execution_id = await trigger(shards, await save(shards, "job"))
        shard = shards.of_id(execution_id)

        store.hold()
        async with asyncio.TaskGroup() as group:
            group.create_task(shards.ask(shard, Cancel(execution_id=execution_id)))
            await until(lambda: execution_id not in shard.state.executions)
            loading = group.create_task(load_execution(request_to(context), execution_id))
            await asyncio.sleep(0)  # It runs until it waits.
            store.let_go()

        execution, _ = loading.result()
        assert execution.status is ExecutionStatus.CANCELLED


async def test_a_rehearsal_on_a_node_without_authority_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_works(MemoryStore(), tmp_path) as wiring, serving(wiring) as client:
        await save(wiring.context.shards, "job")

        lose_authority(wiring, monkeypatch)
        status, problem = await client.call("POST", "/api/v1/jobs/job/trigger?dryRun=true", {})

        assert (status, problem["code"]) == (503, "not_primary")


async def test_a_recovery_reads_hashes_of_many_entries_on_a_node_without_authority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_works(MemoryStore(), tmp_path) as wiring, serving(wiring) as client:
        longest = f"{10**17}:{10**17}"
        path = "cluster/inventory/hashes?entries="

        lose_authority(wiring, monkeypatch)
        many = await client.call("GET", f"/api/v1/{path}{','.join([longest] * HASHES_AT_ONCE)}")
        too_many = await read(client, f"{path}{','.join(['1:1'] * (HASHES_AT_ONCE + 1))}")

        assert many == (200, {"hashes": [None] * HASHES_AT_ONCE})
        assert too_many == (422, "invalid_query", "")


async def read(client: Client, path: str) -> tuple[int, str, str]:
    """Return the status of an answer; and, if it is a refusal, its code and ``Retry-After``."""
    async with client.session.get(f"{client.url}/api/v1/{path}") as answer:
        if answer.status == 200:
            return 200, "", ""
        problem = await answer.json(content_type=None)
        return answer.status, problem["code"], answer.headers.get("Retry-After", "")
