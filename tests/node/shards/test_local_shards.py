"""Shards: commit before answer and effect, turns, and failures of the disk."""

import asyncio
import gc
import traceback
from collections.abc import Awaitable
from pathlib import Path

import pytest
from msgspec.structs import replace

from rota.core.errors import Refused
from rota.core.model.ids import Epoch, JobId, NodeId, ShardId
from rota.core.vocabulary.changes import Subscribe
from rota.core.vocabulary.commands import Cancel, ConfirmDelivery, ReceiveMessage, SaveJob, Trigger
from rota.core.vocabulary.decision import JobSaved
from rota.node.runtime.wiring import NodeWiring
from rota.node.shards.inbox import INBOX_MAX, TURN_MAX
from rota.node.shards.shard import Answer, Shard
from rota.storage.continuity import stored_continuity
from rota.storage.memory import MemoryStore
from rota.storage.shards import ShardFile
from rota.storage.store import StoreFailed, StoreStalled
from support.authority import lose_authority, regain_authority
from support.in_process import (
    SHARDS,
    HeldStore,
    failing_node,
    failing_works,
    running_node,
    running_works,
    save,
    spec_of,
    submit,
    trigger,
    turns,
    until,
)

LONG = {"sleepMs": 10**9}


async def test_no_answer_and_no_effect_leaves_before_the_commit(tmp_path: Path) -> None:
    store = HeldStore()
    async with running_works(store, tmp_path) as wiring, asyncio.TaskGroup() as group:
        shards, attempts = wiring.context.shards, wiring.context.attempts
        job_id = await save(shards, "job", parameters=LONG)
        store.hold()

        asked = group.create_task(trigger(shards, job_id))
        await turns()
        decided = len(shards.of_id(job_id).state.executions)
        before = (asked.done(), attempts.running)
        store.let_go()
        await asked

        assert decided == 1
        assert before == (False, 0)
        assert attempts.running == 1


async def test_what_is_committed_without_authority_is_neither_answered_nor_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = HeldStore()
    async with running_works(store, tmp_path) as wiring, asyncio.TaskGroup() as group:
        shards, attempts = wiring.context.shards, wiring.context.attempts
        job_id = await save(shards, "job", parameters=LONG)
        shard = shards.of_id(job_id)
        store.hold()
        asked = group.create_task(trigger(shards, job_id))
        await until(lambda: store.held_count == 1)

        lose_authority(wiring, monkeypatch)
        store.let_go()
        await until(lambda: shard.replica.copy.committed == shard.replica.copy.tip.index)
        await turns()
        without = (asked.done(), attempts.running)
        regain_authority(wiring)
        await asked

        assert without == (False, 0)
        assert attempts.running == 1


async def test_a_bug_while_a_command_is_decided_is_logged_with_it_and_those_before(
    tmp_path: Path,
) -> None:
    expected: list[str] = []

    async def story() -> None:
        async with running_works(MemoryStore(), tmp_path) as wiring:
            shards = wiring.context.shards
            job_id = await save(shards, "job", parameters=LONG)
            cancel = Cancel(execution_id=await trigger(shards, job_id))
            shard = shards.of_id(job_id)
            expected.append(
                f"command Cancel (cancel {cancel.execution_id}) to shard {shard.id} under"
            )
            expected.append(f"oldest first: save default/job; trigger {job_id}")
            tasks = shard.state.tasks[cancel.execution_id]
            tasks["strange"] = tasks.pop("main")
            with pytest.raises(Refused):
                await shards.ask(shard, cancel)

    with pytest.raises(KeyError) as caught:
        await story()

    (note,) = caught.value.__notes__
    assert [each in note for each in expected] == [True, True]
    assert note in "".join(traceback.format_exception(caught.value))
    assert "sleepMs" not in note


async def test_a_node_that_stops_stores_what_it_has_just_learned_of_the_coordinator(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    async with running_works(store, tmp_path) as wiring:
        wiring.context.continuity.lose(3, "the test says so")
        wiring.context.shards.keep_continuity()  # In a turn that is still to come.

    assert stored_continuity(store).lost == 3


async def test_a_batch_is_not_durable_with_the_sync_before_it(tmp_path: Path) -> None:
    store = HeldStore()
    async with running_works(store, tmp_path) as wiring, asyncio.TaskGroup() as group:
        shards = wiring.context.shards
        store.hold()
        first = group.create_task(save(shards, "first"))
        await until(lambda: store.held_count == 1)
        second = group.create_task(save(shards, "second"))  # Written while the first sync runs.
        await until(lambda: store.unsynced_count > 0)

        store.let_one_go()
        await first
        await until(lambda: store.held_count == 2)
        await turns()
        before = second.done()
        store.let_go()
        await second

        assert not before


async def test_a_read_waits_for_the_commit_of_its_shards_memory(tmp_path: Path) -> None:
    store = HeldStore()
    async with running_works(store, tmp_path) as wiring, asyncio.TaskGroup() as group:
        shards = wiring.context.shards
        job_id = await save(shards, "job")
        store.hold()

        submit(shards, job_id, Trigger(job_id=job_id))
        await turns()
        read = group.create_task(shards.settled(*shards))
        await turns()
        before = read.done()
        store.let_go()
        await read

        assert not before


async def test_what_is_large_goes_into_several_entries_in_its_order(tmp_path: Path) -> None:
    async with running_works(MemoryStore(), tmp_path) as wiring:
        shards, answers = wiring.context.shards, list[Answer]()
        shard = shards[ShardId(0)]
        # More than one turn takes: some wait behind those for which an entry has no room.
        jobs = [*jobs_of(wiring, shard, 20, large=True), *jobs_of(wiring, shard, TURN_MAX)]
        before = shards.entry_count

        for job in jobs:
            shards.submit(shard, job, answers.append)
        await until(lambda: len(answers) == len(jobs))

        assert shards.entry_count - before == 3
        created = sorted(shard.state.jobs.values(), key=lambda job: job.created_at)
        assert [job.spec.name for job in created] == [job.spec.name for job in jobs]


async def test_what_is_to_be_in_one_entry_is_however_large(tmp_path: Path) -> None:
    async with running_works(MemoryStore(), tmp_path) as wiring:
        shards = wiring.context.shards
        shard = shards[ShardId(0)]
        jobs = jobs_of(wiring, shard, 20, large=True)
        before, answers = shards.entry_count, list[Answer]()

        shards.submit_together(shard, jobs, answers.append)
        await until(lambda: bool(answers))

        assert shards.entry_count - before == 1


async def test_a_refusal_waits_for_the_state_that_it_rests_on(tmp_path: Path) -> None:
    store = HeldStore()
    async with running_works(store, tmp_path) as wiring, asyncio.TaskGroup() as group:
        shards = wiring.context.shards
        store.hold()

        first = group.create_task(save(shards, "job"))
        await turns()
        other = SaveJob(spec=spec_of("job", description="another"))
        second = group.create_task(
            shards.ask_many([(shards.of_name("default", "job"), other)]),
        )
        await turns()
        before = second.done()
        store.let_go()
        await first
        [answer] = await second

        assert not before
        assert isinstance(answer, Refused)
        assert answer.code == "job_exists"


async def test_a_failed_sync_refuses_all_waiting_requests_and_ends_the_node(tmp_path: Path) -> None:
    store = HeldStore()
    codes: list[str] = []
    async with (
        failing_works(store, tmp_path, "the disk is gone") as wiring,
        asyncio.TaskGroup() as group,
    ):
        shards = wiring.context.shards
        store.hold()
        submit(
            shards,
            JobId("0" * 16),
            ReceiveMessage(message=Subscribe(upstream="a/b", dependent="c/d")),
        )
        await until(lambda: store.held_count == 1)
        second = group.create_task(code_of_refusal(save(shards, "second")))
        await turns()
        read = group.create_task(code_of_refusal(shards.settled(*shards)))
        await turns()

        store.fail_next_sync(StoreFailed("the disk is gone"))
        store.let_go()
        codes += [await second, await read]
        # Nor is memory, which no journal vouches for, read by those who come now.
        codes += [
            await code_of_refusal(save(shards, "late")),
            await code_of_refusal(shards.settled(*shards)),
        ]

    assert codes == ["storage_unavailable"] * 4


async def test_a_failed_sync_keeps_what_it_decided_from_happening(tmp_path: Path) -> None:
    store = HeldStore()
    async with failing_works(store, tmp_path, "disk is gone") as wiring:
        shards = wiring.context.shards
        job_id = await save(shards, "job", parameters=LONG)
        store.fail_next_sync(StoreFailed("the disk is gone"))

        with pytest.raises(Refused):
            await trigger(shards, job_id)
        launched = wiring.context.attempts.running

    assert launched == 0


async def test_a_node_whose_first_entries_are_not_durable_does_nothing(tmp_path: Path) -> None:
    store = HeldStore()
    async with running_works(store, tmp_path) as wiring:
        wiring.context.attempts.slot_table.slots = 0
        await trigger(wiring.context.shards, await save(wiring.context.shards, "job"))
    store.fail_next_sync(StoreFailed("the disk is gone"))

    started: list[NodeWiring] = []
    with pytest.raises(StoreFailed, match="the disk is gone"):
        await start(store, tmp_path, started)

    assert not started


async def test_a_failed_write_refuses_its_turn_and_leaves_no_hole(tmp_path: Path) -> None:
    store = HeldStore()
    async with failing_works(store, tmp_path, "behind") as wiring:
        shards = wiring.context.shards
        job_id = await save(shards, "job")
        store.fail_next_write(StoreStalled("the disk is behind"))

        async with asyncio.timeout(5):
            with pytest.raises(Refused, match="storage_unavailable"):
                await trigger(shards, job_id)
        submit(shards, job_id, Trigger(job_id=job_id))
        await turns()

        indices = [index for index, _ in ShardFile(store, shards.of_id(job_id).id).journal()]
        assert indices == [1, 2], "the store took no entry after the one that it did not"


async def test_a_commit_that_cannot_be_applied_is_answered_by_a_refusal(tmp_path: Path) -> None:
    store = HeldStore()
    async with failing_works(store, tmp_path, "refused") as wiring, asyncio.TaskGroup() as group:
        shards = wiring.context.shards
        store.hold()
        asked = group.create_task(code_of_refusal(save(shards, "job")))
        await turns()

        store.fail_next_write(StoreFailed("the disk refused"))
        store.let_go()

        async with asyncio.timeout(5):
            assert await asked == "storage_unavailable"


async def test_housekeeping_that_finds_the_store_gone_ends_the_node_by_that_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.node.runtime.housekeeping.KEEPING_S", 0.01)
    store = HeldStore()
    async with failing_node(store, tmp_path, "crashed") as lifecycle:
        store.crash()

        async with asyncio.timeout(5):
            with pytest.raises(StoreFailed):
                await lifecycle.run_until(asyncio.Event())


@pytest.mark.filterwarnings("error")  # Of a coroutine that was made and never began.
async def test_a_node_stopped_during_its_start_leaves_nothing_unfinished(
    tmp_path: Path,
) -> None:
    stop = asyncio.Event()
    stop.set()
    async with running_node(HeldStore(), tmp_path) as lifecycle:
        await lifecycle.run_until(stop)
        gc.collect()


async def test_one_turn_makes_one_entry_for_each_shard(tmp_path: Path) -> None:
    async with running_works(HeldStore(), tmp_path) as wiring:
        shards = wiring.context.shards
        before = shards.entry_count, shards.decision_count
        jobs = [spec_of(f"job-{number}", parameters=LONG) for number in range(100)]
        requests = [(shards.of_name("default", each.name), SaveJob(spec=each)) for each in jobs]

        answers = await shards.ask_many(requests)

        assert all(isinstance(answer, JobSaved) for answer in answers)
        assert len({shard.id for shard, _ in requests}) == SHARDS
        assert shards.entry_count - before[0] == SHARDS
        assert shards.decision_count - before[1] == len(jobs)


async def test_a_turn_decides_no_more_than_its_share(tmp_path: Path) -> None:
    async with running_works(HeldStore(), tmp_path) as wiring:
        shards = wiring.context.shards
        before = shards.decision_count
        for _ in range(TURN_MAX + 100):
            shards.submit(shards[ShardId(0)], ConfirmDelivery(key="nothing"))

        await asyncio.sleep(0)
        after_one = shards.decision_count
        await turns()

        assert after_one - before == TURN_MAX
        assert shards.decision_count - before == TURN_MAX + 100


async def test_what_is_asked_together_is_decided_together_however_much_waits(
    tmp_path: Path,
) -> None:
    async with running_works(HeldStore(), tmp_path) as wiring, asyncio.TaskGroup() as group:
        shards = wiring.context.shards
        [shard, *_] = shards
        nothing = ConfirmDelivery(key="nothing")
        before = shards.decision_count
        decided: list[int] = []

        # It puts in what it asks before the turn that the others plan, and behind them.
        asked = group.create_task(shards.ask_many([(shard, nothing)] * (TURN_MAX + 1)))
        for _ in range(TURN_MAX - 100):
            shards.submit(shard, nothing)
        for _ in range(4):
            await asyncio.sleep(0)
            decided.append(shards.decision_count - before)

        assert next(each for each in decided if each) == TURN_MAX - 100
        assert set(decided) <= {0, TURN_MAX - 100, 2 * TURN_MAX - 99}
        assert len(await asked) == TURN_MAX + 1
        assert shards.inbox_length == 0


async def test_a_full_inbox_refuses_requests_and_takes_the_nodes_own(tmp_path: Path) -> None:
    async with running_works(HeldStore(), tmp_path) as wiring:
        shards = wiring.context.shards
        for _ in range(INBOX_MAX):
            shards.submit(shards[ShardId(0)], ConfirmDelivery(key="nothing"))

        with pytest.raises(Refused, match="busy") as raised:
            await save(shards, "job")
        shards.submit(shards[ShardId(0)], ConfirmDelivery(key="nothing"))

        assert raised.value.retry_after_s == 1
        assert shards.inbox_length == INBOX_MAX + 1


async def test_nothing_more_is_decided_while_the_disk_is_far_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = HeldStore()
    async with running_works(store, tmp_path) as wiring, asyncio.TaskGroup() as group:
        shards = wiring.context.shards
        job_id = await save(shards, "job")
        monkeypatch.setattr("rota.node.shards.shard_loop.FLIGHT_BYTES_MAX", 1)
        store.hold()

        first = group.create_task(trigger(shards, job_id))
        await turns()
        second = group.create_task(trigger(shards, job_id))
        await turns()
        waiting = shards.inbox_length
        store.let_go()

        assert waiting == 1
        assert await first != await second


async def test_a_request_of_a_cancelled_caller_is_carried_out(tmp_path: Path) -> None:
    store = HeldStore()
    async with running_works(store, tmp_path) as wiring, asyncio.TaskGroup() as group:
        shards = wiring.context.shards
        store.hold()
        asked = group.create_task(save(shards, "job"))
        other = group.create_task(save(shards, "other"))
        await turns()

        asked.cancel()
        await turns()
        store.let_go()
        await other
        await shards.settled(*shards)

        assert "default/job" in shards.of_name("default", "job").state.names


async def test_stopping_commits_what_has_come_in_and_takes_nothing_more(tmp_path: Path) -> None:
    store = HeldStore()
    async with running_works(store, tmp_path) as wiring:
        shards = wiring.context.shards
        shard = shards.of_name("default", "upstream")
        message = Subscribe(upstream="default/upstream", dependent="default/job")

        shards.submit(shard, ReceiveMessage(message=message))
    late = Subscribe(upstream="default/upstream", dependent="x")
    shards.submit(shard, ReceiveMessage(message=late))
    left = shards.inbox_length
    with pytest.raises(Refused, match="stopping"):
        await save(shards, "late")
    assert left == 0

    async with running_works(store, tmp_path, life=2) as wiring:
        dependents = wiring.context.shards.of_name("default", "upstream").state.dependents
        assert dependents == {"default/upstream": {"default/job": None}}


async def test_stopping_waits_for_a_disk_that_is_far_behind_with_what_is_not_its_own_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.node.shards.shard_loop.FLIGHT_BYTES_MAX", 1)
    store = HeldStore()
    async with running_works(store, tmp_path) as wiring:
        shards = wiring.context.shards
        shard = shards.of_name("default", "upstream")
        lost = next(each for each in shards if each is not shard)
        newest = lost.replica.newest
        assert newest is not None
        await shards.settled(*shards)
        store.hold()
        message = Subscribe(upstream="default/upstream", dependent="default/job")
        shards.submit(lost, ReceiveMessage(message=message))
        await until(lambda: store.held_count == 1)
        taken_over = replace(newest, epoch=Epoch(newest.epoch + 1), primary=NodeId("other"))
        shards.learn(lost.id, taken_over)
        await until(lambda: not lost.is_open)
        shards.submit(shard, ReceiveMessage(message=message))
        asyncio.get_running_loop().call_later(0.5, store.let_go)

    assert shards.inbox_length == 0


async def test_what_was_acknowledged_survives_a_loss_of_power(tmp_path: Path) -> None:
    store = HeldStore()
    found: MemoryStore = store
    kept = ""
    async with failing_works(store, tmp_path, "crashed") as wiring:
        kept = await save(wiring.context.shards, "kept")
        found = store.crash()
        assert await code_of_refusal(save(wiring.context.shards, "late")) == "storage_unavailable"

    async with running_works(found, tmp_path, life=2) as wiring:
        jobs = {job_id for shard in wiring.context.shards for job_id in shard.state.jobs}

    assert jobs == {kept}


async def code_of_refusal(asked: Awaitable[object]) -> str:
    """Return the code of the expected refusal of *asked*."""
    with pytest.raises(Refused) as raised:
        await asked
    return raised.value.code


async def start(store: MemoryStore, folder: Path, started: list[NodeWiring]) -> None:
    """Start a second life, and record its start."""
    async with running_works(store, folder, life=2) as wiring:
        started.append(wiring)


def jobs_of(wiring: NodeWiring, shard: Shard, count: int, *, large: bool = False) -> list[SaveJob]:
    """Return jobs of a shard, of 1 MiB each if they are to be *large*."""
    names = (f"{'large' if large else 'small'}-{number}" for number in range(100 * count))
    of_it = (name for name in names if wiring.context.shards.of_name("default", name) is shard)
    description = "x" * (1 << 20) if large else ""
    return [SaveJob(spec=spec_of(next(of_it), description=description)) for _ in range(count)]
