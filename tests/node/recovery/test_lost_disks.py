"""Disks of two copies that are lost for good at the same time, and nodes back with empty ones."""

import pytest

from rota.core.model.ids import NodeId, ShardId
from rota.core.timing.instants import SECOND, Duration
from support.in_process import save
from support.virtual_nodes import A, B, C, Nodes, run, until

SHARD = ShardId(0)
LATER = Duration(60 * SECOND)


def name_in(nodes: Nodes, node_id: NodeId) -> str:
    """Return the name of a job of `SHARD`."""
    shards = nodes[node_id].shards
    return next(str(n) for n in range(99) if shards.of_name("default", str(n)).id == SHARD)


@pytest.mark.parametrize("primary", [A, B])
def test_a_shard_opens_from_the_one_copy_that_counts_and_is_left(primary: NodeId) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.move(SHARD, primary, *(each for each in (A, B, C) if each != primary))
        await save(nodes[primary].shards, name := name_in(nodes, primary))
        for lost in (B, C):
            await nodes[lost].end()
            nodes[lost].wipe()

        for lost in (B, C):
            await nodes[lost].start()
        await nodes.settle()
        opened = nodes.primary(SHARD)

        assert opened is not None
        assert f"default/{name}" in opened.state.names

    run(story)


def test_a_shard_stays_closed_where_the_copy_that_is_left_counts_no_more() -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.move(SHARD, A, B, C)
        await nodes[A].end()
        await until(lambda: A not in nodes.server.state.view().configurations[SHARD].members)
        for lost in (B, C):
            await nodes[lost].end()
            nodes[lost].wipe()

        for each in (A, B, C):
            await nodes[each].start()
        began_at = nodes.loop.now
        await until(lambda: nodes.loop.now >= began_at + LATER)

        assert nodes.primary(SHARD) is None

    run(story)
