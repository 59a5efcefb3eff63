"""Faults of a world, by name; each returns True if it happened."""

from collections.abc import Callable
from itertools import product

from rota.core.model.ids import Epoch
from rota.core.timing.instants import SECOND, Instant
from rota.core.vocabulary.shard_configuration import NO_SESSION
from sim.forgeries import Party, forged
from sim.protocol.node import Node
from sim.protocol.plan import MS, TIMING
from sim.protocol.recovery import recover, see_missing_nodes
from sim.protocol.world import World


def crash(world: World, node: Node) -> bool:
    """Kill a node; it starts again soon, perhaps before another node noticed."""
    if not node.is_up:
        return False
    node.crash()
    world.after(world.chance.choice([100, 800, 3_000, 8_000]) * MS, lambda: _restart(node))
    return True


def see_death(world: World, node: Node) -> bool:
    """Kill a process; its warden ends the session and sends the proof of death (note 2)."""
    session = node.liveness.session if node.is_up else NO_SESSION
    if not crash(world, node) or session == NO_SESSION:
        return False
    world.coordination.end_session(node.id, session)
    for other in world.nodes:
        if other.is_up:
            other.liveness.saw_death(node.id, session, other.clock(), grace=TIMING.grace)
    return True


def wipe(world: World, node: Node) -> bool:
    """Lose a disk, while every other copy that counts, or may, is whole."""
    current = world.coordination.current
    if current is None or not node.is_up or len(current.sync) < 2 or world.is_lost:
        return False
    are_whole = all(
        world.by_id[copy.node_id].disk.durable.allocation == copy.allocation
        for copy in current.sync
    )
    if not are_whole or world.swaps_on_their_way:
        return False
    allocation = node.disk.durable.allocation
    if allocation is not None:
        world.checks.lost.add(allocation)
    node.crash()
    node.disk.wipe()
    world.after(500 * MS, lambda: _restart(node))
    return True


def pause(world: World, node: Node) -> bool:
    """Pause a process for a while; its clock runs on, and it does not notice."""
    if not node.is_up or node.is_paused:
        return False
    node.is_paused = True
    life = node.life

    def resume() -> None:
        if node.is_up and node.is_paused and node.life == life:
            node.resume()

    world.after(world.chance.choice([500, 2_500, 4_000, 9_000]) * MS, resume)
    return True


def slow_disk(world: World, node: Node) -> bool:
    """Slow down a node's syncs for a while."""
    node.slow_until = world.now + 5 * SECOND
    return True


def freeze_disk(world: World, node: Node) -> bool:
    """Freeze a node's next sync for seconds; in half of the cases end the node meanwhile."""
    node.frozen_until = world.now + world.chance.choice([2, 6, 15]) * SECOND
    life = node.life

    def end() -> None:
        if node.is_up and node.life == life:
            node.frozen_until = 0
            node.crash()
            world.after(500 * MS, lambda: _restart(node))

    if world.chance.random() < 0.5:
        world.after(node.frozen_until - world.now - 1, end)
    return True


def partition(world: World, node: Node) -> bool:
    """Cut the nodes into two groups."""
    del node
    side = set(world.chance.sample(world.nodes, world.chance.randrange(1, len(world.nodes))))
    world.cuts = {
        (a.id, b.id) for a, b in product(world.nodes, repeat=2) if (a in side) != (b in side)
    }
    return True


def isolate(world: World, node: Node) -> bool:
    """Cut one node off from all others, perhaps from the coordinator too."""
    others = [each for each in world.nodes if each is not node]
    world.cuts = {pair for o in others for pair in ((node.id, o.id), (o.id, node.id))}
    if world.chance.random() < 0.5:
        world.cut_off = {node.id}
    return True


def isolate_primary(world: World, node: Node) -> bool:
    """Part the primary from everyone until others may take over; then from the coordinator only.

    So it meets those who are about to replace it, and does not know.
    """
    del node
    current = world.coordination.current
    if current is None:
        return False
    primary = world.by_id[current.primary]
    isolate(world, primary)
    world.cut_off = {primary.id}
    ends_ms = world.chance.choice([2_500, 3_200, 3_600, 4_500])
    world.after(ends_ms * MS, world.cuts.clear)
    world.after((ends_ms + 3_000) * MS, lambda: world.cut_off.discard(primary.id))
    return True


def cut_one_way(world: World, node: Node) -> bool:
    """Drop the messages of a node to most others."""
    world.cuts |= {
        (node.id, other.id)
        for other in world.nodes
        if other is not node and world.chance.random() < 0.7
    }
    return True


def cut_off(world: World, node: Node) -> bool:
    """Cut some nodes off from the coordinator."""
    del node
    world.cut_off = {each.id for each in world.nodes if world.chance.random() < 0.4}
    return True


def stop_coordinator(world: World, node: Node) -> bool:
    """Stop the coordinator for a while; then sessions have their full time again."""
    del node
    if world.is_coordinator_down:
        return False
    world.is_coordinator_down = True

    def start() -> None:
        world.is_coordinator_down = False
        world.coordination.extend_all(Instant(world.now))

    world.after(world.chance.choice([800, 4_000, 12_000]) * MS, start)
    return True


def refuse(world: World, node: Node) -> bool:
    """Have the coordinator only renew sessions for a while, as without quota."""
    del node
    world.refuses_until = world.now + world.chance.choice([800, 4_000, 12_000]) * MS
    return True


def storm(world: World, node: Node) -> bool:
    """Duplicate every message many times, in any order."""
    del node
    world.storm_until = world.now + SECOND
    return True


def mend_network(world: World, node: Node) -> bool:
    """End all cuts."""
    del node
    world.cuts.clear()
    world.cut_off.clear()
    return True


def move_targets(world: World, node: Node) -> bool:
    """Change the target nodes, as when nodes join, leave or are drained."""
    del node
    chosen = world.chance.sample(world.nodes, world.plan.replicas)
    world.targets = tuple(each.id for each in chosen)
    return True


def revoke_session(world: World, node: Node) -> bool:
    """End one session, or all, before their time, as etcd did (its issue 15247)."""
    if world.chance.random() < 0.5:
        world.coordination.revoke_all()
    else:
        world.coordination.end_session(node.id, node.liveness.session)
    world.excused_until = world.now + TIMING.session
    return True


def forge(world: World, node: Node) -> bool:
    """Have a member send messages without the right to, or with false content (R41)."""
    current = world.coordination.current
    if current is None or current.primary == node.id:
        return False
    far = world.chance.choice([0, 1, 2, 1 << 40])
    world.forged_at[node.id, Epoch(current.epoch + far)] = world.now
    for other in world.nodes:
        if other is not node and other.is_up:
            message = world.chance.choice(forged(current, far, _party(node), _party(other)))
            world.carry(node.id, other, message)
    return True


def replay(world: World, node: Node) -> bool:
    """Have a member replay old messages: its own, and others' under its own name."""
    if len(world.sent) < REPLAYED:
        return False
    for sender, receiver, message in world.chance.sample(list(world.sent), REPLAYED):
        other = receiver if sender == node.id else world.chance.choice(world.nodes).id
        if other != node.id:
            world.carry(node.id, world.by_id[other], message)
    return True


def _party(node: Node) -> Party:
    return Party(
        node_id=node.id,
        session=node.liveness.session,
        copy=node.replica.copy,
        now=node.clock(),
        born_at=node.liveness.born_at,
    )


FAULTS: dict[str, Callable[[World, Node], bool]] = {
    "crash": crash,
    "seen death": see_death,
    "wipe": wipe,
    "pause": pause,
    "slow disk": slow_disk,
    "partition": partition,
    "isolation": isolate,
    "primary isolated": isolate_primary,
    "one-way cut": cut_one_way,
    "cut from the coordinator": cut_off,
    "coordinator stopped": stop_coordinator,
    "message storm": storm,
    "network mended": mend_network,
    "targets moved": move_targets,
    "forged message": forge,
}
RARE: dict[str, Callable[[World, Node], bool]] = {"session revoked": revoke_session}


def restore_coordinator(world: World, node: Node) -> bool:
    """Set the coordinator back, or empty it; an operator recovers it while all nodes run."""
    del node
    history = world.coordination.history
    if world.is_lost or not history:
        return False
    world.is_lost, world.is_noticeable = True, False
    back = world.chance.choice([1, 1, 2, 4, 16])
    is_emptied = world.chance.random() < 0.2
    world.coordination.restore(None if is_emptied else history[-1 - min(back, len(history) - 1)])
    world.after(world.chance.choice([1, 5, 12]) * SECOND, lambda: recover(world))
    return True


APART: dict[str, Callable[[World, Node], bool]] = {
    "frozen disk": freeze_disk,
    "coordinator refuses": refuse,
    "replayed messages": replay,
    "coordinator restored": restore_coordinator,
}
"""Drawn apart from the others (`chance_apart`)."""
ALL = FAULTS | RARE | APART
REPLAYED = 50


def meet_fault(world: World) -> None:
    """Do one of the plan's faults, and schedule the next, until the world heals."""
    if world.is_healing:
        return
    kind = world.chance.choice(world.plan.faults)
    node = world.chance.choice(world.nodes)
    see_missing_nodes(world)
    if ALL[kind](world, node):
        world.count(kind)
        world.note(kind, node.id)
    world.after(world.chance.choice(world.plan.pauses_ms) * MS, lambda: meet_fault(world))


def heal(world: World) -> None:
    """End all faults."""
    world.is_healing = True
    world.cuts.clear()
    world.cut_off.clear()
    world.storm_until = 0
    world.is_coordinator_down = False
    world.refuses_until = 0
    for node in world.nodes:
        if node.is_up and world.now < node.frozen_until:
            node.crash()  # A sync that hangs would outlast the faults; who mends ends the process.
        node.slow_until = node.frozen_until = 0
        if not node.is_up:
            node.start()
        elif node.is_paused:
            node.resume()


def _restart(node: Node) -> None:
    if not node.is_up:
        node.start()
