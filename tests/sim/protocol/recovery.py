"""What an operator does about a coordinator that lost its state: a recovery, by the real plan."""

from rota.core.errors import Refused
from rota.core.timing.instants import SECOND
from rota.node.coordination.coordinator import Cluster, View
from rota.node.recovery.inventory import Inventory
from rota.node.recovery.plan import Finding, plan_of
from sim.protocol.checks import Violation
from sim.protocol.node import SHARD
from sim.protocol.world import World
from support.inventories import hashes_of, held

AGAIN = SECOND
"""The operator tries again so much later, until all nodes run and none is without the news."""


def recover(world: World) -> None:
    """Write what the plan says while all nodes run; else, or if it is refused, try again later.

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
    told = {
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
        plan = plan_of(view, told, hashes, least=least, accepts_loss=is_blind)
    except Refused as refusal:
        if refusal.code == "coordination_sound" and not _has_lost(world):
            world.is_lost = False
            world.coordination.is_emptied = False
            world.checks.forget_unseen(current)
            return
        world.after(AGAIN, lambda: recover(world))
        return
    [shard] = plan.shards
    wanted = {Finding.RECOVERABLE, *({Finding.UNSURE} if is_blind else ())}
    if shard.finding not in wanted:
        raise Violation(f"R31: {shard.finding} of {told}")
    assert shard.fresh is not None
    world.note("recovered", shard.fresh)
    world.count("recoveries")
    world.is_lost = False
    world.coordination.generation, world.coordination.is_emptied = plan.generation, False
    world.coordination.current = shard.fresh
    world.coordination.history.append(shard.fresh)
    world.checks.see_copies(shard.fresh)


def _has_lost(world: World) -> bool:
    """Return True if a node has seen more than the coordinator has."""
    current = world.coordination.current
    return any(
        (seen := node.replica.seen) is not None
        and (current is None or current.epoch < seen.epoch or current != seen)
        for node in world.nodes
    )
