"""Requests held for a shard that cannot decide, and those of the other shards of its node."""

import asyncio

from rota.core.model.ids import ShardId
from rota.core.replication.primary import Copies
from rota.node.shards.inbox import TURN_MAX
from support.in_process import save, trigger
from support.virtual_nodes import A, B, C, Nodes, run, until

STUCK, FREE = ShardId(0), ShardId(1)


def name_in(nodes: Nodes, shard: ShardId) -> str:
    """Return the name of a job of a shard."""
    shards = nodes[A].shards
    return next(str(n) for n in range(99) if shards.of_name("default", str(n)).id == shard)


def test_more_requests_than_a_turn_takes_held_for_one_shard_leave_the_others_free() -> None:
    async def story(nodes: Nodes) -> None:
        shards = nodes[A].shards
        nodes.wanted[FREE] = (A, C)
        await nodes.move(FREE, A, C)
        await nodes.settle()
        stuck = await save(shards, name_in(nodes, STUCK))
        free = await save(shards, name_in(nodes, FREE))
        # Without the coordinator the dead copy of the one counts on; the other has its backup.
        for node in (A, B, C):
            nodes[node].is_cut_off = True
        await asyncio.sleep(4)
        await nodes[B].end()
        clock = nodes[A].clock
        await until(lambda: not shards[STUCK].replica.is_admitting(clock.elapsed()))

        held = [nodes.group.create_task(trigger(shards, stuck)) for _ in range(TURN_MAX + 8)]
        await asyncio.sleep(1)
        async with asyncio.timeout(5):
            await trigger(shards, free)

        assert not any(each.done() for each in held)
        for each in held:
            each.cancel()

    run(story, copies=Copies(wanted=2, least=2))
