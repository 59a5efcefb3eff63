"""The run of one seed: faults, recovery, quiet, and final checks."""

import asyncio
import gc
from collections.abc import Callable
from functools import partial
from itertools import count
from random import Random

from rota.core.model.ids import ShardId
from rota.core.replication.local_copy import Diverged
from rota.core.timing.instants import MILLISECOND, SECOND, Duration
from sim.cluster.access import AccessChecks, Administrator
from sim.cluster.checks import (
    Violation,
    see_authority,
    see_comparisons,
    see_copies,
    see_outputs,
    unequal,
    unwell,
)
from sim.cluster.early import Early
from sim.cluster.event_checks import see_events
from sim.cluster.faults import APART, FAULTS, RARE, heal, meet_fault
from sim.cluster.final_checks import Records, see_end
from sim.cluster.hook_checks import see_hooks, unsent
from sim.cluster.lost_state import REVISION_SET_BACK, found_cluster, keep_backups
from sim.cluster.plan import Plan, draw_plan
from sim.cluster.pools import see_pools, unfinished
from sim.cluster.stand_ins import Alone, see_stand_ins, undelivered
from sim.cluster.users import User
from sim.cluster.world import World
from sim.loop import VirtualLoop, first_error
from sim.seeds import Result
from sim.sizes import in_use

MS = MILLISECOND
LOOKS_EVERY = Duration(20 * MS)
LOOKS_BETWEEN = 250
"""Number of checks between two comparisons of rows, which cost as much as all these checks."""
LOOKS_BETWEEN_ALONE = 25
BEGINS_WITHIN_S = 10
"""Time limit for a new cluster without faults to be whole."""
HEALS_WITHIN_S = 60
ADMINISTRATORS = 2
ENDS_WITHIN_S = 30
"""Limit from the last attempt's start to the end of all executions: none takes over 21 s."""
EQUAL_WITHIN_S = 30


def run(seed: int, focus: str | None = None) -> Result:
    """Run a seed.

    Args:
        seed: Determines the run.
        focus: Replaces the focus drawn from the seed.
    """
    chance = Random(seed)
    plan = draw_plan(chance, tuple(FAULTS), tuple(RARE), tuple(APART), focus)
    loop = VirtualLoop()  # type: ignore[abstract]  # nodes ask nothing else of it
    worlds: list[World] = []
    violation = ""
    # When garbage is found depends on the memory of this process; what it would do then as well.
    gc.disable()
    try:
        with in_use(plan.sizes):
            loop.run(_live(loop, chance, plan, worlds))
    except Exception as error:  # A node that crashes has broken a rule like any other.
        first = first_error(error)
        if isinstance(first, Diverged) and worlds[0].is_forked:
            worlds[0].counts["excluded: undetectable loss of etcd's state"] += 1
        else:
            violation = f"{type(first).__name__}: {first} at {loop.time():.3f} s"
    finally:
        gc.enable()
    world = worlds[0]
    return Result(seed, plan, violation, world.counts, Duration(loop.now), world.trace)


async def _live(loop: VirtualLoop, chance: Random, plan: Plan, worlds: list[World]) -> None:
    """Carry out a whole run.

    Raises:
        Violation: Of a rule.
    """
    async with asyncio.TaskGroup() as group:
        world = World(loop, group, chance, plan)
        worlds.append(world)
        looking = group.create_task(_look_around(world))
        try:
            await _go_through(world, group)
        finally:
            looking.cancel()
            for machine in world.machines.values():
                machine.switch_off()


async def _go_through(world: World, group: asyncio.TaskGroup) -> None:
    for machine in world.machines.values():
        machine.start()
    if world.plan.begins_well:
        await _begin_well(world)
    if "coordinator restored" in world.plan.faults:
        keep_backups(world)
    if REVISION_SET_BACK in world.plan.faults:
        found_cluster(world)
    users = [User(world, number) for number in range(world.plan.user_count)]
    living = [group.create_task(user.live()) for user in users]
    administrators = [
        Administrator(world, number) for number in range(ADMINISTRATORS * world.plan.has_keys)
    ]
    living += [group.create_task(each.live()) for each in administrators]
    seeing = group.create_task(AccessChecks(world, administrators).look())
    world.after(world.chance.randrange(5 * SECOND), lambda: meet_fault(world))
    await asyncio.sleep(world.plan.lasts_s)
    heal(world)
    await _wait_until(lambda: unwell(world), HEALS_WITHIN_S)
    world.is_quiet = True
    for life in living:
        await life
    await _become_quiet(world, users)
    seeing.cancel()
    see_comparisons(world)
    world.counts["comparisons"] = sum(
        machine.wiring.digests.results["equal"]
        for machine in world.machines.values()
        if machine.wiring is not None
    )
    see_end(world, [story for user in users for story in user.stories])
    records = Records(world)
    see_hooks(world, [story for user in users for story in user.stories], records)
    see_events(world, [each for user in users for each in user.events], records)
    see_stand_ins(world, records)
    see_pools(world, records)


async def _begin_well(world: World) -> None:
    world.links.are_perfect = True
    await _wait_until(lambda: unwell(world), BEGINS_WITHIN_S)
    world.links.are_perfect = False


async def _become_quiet(world: World, users: list[User]) -> None:
    for user in users:
        await user.quiet()
    attempts_before = -1
    while (unfinished(world) or undelivered(world)) and world.counts["attempts"] > attempts_before:
        attempts_before = world.counts["attempts"]
        await asyncio.sleep(ENDS_WITHIN_S)
    await _wait_until(lambda: undelivered(world) or unsent(world), HEALS_WITHIN_S)
    if what := unfinished(world):
        raise Violation(f"L1: nothing has begun for {ENDS_WITHIN_S} s, and {what}")
    await _wait_until(lambda: unwell(world), HEALS_WITHIN_S)
    for number in range(world.plan.shard_count):
        await _wait_until(partial(unequal, world, ShardId(number)), EQUAL_WITHIN_S)


async def _wait_until(lack: Callable[[], str], within_s: int) -> None:
    """Wait until all conditions of L1 hold."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while what := lack():
        if loop.time() >= deadline:
            raise Violation(f"L1: after {within_s} s {what}")
        await asyncio.sleep(0.02)


async def _look_around(world: World) -> None:
    early, alone = Early(world), Alone(world)
    for look in count():
        see_authority(world)
        see_outputs(world)
        early.see()
        if look % LOOKS_BETWEEN == 0:
            see_copies(world)
            see_comparisons(world)
        if look % LOOKS_BETWEEN_ALONE == 0:
            alone.see()
        await asyncio.sleep(LOOKS_EVERY / SECOND)
