"""Responses to requests that wait longer than the limit for the commit of what was decided."""

import asyncio
from pathlib import Path

import pytest

from rota.core.errors import Refused
from rota.core.timing.instants import MILLISECOND, Duration
from rota.node.shards import turn_state
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import OutcomeUnknown
from support.in_process import HeldStore, running_works, save, serving, until
from support.request_contexts import request_to


@pytest.fixture(autouse=True)
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_state, "COMMIT_WAIT_MAX", Duration(100 * MILLISECOND))


async def test_a_write_has_an_unknown_outcome_and_a_read_behind_it_is_refused(
    tmp_path: Path,
) -> None:
    store = HeldStore()
    async with running_works(store, tmp_path) as wiring, serving(wiring) as client:
        shards = wiring.context.shards
        await save(shards, "job")
        store.hold()
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            pause = group.create_task(client.call("POST", "/api/v1/jobs/job/pause", {}))
            shard = shards.of_name("default", "job")
            await until(lambda: shard.unreleased is not None)
            status, problem = await client.call("GET", "/api/v1/jobs/job")
            written, unknown = await pause
            store.let_go()

        assert (status, problem["code"]) == (503, "not_committed")
        assert (written, unknown["code"]) == (503, "outcome_unknown")
        assert (await client.call("GET", "/api/v1/jobs/job"))[1]["status"] == "paused"


async def test_a_request_that_has_written_cannot_know_its_outcome(tmp_path: Path) -> None:
    store = HeldStore()
    async with running_works(store, tmp_path) as wiring:
        shards = wiring.context.shards
        store.hold()
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            saving = group.create_task(_refusal_of_save(shards))
            shard = shards.of_name("default", "job")
            await until(lambda: shard.unreleased is not None)
            request = request_to(wiring.context)
            request.has_written = True
            request.note_read(shard)

            with pytest.raises(OutcomeUnknown):
                await request.settle()

            assert isinstance(await saving, OutcomeUnknown)
            store.let_go()


async def _refusal_of_save(shards: Shards) -> Refused | None:
    try:
        await save(shards, "job")
    except Refused as refusal:
        return refusal
    return None
