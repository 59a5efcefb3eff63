"""Attempts across nodes: outcomes, stops and outbox items of shards that have moved."""

import asyncio

import pytest

from rota.core.errors import Refused
from rota.core.model.attempt import Ending, Outcome
from rota.core.model.execution import Execution, ExecutionStatus, TaskStatus
from rota.core.model.ids import JobId, NodeId, ShardId
from rota.core.replication.messages import Append
from rota.core.timing.instants import Instant
from rota.core.vocabulary.commands import Cancel, FinishAttempt, SaveJob, Trigger
from rota.node.peers.messages import Deliver, DeliveryReceipt, GiveLease, Sent
from rota.wire.documents import RetryBody
from sim.cluster.chance import SeededEntropy
from support.in_process import save, spec_of, trigger
from support.moved_shards import (
    FIVE_S,
    LONG,
    deliveries,
    long_attempt_away,
    losing_first,
    name_in,
    refusal_of,
    task_of,
    where,
)
from support.virtual_nodes import (
    ARRIVES_S,
    A,
    B,
    C,
    Nodes,
    run,
    until,
)

UP, DOWN = ShardId(0), ShardId(1)


async def jobs_of_two_nodes(nodes: Nodes) -> tuple[JobId, JobId]:
    """Create a job on A, and one on B that depends on it."""
    up, down = name_in(nodes, UP), name_in(nodes, DOWN)
    await nodes.move(DOWN, B, A, C)
    upstream = await save(nodes[A].shards, up)
    downstream = await save(nodes[B].shards, down, dependencies=[f"default/{up}"])
    await until(lambda: bool(nodes[A].shards[UP].state.dependents))
    return upstream, downstream


# -- outcomes --------------------------------------------------------------------------------------


def test_an_outcome_reaches_its_shard_after_a_move() -> None:
    async def story(nodes: Nodes) -> None:
        shards = nodes[A].shards
        execution_id = await trigger(shards, await save(shards, "job", parameters=FIVE_S))

        await nodes.move(nodes.shard_of(execution_id), B, A, C)
        execution, task = await nodes.ended(execution_id)

        assert execution.status is ExecutionStatus.SUCCESS
        assert where(task) == [A]
        await until(lambda: not nodes[A].running.context.attempts.running)

    run(story)


@pytest.mark.parametrize("kind", [Deliver, DeliveryReceipt])
def test_an_outcome_is_delivered_repeatedly_until_its_receipt(
    kind: type[Sent],
) -> None:
    async def story(nodes: Nodes) -> None:
        shards = nodes[A].shards
        execution_id = await trigger(shards, await save(shards, "job", parameters=FIVE_S))
        nodes.loses = losing_first(4, kind)

        await nodes.move(nodes.shard_of(execution_id), B, A, C)
        execution, task = await nodes.ended(execution_id)

        assert execution.status is ExecutionStatus.SUCCESS
        assert where(task) == [A]
        await until(lambda: not nodes[A].running.context.attempts.running)
        assert deliveries(nodes, A) == 0

    run(story)


def test_an_outcome_follows_its_shard_from_node_to_node() -> None:
    async def story(nodes: Nodes) -> None:
        shards = nodes[A].shards
        execution_id = await trigger(shards, await save(shards, "job", parameters=FIVE_S))
        shard = nodes.shard_of(execution_id)
        await nodes.move(shard, B, A, C)
        nodes.cut(A, B)
        await until(lambda: nodes[A].running.context.attempts.ended_count[Outcome.SUCCEEDED] == 1)

        nodes.mend()
        await nodes.move(shard, C, A, B)
        execution, task = await nodes.ended(execution_id)

        assert execution.status is ExecutionStatus.SUCCESS
        assert where(task) == [A]

    run(story)


def test_an_outcome_that_could_not_be_committed_is_recorded_after_the_shard_is_open() -> None:
    async def story(nodes: Nodes) -> None:
        shards = nodes[A].shards
        execution_id = await trigger(shards, await save(shards, "job", parameters=FIVE_S))
        shard = nodes.shard_of(execution_id)
        await asyncio.sleep(4.9)
        # The attempt ends on A, which decides its outcome, cannot commit it and loses the shard.
        nodes.loses = lambda sender, receiver, message: sender == A and isinstance(message, Append)
        nodes.wanted[shard] = (B, A, C)
        nodes[A].is_cut_off = True
        await until(lambda: bool(nodes[A].shards[shard].entries))
        await until(lambda: nodes[B].shards[shard].is_open)
        nodes.mend()
        await until(lambda: not nodes[A].shards[shard].is_open)

        nodes.loses = lambda sender, receiver, message: False
        execution, task = await nodes.ended(execution_id)

        assert execution.status is ExecutionStatus.SUCCESS
        assert where(task) == [A]

    run(story)


def test_a_repeated_delivery_during_its_decision_is_decided_once() -> None:
    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)
        shards, shard = nodes[B].shards, nodes.shard_of(execution_id)
        [order] = nodes[A].running.context.attempts.orders.values()
        now = Instant(1)
        ending = Ending(outcome=Outcome.SUCCEEDED, started_at=now, finished_at=now)
        command = FinishAttempt(attempt=order.key, token=order.token, ending=ending)
        before = shards.decision_count

        for _ in range(9):
            nodes[B].running.router.receive(shard, A, Deliver(number=1, commands=(command,)))
        await nodes.ended(execution_id)

        assert shards.decision_count == before + 1

    run(story)


def test_a_receipt_for_an_earlier_life_confirms_nothing() -> None:
    async def story(nodes: Nodes) -> None:
        upstream, _ = await jobs_of_two_nodes(nodes)
        numbers: list[set[int]] = [set()]

        def loses(sender: NodeId, receiver: NodeId, message: Sent) -> bool:
            if isinstance(message, Deliver):
                numbers[-1].add(message.number)
            return isinstance(message, Deliver)

        nodes.loses = loses
        await trigger(nodes[A].shards, upstream)
        await until(lambda: bool(numbers[0]))
        numbers.append(set())
        await nodes[A].end()
        await nodes[A].start()
        await until(lambda: bool(numbers[1]))

        assert abs(max(numbers[0]) - min(numbers[1])) > 1_000_000

    run(story)


# -- moved shards ----------------------------------------------------------------------------------


def test_a_cancelled_attempt_is_stopped_where_it_runs() -> None:
    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)
        nodes.loses = losing_first(3, GiveLease)

        shards = nodes[B].shards
        await shards.ask(shards.of_id(execution_id), Cancel(execution_id=execution_id))
        execution, task = await nodes.ended(execution_id)

        assert execution.status is ExecutionStatus.CANCELLED
        assert where(task) == [A]
        assert not nodes.playing

    run(story)


def test_an_attempt_cancelled_before_the_move_of_its_shard_is_stopped() -> None:
    async def story(nodes: Nodes) -> None:
        execution_id = await long_attempt_away(nodes)
        nodes.loses = lambda sender, receiver, message: isinstance(message, GiveLease)
        shards = nodes[B].shards
        await shards.ask(shards.of_id(execution_id), Cancel(execution_id=execution_id))

        await nodes.move(nodes.shard_of(execution_id), C, A, B)
        nodes.loses = lambda sender, receiver, message: False
        execution, _ = await nodes.ended(execution_id)

        assert execution.status is ExecutionStatus.CANCELLED
        assert not nodes.playing

    run(story)


def test_waiting_tasks_get_slots_at_the_new_primary() -> None:
    async def story(nodes: Nodes) -> None:
        shards = nodes[A].shards
        job_id = await save(shards, "job", parameters=LONG)
        running, waiting = await trigger(shards, job_id), await trigger(shards, job_id)
        await until(lambda: len(nodes[A].playing) == 1)

        await nodes.move(nodes.shard_of(running), B, A, C)
        await until(lambda: len(nodes[B].playing) == 1)

        slot_table = nodes[A].running.context.attempts.slot_table
        assert where(task_of(nodes, running)) == [A]
        assert where(task_of(nodes, waiting)) == [B]
        assert (slot_table.used, slot_table.waiting) == (1, 0)

    run(story, slots=1)


def test_a_delay_before_a_retry_continues_at_the_new_primary() -> None:
    async def story(nodes: Nodes) -> None:
        shards = nodes[A].shards
        retries = RetryBody(limit=1, backoff="fixed", delay="20s")
        job_id = await save(shards, "job", parameters={"failTimes": 1}, retries=retries)
        execution_id = await trigger(shards, job_id)
        await until(lambda: task_of(nodes, execution_id).status is TaskStatus.BACKING_OFF)

        await nodes.move(nodes.shard_of(execution_id), B, A, C)
        execution, task = await nodes.ended(execution_id)

        assert execution.status is ExecutionStatus.SUCCESS
        assert where(task) == [A, B]

    run(story)


def test_an_uncommitted_start_frees_its_slot() -> None:
    async def story(nodes: Nodes) -> None:
        shards, slot_table = nodes[A].shards, nodes[A].running.context.attempts.slot_table
        job_id = await save(shards, "job", parameters=LONG)
        shard = shards.of_id(job_id)
        nodes.loses = lambda sender, receiver, message: sender == A and isinstance(message, Append)
        nodes[A].is_cut_off = True

        asked = nodes.group.create_task(refusal_of(trigger(shards, job_id)))
        await until(lambda: nodes[B].shards[shard.id].is_open)
        nodes.mend()
        assert await asked == "primary_lost"
        await until(lambda: not shard.is_open)

        assert (slot_table.used, slot_table.waiting) == (0, 0)
        nodes.loses = lambda sender, receiver, message: False

    run(story)


def test_a_slot_assigned_to_a_shard_that_then_moved_is_free() -> None:
    async def story(nodes: Nodes) -> None:
        shards, slot_table = nodes[A].shards, nodes[A].running.context.attempts.slot_table
        job_id = await save(shards, "job", parameters={"sleepMs": 4_000})
        await trigger(shards, job_id)
        await trigger(shards, job_id)
        await until(lambda: (slot_table.used, slot_table.waiting) == (1, 1))

        # The first ends, the second gets the slot, and no decision is possible any more.
        nodes[A].is_cut_off = True
        nodes.cut(A, B, C)
        await until(lambda: not shards.of_id(job_id).is_open or not slot_table.waiting)
        nodes.mend()
        await until(lambda: not shards.of_id(job_id).is_open)

        await until(lambda: not slot_table.used)
        assert slot_table.slots_for(Trigger(job_id=job_id)).free == 1

    run(story, slots=1)


# -- authority -------------------------------------------------------------------------------------


def test_a_primary_in_a_partition_answers_no_reads_from_memory() -> None:
    async def story(nodes: Nodes) -> None:
        shards = nodes[A].shards
        shard = shards.of_id(await save(shards, "job"))
        await shards.settled(shard)

        nodes[A].is_cut_off = True
        nodes.cut(A, B, C)
        await until(lambda: nodes.primary(shard.id) is not shard)

        assert shard.is_open
        with pytest.raises(Refused, match="not_primary"):
            await shards.settled(shard)

    run(story)


# -- outbox items ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Deliver, DeliveryReceipt])
def test_an_outbox_item_for_a_shard_on_another_node_takes_effect_once(kind: type[Sent]) -> None:
    async def story(nodes: Nodes) -> None:
        upstream, downstream = await jobs_of_two_nodes(nodes)
        nodes.loses = losing_first(4, kind)

        await trigger(nodes[A].shards, upstream)
        await until(lambda: bool(nodes[A].shards[UP].state.outbox))
        await until(lambda: not nodes[A].shards[UP].state.outbox)
        await asyncio.sleep(2)

        history = nodes[B].running.context.history
        [execution] = history.executions_of(DOWN, downstream, None)
        assert isinstance(execution, Execution)
        assert execution.status is ExecutionStatus.SUCCESS

    run(story)


def test_an_outbox_item_is_delivered_by_the_next_primary_of_its_shard() -> None:
    async def story(nodes: Nodes) -> None:
        upstream, downstream = await jobs_of_two_nodes(nodes)
        nodes.cut(A, B)
        await trigger(nodes[A].shards, upstream)
        await until(lambda: bool(nodes[A].shards[UP].state.outbox))

        await nodes[A].end()
        nodes.mend()
        nodes.wanted = {UP: (C, B, A), DOWN: (B, C, A)}
        history = nodes[B].running.context.history
        await until(lambda: any(history.executions_of(DOWN, downstream, None)))
        await asyncio.sleep(2)

        assert len(list(history.executions_of(DOWN, downstream, None))) == 1

    run(story)


def test_outbox_items_of_a_moved_shard_are_left_to_its_next_primary() -> None:
    async def story(nodes: Nodes) -> None:
        upstream, _ = await jobs_of_two_nodes(nodes)
        nodes.loses = lambda sender, receiver, message: isinstance(message, Deliver)
        await trigger(nodes[A].shards, upstream)
        await until(lambda: deliveries(nodes, A) == 1)

        await nodes.move(UP, C, A, B)

        assert deliveries(nodes, A) == 0
        assert deliveries(nodes, C) == 1

    run(story)


def test_outbox_items_take_effect_in_journal_order_in_spite_of_reordering() -> None:
    async def story(nodes: Nodes) -> None:
        await jobs_of_two_nodes(nodes)
        up, down = name_in(nodes, UP), name_in(nodes, DOWN)
        chance = SeededEntropy(3)
        nodes.delays_s = lambda message: (
            tuple(chance.draw() / 2**62 for _ in range(4))
            if isinstance(message, Deliver)
            else (ARRIVES_S,)
        )

        for dependencies in ([], [f"default/{up}"]) * 5:
            spec = spec_of(down, dependencies=dependencies)
            shard = nodes[B].shards.of_name("default", down)
            await nodes[B].shards.ask(shard, SaveJob(spec=spec, may_replace=True))
            await asyncio.sleep(chance.draw() / 2**64)
        await until(lambda: not nodes[B].shards[DOWN].state.outbox)
        await asyncio.sleep(5)

        dependents = nodes[A].shards[UP].state.dependents
        assert dependents == {f"default/{up}": {f"default/{down}": None}}

    run(story)
