"""Handovers of busy shards: no started or promised work is lost."""

import asyncio

from rota.core.errors import Refused
from rota.core.model.ids import ExecutionId, JobId, ShardId
from rota.core.vocabulary.commands import Trigger
from rota.core.vocabulary.decision import Triggered
from support.in_process import save
from support.virtual_nodes import A, B, C, Nodes, run

SHARD = ShardId(0)


async def keep_busy(
    nodes: Nodes, job_id: JobId, made: list[ExecutionId], refused: list[str]
) -> None:
    """Trigger a job repeatedly at its shard's primary, until cancelled."""
    while True:
        await asyncio.sleep(0.003)
        primary = next((each for each in (A, B) if nodes[each].shards[SHARD].is_open), None)
        if primary is None:
            continue
        shards = nodes[primary].shards
        try:
            answer = await shards.ask(shards[SHARD], Trigger(job_id=job_id))
        except Refused as refusal:
            refused.append(refusal.code)
        else:
            assert isinstance(answer, Triggered)
            made.append(answer.execution_id)


def test_commits_before_a_handover_are_answered_and_started_before_it() -> None:
    async def story(nodes: Nodes) -> None:
        shards = nodes[A].shards
        name = next(n for n in map(str, range(99)) if shards.of_name("default", n).id == SHARD)
        job_id = await save(shards, name, parameters={"sleepMs": 1})
        made: list[ExecutionId] = []
        refused: list[str] = []

        async with asyncio.TaskGroup() as group:
            users = [group.create_task(keep_busy(nodes, job_id, made, refused)) for _ in range(4)]
            for primary, backup in ((B, A), (A, B)) * 2:
                await asyncio.sleep(0.1)
                await nodes.move(SHARD, primary, backup, C)
            for user in users:
                user.cancel()

        ended = [await nodes.ended(each) for each in made]
        assert len(made) > 40
        assert {len(task.attempts) for _, task in ended} == {1}, "an attempt did not start"
        assert "primary_lost" not in refused, "the answer to a committed request was lost"

    run(story)
