"""Responses to requests that wait longer than the limit for the commit of what was decided."""

import asyncio
from pathlib import Path

import pytest

from rota.core.errors import Refused
from rota.core.timing.instants import MILLISECOND, Duration
from rota.core.vocabulary.changes import Subscribe
from rota.core.vocabulary.commands import ReceiveMessage
from rota.node.shards import turn_state
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Answer, NotCommitted, OutcomeUnknown, Shard
from rota.node.shards.turn_state import resolve_all
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


async def test_requests_are_refused_that_cannot_be_decided_because_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.node.shards.shard_loop.FLIGHT_BYTES_MAX", 1)
    store = HeldStore()
    async with running_works(store, tmp_path) as wiring:
        shards = wiring.context.shards
        store.hold()
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            decided = group.create_task(_refusal_of_save(shards))
            await until(lambda: shards.of_name("default", "job").unreleased is not None)
            undecided = group.create_task(_refusal_of_save(shards, "other"))

            refusal = await undecided
            assert isinstance(await decided, OutcomeUnknown)
            store.let_go()

        assert refusal is not None
        assert refusal.code == "busy"
        assert shards.inbox_length == 0


async def test_a_command_of_the_node_itself_is_answered_after_the_commit_however_late(
    tmp_path: Path,
) -> None:
    store, answers = HeldStore(), list[Answer]()
    async with running_works(store, tmp_path) as wiring:
        shards = wiring.context.shards
        shard = shards.of_name("default", "upstream")
        store.hold()
        message = Subscribe(upstream="default/upstream", dependent="default/job")
        shards.submit(shard, ReceiveMessage(message=message), answers.append)
        await until(lambda: shard.unreleased is not None)
        with pytest.raises(NotCommitted):
            await shards.settled(shard)
        before = list(answers)
        store.let_go()
        await until(lambda: shard.unreleased is None)

    assert before == []
    assert [isinstance(each, Refused) for each in answers] == [False]


async def test_a_read_of_two_shards_waits_for_the_commits_of_both(tmp_path: Path) -> None:
    store = HeldStore()
    async with running_works(store, tmp_path) as wiring:
        shards = wiring.context.shards
        first, second = list(shards)[:2]
        await shards.settled(*shards)
        store.hold()
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            for shard in (first, second):
                message = Subscribe(upstream=name_in(shards, shard), dependent="default/job")
                shards.submit(shard, ReceiveMessage(message=message))
            await until(lambda: bool(first.unreleased and second.unreleased))
            reading = group.create_task(shards.settled(first, second))
            await asyncio.sleep(0)
            assert first.unreleased is not None
            resolve_all(first.unreleased.take_readers())  # As if it were committed alone.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            is_done = reading.done()
            store.let_go()
            await reading

    assert not is_done


def name_in(shards: Shards, shard: Shard) -> str:
    """Return the full name of a job of a shard."""
    names = (str(number) for number in range(1000))
    return next(f"default/{name}" for name in names if shards.of_name("default", name) is shard)


async def _refusal_of_save(shards: Shards, name: str = "job") -> Refused | None:
    try:
        await save(shards, name)
    except Refused as refusal:
        return refusal
    return None
