"""Loss of the coordinator's state, and its recovery by an operator with the real plan."""

from collections.abc import Collection, Iterable, Mapping
from functools import partial

from msgspec.structs import replace

from rota.core.errors import Refused
from rota.core.model.ids import NodeId, ShardId
from rota.core.timing.instants import SECOND
from rota.core.vocabulary.shard_configuration import Swap
from rota.node.coordination.agreed_state import CoordinationState
from rota.node.coordination.coordinator import Cluster
from rota.node.recovery.inventory import Inventory
from rota.node.recovery.plan import Finding, plan_of
from sim.cluster.checks import Violation
from sim.cluster.machine import Machine
from sim.cluster.plan import COPIES
from sim.cluster.world import World
from support.inventories import hashes_of, held

REVISION_SET_BACK = "revision set back"
STEPS = 50
"""More steps than nodes cause before the loss is noticed."""
SEEN_AFTER = SECOND
BACKUP_EVERY = 3 * SECOND
FOUNDED_AFTER = 10 * SECOND
"""Time for the founding of shards, while nodes fail."""
AGAIN = SECOND
"""Pause before the operator's next try, until all nodes run and all have detected the loss."""


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
    kept = backup.view().configurations
    world.lost_epochs = {
        number: each.epoch
        for number, each in world.configurations.items()
        if number not in kept or kept[number].epoch < each.epoch
    }
    # Sessions that began since then are over before their time.
    world.excused_until = world.now() + world.plan.timing.session
    world.server.restore(backup)
    world.after(world.chance.choice([2, 8, 15]) * SECOND, lambda: recover(world))
    return True


def found_cluster(world: World) -> None:
    """Give the coordinator the record of the cluster, with the generation that recoveries raise."""
    world.server.state.cluster = Cluster(id="simulated", shards=world.plan.shard_count, replicas=3)


def set_revision_back(world: World, machine: Machine) -> bool:
    """Set the coordinator back by steps that changed no configuration; later it is recovered."""
    member = world.server.state.view().members.get(machine.id)
    if world.is_lost or not world.configurations or member is None:
        return False
    world.is_lost = True
    backup = world.server.state.copy()

    def take_steps(state: CoordinationState) -> None:
        state.revision += STEPS  # In one step: watches deliver each step with a delay of its own.
        state.register(member)

    world.server.change(take_steps)
    world.after(SEEN_AFTER, lambda: _go_back(world, backup))
    return True


def _go_back(world: World, backup: CoordinationState) -> None:
    """Set the coordinator back, unless its steps changed more, or are on their way to a node."""
    seen = {
        each.id: (each.life, each.wiring.context.continuity.revision)
        for each in world.machines.values()
        if each.wiring is not None and not each.is_paused
    }
    is_seen = all(revision >= backup.revision + STEPS for _, revision in seen.values())
    are_there = all(each.id in seen for each in world.machines.values() if each.life is not None)
    is_same = world.configurations == backup.view().configurations
    if not (is_seen and are_there and is_same and world.server.is_up):
        world.is_lost = False
        return
    world.witnesses = seen
    world.counts["revisions set back"] += 1
    world.excused_until = world.now() + world.plan.timing.session
    world.server.restore(backup)
    world.after(world.chance.choice([2, 8]) * SECOND, lambda: recover(world))


def recover(world: World) -> None:
    """Carry out the recovery plan while all nodes run; else, or if it is refused, try again later.

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
    inventories = {
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
    named = {
        node_id
        for each in (
            *view.configurations.values(),
            *(held.seen for one in inventories.values() for held in one.shards.values()),
        )
        if each is not None
        for node_id in each.members
    }
    without = [each for each in gone if each in view.members or each in named]
    # A node that has not seen a configuration yet looks as if it had lost its disk. No fault takes
    # the last copy of anything, so the operator may accept that here.
    unseeing = sum(len(each.shards) < world.plan.shard_count for each in inventories.values())
    is_blind = unseeing + len(without) + world.counts["disk lost"] >= COPIES.least
    try:
        plan = plan_of(
            view,
            inventories,
            hashes,
            without=without,
            least=COPIES.least,
            accepts_loss=is_blind,
            count=world.plan.shard_count,
        )
    except Refused as refusal:
        if refusal.code == "coordination_sound" and not _is_behind(world, inventories):
            _check_witnesses(world)
            return _settle(world, gone)
        return False
    _raise_generation(world, plan.generation)
    by = next((each.id for each in present if each.id in view.lives), None)
    if by is None:
        return False
    fresh = [shard.shard for shard in plan.shards if shard.finding is Finding.NEW]
    for shard in plan.shards:
        if shard.finding is Finding.NEW:
            continue
        if shard.finding not in {Finding.RECOVERABLE, *({Finding.UNSURE} if is_blind else ())}:
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
    world.is_forked = False
    if fresh:
        _found(world, present, fresh)
    return _settle(world, gone)


def _found(world: World, present: Iterable[Machine], fresh: Collection[ShardId]) -> None:
    """Have a node found shards of which no copy exists; recover again if that does not succeed."""
    wiring = next(each.wiring for each in present if each.wiring is not None)
    wiring.context.membership.found(fresh)
    world.after(FOUNDED_AFTER, lambda: _check_founded(world))


def _check_founded(world: World) -> None:
    """Recover again if shards have no configuration: the node that was to found them has ended."""
    if not world.is_lost and len(world.configurations) < world.plan.shard_count:
        world.is_lost = True
        recover(world)


def _check_witnesses(world: World) -> None:
    """Check that nodes which saw a higher revision, and then the present one, detected the loss.

    Raises:
        Violation: A node did not.
    """
    revision = world.server.state.revision
    for node_id, (life, seen) in world.witnesses.items():
        machine = world.machines[node_id]
        if machine.wiring is None or machine.life is not life:
            continue
        if machine.wiring.context.continuity.revision <= revision < seen:
            raise Violation(f"R31: {node_id} did not detect that revision {seen} is lost")


def _raise_generation(world: World, generation: int) -> None:
    """Write the record of the cluster, with the generation of the recovery."""
    found_cluster(world)
    state = world.server.state
    assert state.cluster is not None
    state.cluster = replace(state.cluster, generation=generation)


def _is_behind(world: World, inventories: Mapping[NodeId, Inventory]) -> bool:
    """Return True if a node has a configuration that the coordinator lost."""
    configurations = world.configurations
    return any(
        held.seen is not None
        and (number not in configurations or configurations[number].epoch < held.seen.epoch)
        for inventory in inventories.values()
        for number, held in inventory.shards.items()
    )


def _settle(world: World, gone: Iterable[NodeId]) -> bool:
    """Mark the state as recovered, and remove again the nodes that had left."""
    for node_id in gone:
        world.server.change(partial(CoordinationState.forget, node_id=node_id))
    world.is_lost = False
    world.lost_epochs = {}
    world.witnesses = {}
    return True
