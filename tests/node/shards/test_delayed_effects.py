"""Fires decided ahead: they start on time, and only on nodes with authority."""

import asyncio
from functools import partial

from msgspec import convert

from rota.core.model.attempt import AttemptKey
from rota.core.model.execution import ExecutionStatus
from rota.core.model.ids import ExecutionId, ShardId, fire_execution_id
from rota.core.timing.instants import MILLISECOND, SECOND, Duration, Instant, format_instant, later
from rota.core.vocabulary.commands import Cancel, SaveJob
from rota.core.vocabulary.decision import JobSaved
from rota.wire.bodies.job_bodies import job_spec
from rota.wire.documents import JobBody
from support.virtual_nodes import FENCED_BY_S, LOST_BY_S, A, B, C, Nodes, run, until

SHARD = ShardId(0)
AHEAD = Duration(5 * SECOND)
"""Longer than the authority of a node without messages of the others."""
SOON = Duration(6 * SECOND)
"""Time from the save of a job to its fire time."""

run_ahead = partial(run, decide_ahead=AHEAD)


async def decided_ahead(
    nodes: Nodes, sleep_ms: int = 0, tasks: int = 1
) -> tuple[ExecutionId, Instant]:
    """Return an execution of the first node that is decided and not due yet, and its fire time."""
    shards = nodes[A].shards
    name = next(n for n in map(str, range(99)) if shards.of_name("default", n).id == SHARD)
    due = later(nodes[A].clock.now(), SOON)
    played = {"type": "scripted", "parameters": {"sleepMs": sleep_ms}}
    each = [{"name": f"t{number}" if number else "main", **played} for number in range(tasks)]
    body = {"name": name, "schedule": f"@at {format_instant(due)}", "tasks": each}
    saved = await shards.ask(shards[SHARD], SaveJob(spec=job_spec(convert(body, JobBody))))
    assert isinstance(saved, JobSaved)
    made = fire_execution_id(saved.job_id, due, 0)
    await until(lambda: nodes.task(made) is not None)
    await asyncio.sleep(0.1)  # By then it is committed.
    assert nodes[A].clock.now() < due - 4 * SECOND
    assert not nodes.began
    return made, due


def first(made: ExecutionId) -> AttemptKey:
    return AttemptKey(made, "main", 1)


def test_a_fire_begins_on_time_however_long_its_commit_takes() -> None:
    async def story(nodes: Nodes) -> None:
        for node_id in (A, B, C):
            nodes[node_id].sync_us = 50 * MILLISECOND
        made, due = await decided_ahead(nodes)

        execution, _ = await nodes.ended(made)

        assert due <= execution.started_at <= due + 10 * MILLISECOND
        assert nodes.began == {first(made): 1}

    run_ahead(story)


def test_a_fire_waits_for_its_time_when_its_commit_comes_early() -> None:
    async def story(nodes: Nodes) -> None:
        made, due = await decided_ahead(nodes)

        await asyncio.sleep((due - nodes[A].clock.now()) / SECOND - 0.001)
        before = dict(nodes.began)
        await asyncio.sleep(0.011)

        assert (before, dict(nodes.began)) == ({}, {first(made): 1})

    run_ahead(story)


def test_one_that_is_cancelled_before_it_is_due_does_not_begin() -> None:
    async def story(nodes: Nodes) -> None:
        made, due = await decided_ahead(nodes)
        shards, slot_table = nodes[A].shards, nodes[A].running.context.attempts.slot_table
        held = slot_table.used

        await shards.ask(shards[SHARD], Cancel(execution_id=made))
        execution, task = await nodes.ended(made)
        await asyncio.sleep(SOON / SECOND)

        assert nodes[A].clock.now() > due
        assert execution.status is ExecutionStatus.CANCELLED
        assert len(task.attempts) == 1
        assert not nodes.began
        assert (held, slot_table.used) == (1, 0)

    run_ahead(story)


def test_of_several_tasks_that_are_cancelled_before_they_are_due_none_begins() -> None:
    async def story(nodes: Nodes) -> None:
        made, _ = await decided_ahead(nodes, tasks=3)
        shards, slot_table = nodes[A].shards, nodes[A].running.context.attempts.slot_table
        held = slot_table.used

        await shards.ask(shards[SHARD], Cancel(execution_id=made))
        await until(lambda: made not in shards[SHARD].state.executions)
        await asyncio.sleep(SOON / SECOND)

        assert not nodes.began
        assert (held, slot_table.used) == (3, 0)

    run_ahead(story)


def test_a_shard_is_handed_over_after_the_start_of_its_fires_decided_ahead() -> None:
    async def story(nodes: Nodes) -> None:
        made, due = await decided_ahead(nodes, sleep_ms=100)
        await asyncio.sleep((due - nodes[A].clock.now()) / SECOND - 0.3)

        await nodes.move(SHARD, B, A, C)
        execution, task = await nodes.ended(made)

        assert due <= execution.started_at <= due + 10 * MILLISECOND
        assert len(task.attempts) == 1
        assert nodes.began == {first(made): 1}

    run_ahead(story)


def test_a_node_without_authority_at_a_fire_time_does_not_start_the_fire() -> None:
    async def story(nodes: Nodes) -> None:
        _, due = await decided_ahead(nodes)

        nodes.cut(A, B, C)
        nodes[A].is_cut_off = True
        await asyncio.sleep((due - nodes[A].clock.now()) / SECOND + 0.1)

        assert nodes[A].shards[SHARD].is_open, "it does not know"
        assert not nodes.began

    run_ahead(story)


def test_a_node_that_regains_authority_after_a_fire_time_starts_the_fire_late() -> None:
    async def story(nodes: Nodes) -> None:
        made, due = await decided_ahead(nodes)

        for other, another in ((A, B), (A, C), (B, C)):
            nodes.cut(other, another)
        for node_id in (A, B, C):
            nodes[node_id].is_cut_off = True
        await asyncio.sleep((due - nodes[A].clock.now()) / SECOND + 0.1)
        before = dict(nodes.began)
        nodes.mend()
        await nodes.ended(made)

        assert before == {}
        assert sum(nodes.began.values()) == 1

    run_ahead(story)


def test_a_node_after_a_pause_does_not_start_a_fire_restarted_by_another() -> None:
    async def story(nodes: Nodes) -> None:
        made, _ = await decided_ahead(nodes, sleep_ms=60_000)

        await nodes[A].pause(FENCED_BY_S + LOST_BY_S)
        await asyncio.sleep(FENCED_BY_S)

        task = nodes.task(made)
        assert task is not None
        assert len(task.attempts) == 2
        assert nodes.began == {AttemptKey(made, "main", 2): 1}

    run_ahead(story)


def test_a_node_that_loses_a_shard_before_a_fire_time_frees_the_slot() -> None:
    async def story(nodes: Nodes) -> None:
        await decided_ahead(nodes, sleep_ms=60_000)

        nodes.cut(A, B, C)
        nodes[A].is_cut_off = True
        await asyncio.sleep(FENCED_BY_S + LOST_BY_S)
        nodes.mend()
        await asyncio.sleep(FENCED_BY_S)

        assert not nodes[A].playing
        assert nodes[A].running.context.attempts.slot_table.used == 0

    run_ahead(story)
