"""Recovery of a coordinator that lost its state, by the real plan."""

from itertools import product

import msgspec

from rota.core.errors import Refused
from rota.core.timing.instants import SECOND
from rota.core.vocabulary.shard_configuration import generation_of
from rota.node.coordination.coordinator import Cluster, Member, View
from rota.node.recovery.inventory import HeldCopy, Inventory
from rota.node.recovery.plan import Finding, plan_from, plan_of
from sim.protocol.checks import Violation
from sim.protocol.node import SHARD
from sim.protocol.world import World
from support.inventories import hashes_of, held

AGAIN = SECOND
"""Pause before the operator's next try, until all nodes run and all have detected the loss."""


class Unnoticeable(Exception):
    """A loss of acknowledged entries that cannot be detected: the assumption of R31 does not hold.

    All nodes that had seen the lost configurations were stopped or cut off for so long that the
    coordinator had later ones when they came back (docs/explanation/protocol.md).
    """


def recover(world: World) -> None:
    """Carry out the recovery plan while all nodes run; else, or if it is refused, try again later.

    Raises:
        Violation: The shard stays closed, though all nodes run.
    """
    if not world.is_lost:
        return
    if not all(node.is_up and not node.is_paused for node in world.nodes):
        world.after(AGAIN, lambda: recover(world))
        return
    current = world.coordination.current
    view = View(
        revision=0,
        configurations={SHARD: current} if current else {},
        lives={},
        members={},
        cluster=Cluster(id="", shards=1, replicas=1, generation=world.coordination.generation),
    )
    inventories = {
        node.id: Inventory(lost=node.continuity.lost, shards={SHARD: held(node.replica)})
        for node in world.nodes
    }
    replicas = {node.id: node.replica for node in world.nodes}
    hashes = hashes_of(lambda node_id, _: replicas[node_id])
    least = world.copies.least
    # Where so many disks were lost, copies that alone had a newer configuration may be among them.
    # No fault takes the last copy of anything, so the operator may accept that here.
    # A node that has seen no configuration yet looks as if it had lost its disk.
    unseeing = sum(node.replica.seen is None for node in world.nodes)
    is_blind = world.counts["wipe"] + unseeing >= least
    try:
        plan = plan_of(view, inventories, hashes, least=least, accepts_loss=is_blind)
    except Refused as refusal:
        if refusal.code == "coordination_sound" and not _has_lost(world):
            world.is_lost = False
            world.coordination.is_emptied = False
            world.checks.forget_unseen(current)
            _check_noticed(world)
            return
        world.after(AGAIN, lambda: recover(world))
        return
    [shard] = plan.shards
    world.coordination.generation, world.coordination.is_emptied = plan.generation, False
    if shard.finding is Finding.NO_COPY and not world.checks.last_acknowledged:
        # Only the first copy counted yet, and its disk is lost: any other copy will do.
        cluster = Cluster(id="", shards=1, replicas=1, generation=plan.generation)
        source = next(each for each in inventories if inventories[each].of(SHARD).allocation)
        view = msgspec.structs.replace(view, cluster=cluster)
        shard = plan_from(SHARD, source, view, inventories, hashes, least=least).shards[0]
        assert shard.fresh is not None
        world.coordination.generation = generation_of(shard.fresh.epoch)
    wanted = {Finding.RECOVERABLE, *({Finding.UNSURE} if is_blind else ())}
    if not world.checks.last_acknowledged:
        wanted |= {Finding.NEW, Finding.NO_COPY}
    if shard.finding not in wanted:
        raise Violation(f"R31: {shard.finding} of {inventories}")
    world.note("recovered", shard.fresh)
    world.count("recoveries")
    world.is_lost = False
    if shard.fresh is None:
        return  # No node has anything of the shard: it is founded again.
    world.coordination.current = shard.fresh
    world.coordination.history.append(shard.fresh)
    world.checks.see_copies(shard.fresh)


def see_missing_nodes(world: World) -> None:
    """Check that a recovery without some nodes would be sure only if that is safe.

    One node is lost for good, and another one may have an empty disk in the place of its own. The
    coordinator has nothing.

    Raises:
        Violation: A recovery would be sure, and lose what was acknowledged.
    """
    last = world.checks.last_acknowledged
    down = [node for node in world.nodes if not node.is_up]
    if world.is_lost or world.counts["wipe"] or not last or len(down) > 1:
        return
    replicas = {node.id: node.replica for node in world.nodes}
    hashes = hashes_of(lambda node_id, _: replicas[node_id])
    generation = world.coordination.generation
    members = {node.id: Member(node_id=node.id, store_id="", address="") for node in world.nodes}
    view = View(revision=0, configurations={}, lives={}, members=members, cluster=None)
    inventories = {
        node.id: Inventory(lost=generation, shards={SHARD: held(node.replica)})
        for node in world.nodes
        if node.is_up
    }
    for gone, empty in product(down or world.nodes, [None, *world.nodes]):
        if gone is empty or (gone.is_up and empty is None):
            continue
        answers = {key: each for key, each in inventories.items() if key != gone.id}
        if empty is not None:
            answers[empty.id] = Inventory(lost=generation, shards={SHARD: HeldCopy()})
        [shard] = plan_of(view, answers, hashes, without=[gone.id], least=world.copies.least).shards
        if shard.finding is not Finding.RECOVERABLE:
            continue
        assert shard.fresh is not None
        world.count("sure though nodes were missing")
        lasts = [world.by_id[copy.node_id].replica.copy.tip.index for copy in shard.fresh.sync]
        if max(lasts) < last:
            what = f"{gone.id} lost, {empty.id if empty else 'none'} empty"
            raise Violation(f"R31: a recovery would lose entry {last}: {what}; {shard}")


def _check_noticed(world: World) -> None:
    """Check the copies that count after a loss that no node detected.

    Raises:
        Unnoticeable: They lack acknowledged entries, and no node could detect the loss.
        Violation: They lack some, and a node could.
    """
    if (current := world.coordination.current) is None:
        return
    try:
        world.checks.see_copies(current)
    except Violation as violation:
        if world.is_noticeable:
            raise
        raise Unnoticeable from violation


def _has_lost(world: World) -> bool:
    """Return True if a node has seen more than the coordinator has."""
    current = world.coordination.current
    return any(
        (seen := node.replica.seen) is not None
        and (current is None or current.epoch < seen.epoch or current != seen)
        for node in world.nodes
    )
