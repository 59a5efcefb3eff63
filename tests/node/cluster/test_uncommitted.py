"""Requests beside a write that cannot be committed: each is answered in limited time."""

import asyncio

import pytest

from rota.core.errors import Refused
from rota.core.model.ids import ShardId
from rota.core.timing.instants import SECOND
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import NotCommitted, NotPrimary, OutcomeUnknown
from rota.node.shards.turn_state import COMMIT_WAIT_MAX
from support.in_process import save
from support.virtual_nodes import A, B, C, Nodes, run, until

SHARD, OTHER = ShardId(0), ShardId(1)
LIMIT_S = 60  # Of virtual time.


def test_a_write_that_cannot_be_committed_has_an_unknown_outcome_after_a_limit() -> None:
    async def story(nodes: Nodes) -> None:
        async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
            began_at, write = nodes.loop.now, await uncommitted_write(nodes, group)

            refusal = await write
            waited = nodes.loop.now - began_at

            assert isinstance(refusal, OutcomeUnknown)
            assert COMMIT_WAIT_MAX <= waited < COMMIT_WAIT_MAX + SECOND

    run(story)


def test_a_read_of_the_shard_is_refused_after_the_limit_and_of_another_answered() -> None:
    async def story(nodes: Nodes) -> None:
        async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
            shards = nodes[A].shards
            write = await uncommitted_write(nodes, group)

            await shards.settled(shards[OTHER])
            before = write.done()
            with pytest.raises(NotCommitted):
                await shards.settled(shards[SHARD])

            assert not before
            await write

    run(story)


def test_a_node_without_authority_refuses_reads_beside_an_uncommitted_write() -> None:
    async def story(nodes: Nodes) -> None:
        async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
            shards = nodes[A].shards
            write = await uncommitted_write(nodes, group)
            nodes[A].is_cut_off = True
            await write

            with pytest.raises(NotPrimary):
                await shards.settled(shards[SHARD])

    run(story)


def test_a_read_that_waits_while_its_node_loses_authority_is_refused_as_elsewhere() -> None:
    async def story(nodes: Nodes) -> None:
        async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
            shards = nodes[A].shards
            write = await uncommitted_write(nodes, group)
            read = group.create_task(_refusal_of_read(shards))
            nodes[A].is_cut_off = True

            assert isinstance(await write, OutcomeUnknown)
            assert isinstance(await read, NotPrimary)

    run(story)


def test_what_is_committed_after_its_caller_was_refused_can_be_read() -> None:
    async def story(nodes: Nodes) -> None:
        async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
            shards = nodes[A].shards
            await (await uncommitted_write(nodes, group, ends=False))

            nodes.mend()
            await nodes.settle()
            primary = nodes.primary(SHARD)

            assert primary is not None
            assert [job.spec.name for job in primary.state.jobs.values()] == [name_in(shards)]

    run(story)


async def uncommitted_write(
    nodes: Nodes, group: asyncio.TaskGroup, *, ends: bool = True
) -> "asyncio.Task[Refused | None]":
    """Return a write that shard 0 has decided and can no longer commit."""
    shards = nodes[A].shards
    nodes.cut(A, B, C)
    write = group.create_task(_refusal_of_save(shards))
    await until(lambda: shards[SHARD].unreleased is not None)
    if ends:
        await asyncio.gather(nodes[B].end(), nodes[C].end())
    return write


async def _refusal_of_read(shards: Shards) -> Refused | None:
    try:
        await shards.settled(shards[SHARD])
    except Refused as refusal:
        return refusal
    return None


async def _refusal_of_save(shards: Shards) -> Refused | None:
    try:
        await save(shards, name_in(shards))
    except Refused as refusal:
        return refusal
    return None


def name_in(shards: Shards) -> str:
    """Return the name of a job of shard 0."""
    return next(
        name for name in map(str, range(1000)) if shards.of_name("default", name).id == SHARD
    )
