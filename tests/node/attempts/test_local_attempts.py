"""Attempts: slots, waiting tasks, and outcomes until they are recorded."""

import asyncio
import os
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.core.model.attempt import AttemptKey, Ending, Order, Outcome
from rota.core.model.execution import ExecutionStatus
from rota.core.model.ids import ExecutionId, JobId, NodeId
from rota.core.replication.authority.liveness import Liveness
from rota.core.timing.instants import SECOND, Instant
from rota.core.vocabulary.commands import Cancel, DeleteJob, StartTask, Trigger
from rota.core.vocabulary.effects import WaitForSlot
from rota.executor.executor import Ended, Reported
from rota.executor.testing.scripted_executor import ScriptedExecutor
from rota.executor.warden.proxies import RightOf
from rota.node.attempts.local_attempts import AttemptExecutors, LocalAttempts
from rota.node.attempts.slots import SlotTable, WaitQueue
from rota.node.runtime.wiring import NodeWiring
from rota.node.shards.local_shards import Shards
from rota.node.system.clock import SystemClock
from rota.storage.store import StoreFailed
from rota.wire.documents import RetryBody
from support.in_process import (
    HeldStore,
    failing_node,
    running_works,
    save,
    serving,
    spec_of,
    submit,
    trigger,
    turns,
    until,
)

folders = count()
LONG = {"sleepMs": 10**9}


def is_idle(attempts: LocalAttempts) -> bool:
    """Return True if every slot is free and no task waits for one or was assigned one."""
    slot_table = attempts.slot_table
    free = slot_table.slots_for(StartTask(execution_id=ExecutionId(""), task="")).free
    offered = slot_table.slots_for(Trigger(job_id=JobId(""))).free
    return attempts.running == slot_table.waiting == slot_table.used == 0 and free == offered


def end(attempts: LocalAttempts, execution_id: ExecutionId) -> AttemptKey:
    """End the first attempt of an execution's only task with success."""
    key = AttemptKey(execution_id, "main", 1)
    now = Instant(1)
    ending = Ending(outcome=Outcome.SUCCEEDED, started_at=now, finished_at=now, output=b"done")
    attempts.ended(key, ending)
    return key


def live(shards: Shards) -> Iterator[ExecutionId]:
    """Yield the unfinished executions."""
    for shard in shards:
        yield from shard.state.executions


async def cancel(shards: Shards, execution_id: ExecutionId) -> None:
    """Cancel an execution."""
    await shards.ask(shards.of_id(execution_id), Cancel(execution_id=execution_id))


async def test_no_more_attempts_run_than_there_are_slots(tmp_path: Path) -> None:
    async with running_works(HeldStore(), tmp_path, slots=2) as wiring:
        shards, attempts = wiring.context.shards, wiring.context.attempts
        job_id = await save(shards, "job", parameters=LONG)

        made = [await trigger(shards, job_id) for _ in range(5)]
        used, waiting = attempts.slot_table.used, attempts.slot_table.waiting
        for execution_id in made:
            await cancel(shards, execution_id)
        await until(lambda: is_idle(attempts))

        assert (used, waiting) == (2, 3)


async def test_tasks_get_slots_in_the_order_of_their_wait(tmp_path: Path) -> None:
    async with running_works(HeldStore(), tmp_path, slots=1) as wiring:
        shards = wiring.context.shards
        job_id = await save(shards, "job", parameters=LONG)
        made = [await trigger(shards, job_id) for _ in range(4)]
        order: list[ExecutionId] = []

        while len(order) < len(made):
            await until(lambda: bool(_running(shards)))
            [execution_id] = _running(shards)
            order.append(execution_id)
            await cancel(shards, execution_id)
            await until(partial(_is_over, shards, execution_id))

        assert order == made


async def test_an_unneeded_slot_is_assigned_to_the_next_waiting_task(
    tmp_path: Path,
) -> None:
    async with running_works(HeldStore(), tmp_path) as wiring:
        [shard, *_] = wiring.context.shards
        slot_table = SlotTable(1, Liveness(NodeId("n"), born_at=Instant(0)), {})
        gone, next_one = (StartTask(execution_id=ExecutionId("e"), task=task) for task in "ab")
        for command in (gone, next_one):
            slot_table.wait(shard, WaitForSlot(command.execution_id, command.task, Instant(0), 0))

        [called] = slot_table.assign()
        slot_table.decided(gone, 0)
        room = slot_table.slots_for(Trigger(job_id=JobId(""))).free

        assert called == (shard, gone)
        assert room == 0, "the slot belongs to the task that waits"
        assert slot_table.assign() == [(shard, next_one)]


async def test_a_priority_counts_as_a_limited_time_of_waiting(tmp_path: Path) -> None:
    async with running_works(HeldStore(), tmp_path) as wiring:
        [shard, *_] = wiring.context.shards
        slot_table = SlotTable(0, Liveness(NodeId("n"), born_at=Instant(0)), {})
        waits = {
            "old": (0, 0),
            "urgent": (90, 10),
            "late": (102, 10),
            "new": (1, 0),
            "low": (0, -1),
        }
        for name, (since_s, priority) in waits.items():
            since = Instant(since_s * SECOND)
            slot_table.wait(shard, WaitForSlot(ExecutionId("e"), name, since, priority))

        slot_table.slots = len(waits)
        called = [command.task for _, command in slot_table.assign()]

        assert called == ["urgent", "old", "new", "late", "low"]


async def test_tasks_of_one_instant_with_different_labels_get_slots_in_order(
    tmp_path: Path,
) -> None:
    async with running_works(HeldStore(), tmp_path) as wiring:
        [shard, *_] = wiring.context.shards
        labels = {"disk": "ssd", "gpu": "a100"}
        slot_table = SlotTable(0, Liveness(NodeId("n"), born_at=Instant(0)), labels)
        selectors = [(("gpu", "a100"),), (), (("disk", "ssd"),), ()]
        for number, selector in enumerate(selectors):
            slot_table.wait(
                shard, WaitForSlot(ExecutionId("e"), f"{number}", Instant(0), 0, selector)
            )

        slot_table.slots = len(selectors)
        called = [command.task for _, command in slot_table.assign()]

        assert called == ["0", "1", "2", "3"]


async def test_discarded_tasks_get_no_slot_and_take_no_memory(tmp_path: Path) -> None:
    async with running_works(HeldStore(), tmp_path) as wiring:
        [shard, *_] = wiring.context.shards
        queue = WaitQueue(count())
        commands = [StartTask(execution_id=ExecutionId("e"), task=f"{n}") for n in range(100)]
        for command in commands:
            queue.put(shard, command, Instant(0))

        for command in commands[:-1]:
            queue.discard(command)

        assert len(queue) == 1
        assert len(queue.order) <= 2
        assert queue.pop() == (shard, commands[-1])


async def test_a_job_of_high_priority_gets_the_next_slot(tmp_path: Path) -> None:
    async with running_works(HeldStore(), tmp_path, slots=1) as wiring:
        shards = wiring.context.shards
        first = await trigger(shards, await save(shards, "job", parameters=LONG))
        await trigger(shards, await save(shards, "plain", parameters=LONG))
        urgent = await trigger(shards, await save(shards, "urgent", parameters=LONG, priority=1))

        await cancel(shards, first)
        await until(lambda: bool(_running(shards)))

        assert _running(shards) == [urgent]


async def test_a_task_that_waits_for_a_slot_shows_the_number_of_tasks_before_it(
    tmp_path: Path,
) -> None:
    async with (
        running_works(HeldStore(), tmp_path, slots=1) as wiring,
        serving(wiring) as client,
    ):
        shards, reasons = wiring.context.shards, list[str]()
        for name in ("running", "first", "second", "urgent"):
            priority = 10 if name == "urgent" else 0
            job_id = await save(shards, name, parameters=LONG, priority=priority)
            execution_id = await trigger(shards, job_id)
            _, shown = await client.call("GET", f"/api/v1/executions/{execution_id}")
            reasons.append(shown["tasks"]["main"]["reason"])

        assert reasons == [
            "",
            "waits for a slot: 1 of 1 used, 0 before it",
            "waits for a slot: 1 of 1 used, 1 before it",
            "waits for a slot: 1 of 1 used, 0 before it",
        ]


async def test_cancelled_waiting_tasks_do_not_accumulate(tmp_path: Path) -> None:
    async with running_works(HeldStore(), tmp_path, slots=1) as wiring:
        shards, attempts = wiring.context.shards, wiring.context.attempts
        job_id = await save(shards, "job", parameters=LONG)
        blocker = await trigger(shards, job_id)

        for _ in range(50):
            await cancel(shards, await trigger(shards, job_id))
        await turns()
        waiting = attempts.slot_table.waiting
        await cancel(shards, blocker)
        await until(lambda: is_idle(attempts))

        assert waiting == 0


async def test_an_unknown_executor_frees_its_slot(tmp_path: Path) -> None:
    async with running_works(HeldStore(), tmp_path, slots=1) as wiring:
        shards, attempts = wiring.context.shards, wiring.context.attempts
        job_id = await save(shards, "job", type="no-such")

        made = [await trigger(shards, job_id) for _ in range(3)]
        await until(lambda: is_idle(attempts))

        past = [wiring.context.history.execution(shards.of_id(each).id, each) for each in made]
        assert [each.status for each in past if each] == [ExecutionStatus.FAILED] * 3


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=st.lists(st.integers(0, 9), max_size=60), slots=st.integers(1, 3))
async def test_no_slot_is_lost_or_freed_twice(tmp_path: Path, steps: list[int], slots: int) -> None:
    async with running_works(HeldStore(), tmp_path / f"{next(folders)}", slots=slots) as wiring:
        shards, attempts = wiring.context.shards, wiring.context.attempts
        jobs: dict[str, dict[str, Any]] = {
            "long": {"parameters": LONG},
            "short": {
                "parameters": {"failTimes": 1},
                "retries": RetryBody(limit=2, backoff="fixed", delay=0),
            },
            "unknown": {"type": "no-such"},
        }
        names = list(jobs)

        for number, step in enumerate(steps):
            name = names[number % len(names)]
            job_id = await save(shards, name, **jobs[name])
            if step < 5:
                submit(shards, job_id, Trigger(job_id=job_id))
            elif step < 8:
                for execution_id in list(live(shards))[: step - 4]:
                    shards.submit(shards.of_id(execution_id), Cancel(execution_id=execution_id))
            elif step == 8:
                submit(shards, job_id, DeleteJob(job_id=job_id))
            else:
                await turns(3)
            assert 0 <= attempts.slot_table.used <= slots
        await shards.settled(*shards)
        await until(lambda: _cancel_all(shards) == 0 and is_idle(attempts))


async def test_an_attempt_requested_twice_runs_once(tmp_path: Path) -> None:
    async with running_works(HeldStore(), tmp_path) as wiring:
        shards, attempts = wiring.context.shards, wiring.context.attempts
        execution_id = await trigger(shards, await save(shards, "job", parameters=LONG))
        key = AttemptKey(execution_id, "main", 1)
        task = shards.of_id(execution_id).state.tasks[execution_id]["main"]
        work = spec_of("job", parameters=LONG).tasks[0].work

        order = Order(key=key, token=task.attempts[0].token, work=work, fire_at=Instant(0))
        attempts.launch(order)

        assert attempts.running == attempts.slot_table.used == 1


async def test_attempts_without_a_sandbox_are_counted_and_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_works(HeldStore(), tmp_path) as wiring:
        shards, attempts = wiring.context.shards, wiring.context.attempts
        free = await save(shards, "free", command=["true"])
        played = await save(shards, "played", parameters={})
        made = [await trigger(shards, job_id) for job_id in (free, played, free)]
        await until(lambda: all(_is_over(shards, each) for each in made))

        assert attempts.unsandboxed_count == 2
    [warning] = [each for each in caplog.records if each.message == "tasks run without a sandbox"]
    assert vars(warning)["as"] == ("root" if os.geteuid() == 0 else "the node's user")


async def test_an_outcome_is_kept_until_it_is_recorded(tmp_path: Path) -> None:
    store = HeldStore()
    async with running_works(store, tmp_path) as wiring:
        shards, attempts = wiring.context.shards, wiring.context.attempts
        execution_id = await trigger(shards, await save(shards, "job", parameters=LONG))
        store.hold()

        key = end(attempts, execution_id)
        await turns()
        kept = attempts.ending(key)
        running = attempts.running
        store.let_go()
        await until(lambda: attempts.running == 0)

        assert kept is not None
        assert kept.output == b"done"
        assert running == 1
        assert attempts.ending(key) is None


async def test_the_warden_receives_recorded_outcomes_of_its_own_attempts_only(
    tmp_path: Path,
) -> None:
    forgotten: list[AttemptKey] = []
    now = SystemClock().now

    def executors(ended: Ended, reported: Reported, right_of: RightOf) -> AttemptExecutors:
        del reported, right_of
        return AttemptExecutors(
            own={"scripted": ScriptedExecutor(ended=ended, now=now)},
            hosted={"process": ScriptedExecutor(ended=ended, now=now)},
            forget=forgotten.append,
        )

    async with running_works(HeldStore(), tmp_path, executors=executors) as wiring:
        shards, attempts = wiring.context.shards, wiring.context.attempts
        await trigger(shards, await save(shards, "here"))
        of_the_warden = await trigger(shards, await save(shards, "its", command=["true"]))
        unknown = await trigger(shards, await save(shards, "unknown", type="no-such"))

        await until(lambda: is_idle(attempts))

    assert {each.execution_id for each in forgotten} == {of_the_warden, unknown}


async def test_a_waiting_task_starts_in_the_entry_of_the_outcome_that_freed_its_slot(
    tmp_path: Path,
) -> None:
    async with running_works(HeldStore(), tmp_path, slots=1) as wiring:
        shards, attempts = wiring.context.shards, wiring.context.attempts
        job_id = await save(shards, "job", parameters=LONG)
        first, second = [await trigger(shards, job_id) for _ in range(2)]
        await turns()
        before = shards.entry_count

        end(attempts, first)
        await until(lambda: _running(shards) == [second])

        assert _is_over(shards, first)
        assert shards.entry_count == before + 1


async def test_an_attempt_that_ends_during_the_close_of_the_node_is_recorded(
    tmp_path: Path,
) -> None:
    store = HeldStore()
    async with running_works(store, tmp_path) as wiring:
        shards = wiring.context.shards
        job_id = await save(shards, "job", parameters=LONG)
        ended, stopped = await trigger(shards, job_id), await trigger(shards, job_id)
        wiring.context.attempts.close()
        end(wiring.context.attempts, ended)

    async with running_works(store, tmp_path, life=2) as wiring:
        assert _status(wiring, ended) is ExecutionStatus.SUCCESS
        await until(lambda: wiring.context.attempts.running == 1)
        task = wiring.context.shards.of_id(stopped).state.tasks[stopped]["main"]
        assert [each.ending is None for each in task.attempts] == [False, True]


async def test_an_attempt_of_the_warden_that_is_cancelled_during_the_close_is_recorded_as_cancelled(
    tmp_path: Path,
) -> None:
    forgotten: list[AttemptKey] = []

    def executors(ended: Ended, reported: Reported, right_of: RightOf) -> AttemptExecutors:
        del reported, right_of
        hosted = {"scripted": ScriptedExecutor(ended=ended, now=SystemClock().now)}
        return AttemptExecutors(own={}, hosted=hosted, forget=forgotten.append)

    async with running_works(HeldStore(), tmp_path, executors=executors) as wiring:
        shards, attempts = wiring.context.shards, wiring.context.attempts
        execution_id = await trigger(shards, await save(shards, "job", parameters=LONG))
        attempts.close()
        await cancel(shards, execution_id)
        await until(lambda: _is_over(shards, execution_id))

        # What is decided is in the history after its commit.
        history, shard = wiring.context.history, shards.of_id(execution_id)
        await until(lambda: bool(history.tasks(shard.id, execution_id)))
        [attempt] = history.tasks(shard.id, execution_id)["main"].attempts

    assert attempt.ending is not None
    assert attempt.ending.outcome is Outcome.CANCELLED
    assert [key.execution_id for key in forgotten] == [execution_id]


async def test_attempts_of_a_lost_life_take_slots_again(tmp_path: Path) -> None:
    store = HeldStore()
    async with running_works(store, tmp_path) as wiring:
        job_id = await save(wiring.context.shards, "job", parameters=LONG)
        made = {await trigger(wiring.context.shards, job_id) for _ in range(5)}

    async with running_works(store, tmp_path, life=2, slots=3) as wiring:
        attempts = wiring.context.attempts
        await until(lambda: attempts.running == 3)
        assert attempts.slot_table.used == 3
        assert attempts.slot_table.waiting == 2
        for execution_id in made:
            await cancel(wiring.context.shards, execution_id)
        await until(lambda: is_idle(attempts))


def _status(wiring: NodeWiring, execution_id: ExecutionId) -> ExecutionStatus | None:
    shard = wiring.context.shards.of_id(execution_id)
    past = wiring.context.history.execution(shard.id, execution_id)
    return past.status if past else None


def _is_over(shards: Shards, execution_id: ExecutionId) -> bool:
    return execution_id not in shards.of_id(execution_id).state.executions


def _running(shards: Shards) -> list[ExecutionId]:
    return [
        execution.id
        for shard in shards
        for execution in shard.state.executions.values()
        if execution.status is ExecutionStatus.RUNNING and not execution.cancelled_at
    ]


def _cancel_all(shards: Shards) -> int:
    left = list(live(shards))
    for execution_id in left:
        shards.submit(shards.of_id(execution_id), Cancel(execution_id=execution_id))
    return len(left)


async def test_a_node_whose_disk_failed_ends_its_attempts(tmp_path: Path) -> None:
    store, pid_file = HeldStore(), tmp_path / "pid"
    program = f"echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 60"
    was_there: list[bool] = []
    async with failing_node(store, tmp_path / "node", "the disk is gone") as lifecycle:
        wiring = lifecycle.wiring
        shards = wiring.context.shards
        job_id = await save(shards, "job", command=["sh", "-c", program])
        await trigger(shards, job_id)
        await until(pid_file.exists)
        was_there.append(_is_there(pid_file))

        store.fail_next_sync(StoreFailed("the disk is gone"))
        submit(shards, job_id, Trigger(job_id=job_id))
        await lifecycle.run_until(asyncio.Event())

    assert was_there == [True]
    assert not _is_there(pid_file)


def _is_there(pid_file: Path) -> bool:
    return Path("/proc", pid_file.read_text().strip()).exists()
