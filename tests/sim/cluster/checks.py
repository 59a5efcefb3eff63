"""Invariants of every moment, and conditions of the end.

I2 and I3 are in docs/explanation/protocol.md, L1 in docs/explanation/proof.md.
"""

from rota.core.model.execution import TaskStatus
from rota.core.model.ids import Index, NodeId, ShardId
from rota.core.timing.instants import SECOND
from rota.node.shards.shard import Shard
from rota.storage.memory import MemoryStore
from rota.storage.shards import shard_prefix
from rota.storage.store import Family
from sim.cluster.machine import Machine
from sim.cluster.world import World

OVERDUE = 3 * SECOND
"""A timer overdue by this time was forgotten."""


DELIVERED_WITHIN = 45 * SECOND
"""Longest delivery of a webhook to a receiver that fails twice, with its delays."""


class Violation(Exception):
    """An invariant was broken."""


# -- at every moment -------------------------------------------------------------------------------


def see_authority(world: World) -> None:
    """I2: at most one node has authority for a shard."""
    if world.now() <= world.excused_until:
        return
    acting: dict[ShardId, NodeId] = {}
    for machine in world.machines.values():
        wiring = machine.wiring
        if wiring is None:
            continue
        now = machine.clock.elapsed()
        for shard in wiring.context.shards:
            if shard.replica.has_authority(now):
                other = acting.setdefault(shard.id, machine.id)
                if other != machine.id:
                    both = f"{other} and {machine.id}"
                    raise Violation(f"I2: {both} both have authority for shard {shard.id}")


def see_outputs(world: World) -> None:
    """No replica has output that no planned turn takes."""
    for machine in world.machines.values():
        if machine.wiring is None or machine.wiring.context.shards.refusal is not None:
            continue
        shards = machine.wiring.context.shards
        for shard in shards:
            if shard.replica.has_ready and not shards.has_turn(shard):
                raise Violation(f"output of shard {shard.id} on {machine.id} waits for no turn")


def see_copies(world: World) -> None:
    """I3: counted copies with the same applied index have the same rows.

    Not by what a coordinator has that lost its state.
    """
    if world.is_lost:
        return
    for number, configuration in world.configurations.items():
        rows_of: dict[Index, list[tuple[bytes, bytes]]] = {}
        for copy in configuration.sync:
            machine = world.machines[copy.node_id]
            if machine.wiring is None or machine.wiring.context.shards.refusal is not None:
                continue  # It is off, or its disk has failed.
            shard = machine.wiring.context.shards[number]
            if shard.replica.copy.allocation != copy.allocation:
                continue
            rows = _rows(machine.store, number)
            if rows_of.setdefault(shard.file.applied, rows) != rows:
                raise Violation(f"I3: {machine.id} has other rows of shard {number} than others")


def see_comparisons(world: World) -> None:
    """R43: nodes that compare copies find none that differ, for none do (I3)."""
    for machine in world.machines.values():
        if machine.wiring is not None and machine.wiring.digests.results["different"]:
            differing = sorted(machine.wiring.digests.diverged)
            raise Violation(f"R43: {machine.id} finds that copies differ, now of {differing}")


# -- liveness --------------------------------------------------------------------------------------


def unwell(world: World) -> str:
    """Return a condition of L1 that does not hold; empty if all hold."""
    configurations, targets = world.configurations, world.targets
    for number, target in enumerate(targets):
        shard_id = ShardId(number)
        configuration = configurations.get(shard_id)
        if configuration is None:
            return f"shard {number} never began"
        if set(configuration.members) != set(target):
            return f"shard {number} is on {configuration.members}, not on {target}"
        if configuration.primary != target[0]:
            return f"shard {number} has {configuration.primary} as its primary, not {target[0]}"
        found = world.primary_of(shard_id)
        if found is None:
            return f"shard {number} is not open: {configuration}"
        if lack := _unwell_inside(world, *found):
            return f"shard {number} on {found[0].id}: {lack}"
    return ""


def _unwell_inside(world: World, machine: Machine, shard: Shard) -> str:
    state, now = shard.state, shard.time(machine.clock)
    for job_id, plan in state.plans.items():
        for due in plan.next_fires:
            if due is not None and due < now - OVERDUE:
                return f"job {job_id} has not fired at {due}, {(now - due) / SECOND:.1f} s ago"
    for execution_id, tasks in state.tasks.items():
        for task in tasks.values():
            if task.status is TaskStatus.RUNNING:
                attempt = task.attempts[-1]
                seen = world.observer.of_task(execution_id, task.name)
                is_alive = any(each.token == attempt.token and not each.over for each in seen)
                if not is_alive and attempt.placed_at < now - OVERDUE:
                    return f"{execution_id}/{task.name} runs, and no attempt is alive: {attempt}"
    if shard.state.outbox:
        return f"messages wait: {list(shard.state.outbox)}"
    for notification in state.notifications.values():
        if notification.at < now - DELIVERED_WITHIN:
            return f"{notification} is not delivered"
    return ""


def unequal(world: World, number: ShardId) -> str:
    """Return how the copies of a shard differ that have applied as much; I3 if they do.

    Raises:
        Violation: They have applied the same, and have other rows.
    """
    found = world.primary_of(number)
    if found is None:
        return "it is not open"
    machine, shard = found
    wanted = _rows(machine.store, number)
    for node_id in world.configurations[number].members:
        wiring = world.machines[node_id].wiring
        if wiring is None or wiring.context.shards[number].file.applied != shard.file.applied:
            return f"{node_id} has not applied {shard.file.applied}"
        if _rows(world.machines[node_id].store, number) != wanted:
            raise Violation(
                f"I3: rows of shard {number} on {node_id} are not those of {machine.id}"
            )
    return ""


def _rows(store: MemoryStore, number: ShardId) -> list[tuple[bytes, bytes]]:
    start, end = shard_prefix(number), shard_prefix(ShardId(number + 1))
    families = (Family.STATE, Family.HIST)
    return [row for family in families for row in store.scan(family, start, end)]
