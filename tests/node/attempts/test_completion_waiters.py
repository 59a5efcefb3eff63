"""Waits for the end of executions: each is answered once and then removed."""

import asyncio

import pytest

from rota.core.errors import Refused
from rota.core.model.execution import ExecutionStatus, TaskStatus
from rota.core.model.ids import ExecutionId, JobId
from rota.core.timing.instants import Instant
from rota.core.vocabulary.effects import Publish
from rota.node.feeds.completion_waiters import CompletionWaiters
from support.in_process import turns

ONE, TWO = ExecutionId("one"), ExecutionId("two")


def publish(
    watch: CompletionWaiters, execution_id: ExecutionId, status: ExecutionStatus | TaskStatus
) -> None:
    watch.publish(
        Publish(
            at=Instant(0),
            job_id=JobId("job"),
            job="default/job",
            execution_id=execution_id,
            status=status,
        )
    )


async def test_a_wait_is_over_when_all_have_ended() -> None:
    watch = CompletionWaiters()
    async with asyncio.TaskGroup() as group:
        both = group.create_task(watch.ended([ONE, TWO, ONE], 10))
        first = group.create_task(watch.ended([ONE], 10))
        await turns()

        publish(watch, ONE, ExecutionStatus.SUCCESS)
        await turns()
        after_one = (first.done(), both.done())
        publish(watch, TWO, ExecutionStatus.CANCELLED)

        assert after_one == (True, False)
        assert await both
        assert watch.count == 0


async def test_only_the_end_of_the_execution_counts() -> None:
    watch = CompletionWaiters()
    async with asyncio.TaskGroup() as group:
        wait = group.create_task(watch.ended([ONE], 10))
        await turns()

        for status in (ExecutionStatus.RUNNING, TaskStatus.SUCCESS, TaskStatus.CANCELLED):
            publish(watch, ONE, status)
        await turns()

        assert not wait.done()
        publish(watch, ONE, ExecutionStatus.FAILED)


async def test_a_wait_for_nothing_is_over_at_once() -> None:
    assert await CompletionWaiters().ended([], 10)


async def test_a_wait_beyond_its_timeout_is_removed() -> None:
    watch = CompletionWaiters()

    is_over = await watch.ended([ONE, TWO], 0)

    assert not is_over
    assert watch.count == 0
    publish(watch, ONE, ExecutionStatus.SUCCESS)


async def test_a_cancelled_wait_is_removed_and_others_remain() -> None:
    watch = CompletionWaiters()
    async with asyncio.TaskGroup() as group:
        gone = group.create_task(watch.ended([ONE, TWO], 10))
        stays = group.create_task(watch.ended([ONE], 10))
        await turns()

        gone.cancel()
        await turns()
        count = watch.count
        publish(watch, ONE, ExecutionStatus.SUCCESS)

        assert count == 1
        assert await stays


async def test_too_many_waits_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.node.feeds.completion_waiters.WAITED_MAX", 2)
    watch = CompletionWaiters()
    async with asyncio.TaskGroup() as group:
        group.create_task(watch.ended([ONE, TWO], 10))
        await turns()

        with pytest.raises(Refused, match=r"wait for 2 ends .* 1 more; a node's limit is 2"):
            await watch.ended([ONE], 10)

        publish(watch, ONE, ExecutionStatus.SUCCESS)
        publish(watch, TWO, ExecutionStatus.SUCCESS)


async def test_a_stopping_node_refuses_waits_with_a_retry_time() -> None:
    watch = CompletionWaiters()
    async with asyncio.TaskGroup() as group:
        waits = [group.create_task(code_of_refusal(watch)) for _ in range(3)]
        await turns()

        watch.close()

        assert [await wait for wait in waits] == ["stopping"] * 3
        assert await code_of_refusal(watch) == "stopping"
        assert watch.count == 0


async def code_of_refusal(watch: CompletionWaiters) -> str:
    with pytest.raises(Refused) as raised:
        await watch.ended([ONE], 10)
    assert raised.value.retry_after_s
    return raised.value.code
