"""Comparison of copies in a simulated cluster (R43)."""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from rota.core.model.ids import NodeId, ShardId
from rota.core.timing.instants import SECOND
from rota.core.vocabulary.changes import Table
from rota.storage.shards import shard_prefix
from rota.storage.store import Family
from sim.cluster.checks import unwell
from sim.cluster.plan import COMPARE_OFTEN, Plan, draw_plan
from sim.cluster.users import User
from sim.cluster.world import World
from sim.loop import VirtualLoop
from support.virtual_nodes import until

SHARD = ShardId(1)
LIVES_S = 5
FOUND_WITHIN_S = 3 * COMPARE_OFTEN / SECOND


@pytest.fixture(autouse=True)
def _nodes_log_nothing() -> Iterator[None]:
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def plan_of(chance: Random) -> Plan:
    """Return a plan without faults."""
    return replace(
        draw_plan(chance, (), ()), faults=(), loss_percent=0, compare_every=COMPARE_OFTEN
    )


def put_row(world: World, node_id: NodeId) -> None:
    """Add a row to one copy of a shard."""
    store = world.machines[node_id].store
    batch = store.batch()
    batch.put(Family.HIST, shard_prefix(SHARD) + bytes((Table.LEDGER,)) + b"left over", b"row")
    store.write(batch)


def finders(world: World) -> list[NodeId]:
    """Return the nodes that detected a difference between copies of the shard."""
    return [
        machine.id
        for machine in world.machines.values()
        if machine.wiring is not None and SHARD in machine.wiring.digests.diverged
    ]


@pytest.mark.parametrize("seed", range(3))
def test_a_row_that_one_copy_alone_has_is_found_by_the_primary(seed: int) -> None:
    loop, chance = VirtualLoop(), Random(seed)  # type: ignore[abstract]  # nodes ask no more of it
    found: list[NodeId] = []

    async def story() -> None:
        async with asyncio.TaskGroup() as group:
            world = World(loop, group, chance, plan_of(chance))
            for machine in world.machines.values():
                machine.start()
            users = [User(world, number) for number in range(world.plan.user_count)]
            living = [group.create_task(user.live()) for user in users]
            await until(lambda: not unwell(world))
            await asyncio.sleep(LIVES_S)
            configuration = world.configurations[SHARD]
            put_row(world, chance.choice(configuration.members))
            await until(lambda: bool(finders(world)), FOUND_WITHIN_S)
            found.extend(finders(world))
            assert found == [world.configurations[SHARD].primary]
            for task in living:
                task.cancel()
            for machine in world.machines.values():
                machine.switch_off()

    loop.run(story())

    assert found
