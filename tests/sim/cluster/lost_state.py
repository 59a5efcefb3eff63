"""A coordinator that loses its state, and the operator who recovers it, by the real plan."""

from collections.abc import Iterable, Mapping
from functools import partial

from rota.core.errors import Refused
from rota.core.model.ids import NodeId
from rota.core.timing.instants import SECOND
from rota.core.vocabulary.shard_configuration import Swap
from rota.node.coordination.agreed_state import CoordinationState
from rota.node.recovery.inventory import Inventory
from rota.node.recovery.plan import Finding, plan_of
from sim.cluster.checks import Violation
from sim.cluster.machine import Machine
from sim.cluster.plan import COPIES
from sim.cluster.world import World
from support.inventories import hashes_of, held

BACKUP_EVERY = 3 * SECOND
AGAIN = SECOND
"""The operator tries again so much later, until all nodes run and none is without the news."""


def keep_backups(world: World) -> None:
    """Copy the coordinator's state again and again; the last copies are kept."""
    if not world.is_lost:
        world.backups.append(world.server.state.copy())
    world.after(BACKUP_EVERY, lambda: keep_backups(world))


def restore_coordinator(world: World, machine: Machine) -> bool:
    """Set the coordinator back, or empty it; later it is recovered, while all nodes run."""
    del machine
    if world.is_lost or not world.configurations:
        return False
    world.is_lost = True
    is_emptied = world.chance.random() < 0.2
    backup = CoordinationState() if is_emptied else world.chance.choice(list(world.backups))
    # Sessions that began since then are over before their time.
    world.excused_until = world.now() + world.plan.timing.session
    world.server.restore(backup)
    world.after(world.chance.choice([2, 8, 15]) * SECOND, lambda: recover(world))
    return True


def recover(world: World) -> None:
    """Write what the plan says while all nodes run; else, or if it is refused, try again later.

    Raises:
        Violation: A shard stays closed, though all nodes run.
    """
    present = [each for each in world.machines.values() if not each.has_left]
    are_up = all(each.wiring is not None and not each.is_paused for each in present)
    if not (are_up and _recovered(world, present)):
        world.after(AGAIN, lambda: recover(world))


def _recovered(world: World, present: list[Machine]) -> bool:
    """Recover what was lost; False if that has to be tried again."""
    view = world.server.state.view()
    told = {
        machine.id: Inventory(
            lost=machine.wiring.context.continuity.lost,
            shards={
                shard.id: held(shard.replica)
                for shard in machine.wiring.context.shards
                if shard.replica.seen is not None
            },
        )
        for machine in present
        if machine.wiring is not None
    }
    shards = {each.id: each.wiring.context.shards for each in present if each.wiring is not None}
    hashes = hashes_of(lambda node_id, shard: shards[node_id][shard].replica)
    gone = [each.id for each in world.machines.values() if each.has_left]
    without = [each for each in gone if each in view.members]
    try:
        plan = plan_of(view, told, hashes, without=without, least=COPIES.least)
    except Refused as refusal:
        if refusal.code == "coordination_sound" and not _is_behind(world, told):
            return _settle(world, gone)
        return False
    by = next((each.id for each in present if each.id in view.lives), None)
    if by is None:
        return False
    for shard in plan.shards:
        if shard.finding is not Finding.RECOVERABLE:
            raise Violation(f"R31: {shard.finding} of shard {shard.shard}")
        assert shard.fresh is not None, shard
        swap = Swap(
            shard=shard.shard,
            expected=shard.expected,
            fresh=shard.fresh,
            by=by,
            session=view.lives[by].session,
            is_repair=True,
        )
        [swapped] = world.server.change(partial(CoordinationState.swap, swaps=[swap]))
        if not swapped.is_done:
            return False
    world.counts["recoveries"] += 1
    return _settle(world, gone)


def _is_behind(world: World, told: Mapping[NodeId, Inventory]) -> bool:
    """Return True if a node has seen what the coordinator does not have, and does not know so."""
    configurations = world.configurations
    return any(
        held.seen is not None
        and (number not in configurations or configurations[number].epoch < held.seen.epoch)
        for inventory in told.values()
        for number, held in inventory.shards.items()
    )


def _settle(world: World, gone: Iterable[NodeId]) -> bool:
    """Note that all is recovered, and forget again the nodes that had left."""
    for node_id in gone:
        world.server.change(partial(CoordinationState.forget, node_id=node_id))
    world.is_lost = False
    return True
