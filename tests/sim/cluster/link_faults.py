"""Faults of links and of the coordinator; each returns True if it happened."""

from itertools import product

from rota.core.timing.instants import MILLISECOND, SECOND
from sim.cluster.machine import Machine
from sim.cluster.world import World

MS = MILLISECOND


def partition(world: World, machine: Machine) -> bool:
    """Cut the machines into two groups."""
    del machine
    ids = list(world.machines)
    side = set(world.chance.sample(ids, world.chance.randrange(1, len(ids))))
    world.links.cuts = {(a, b) for a, b in product(ids, repeat=2) if (a in side) != (b in side)}
    return True


def isolate(world: World, machine: Machine) -> bool:
    """Cut one machine off from all others."""
    others = [each for each in world.machines if each != machine.id]
    world.links.cuts = {pair for o in others for pair in ((machine.id, o), (o, machine.id))}
    return True


def leave_alone(world: World, machine: Machine) -> bool:
    """Isolate one machine from nodes and coordinator, for longer than its attempts' leases."""
    world.links.alone_until[machine.id] = world.now() + world.chance.choice([4, 20, 30]) * SECOND
    return True


def cut_one_way(world: World, machine: Machine) -> bool:
    """Drop the messages of a machine to most others."""
    world.links.cuts |= {
        (machine.id, other)
        for other in world.machines
        if other != machine.id and world.chance.random() < 0.7
    }
    return True


def storm(world: World, machine: Machine) -> bool:
    """Duplicate every message many times, in any order."""
    del machine
    world.links.storm_until = world.now() + SECOND
    return True


def mend_network(world: World, machine: Machine) -> bool:
    """End all cuts."""
    del machine
    world.links.mend()
    return True


# -- the coordinator -------------------------------------------------------------------------------


def cut_off(world: World, machine: Machine) -> bool:
    """Cut a machine off from the coordinator."""
    world.links.cut_off.add(machine.id)
    return True


def silence_watch(world: World, machine: Machine) -> bool:
    """Have a machine's watch hang: the coordinator answers requests, but sends no changes."""
    world.links.unwatched.add(machine.id)
    return True


def forget_steps(world: World, machine: Machine) -> bool:
    """Compact the coordinator's history, so that watches miss changes."""
    del machine
    world.server.change(lambda state: state.compact())
    return True


def stop_coordinator(world: World, machine: Machine) -> bool:
    """Stop the coordinator for a while; then sessions have their full time again."""
    del machine
    if not world.server.is_up:
        return False
    world.server.crash()
    world.after(world.chance.choice([800, 4_000, 12_000]) * MS, world.server.restart)
    return True


def refuse(world: World, machine: Machine) -> bool:
    """Have the coordinator refuse changes that take space, for a while, as without quota."""
    del machine
    lasts = world.chance.choice([800, 4_000, 12_000]) * MS
    world.links.refuses_until = world.now() + lasts
    return True


def revoke_sessions(world: World, machine: Machine) -> bool:
    """End one session, or all, before their time, as etcd did (its issue 15247)."""
    life = world.server.state.view().lives.get(machine.id)
    if world.chance.random() < 0.5:
        world.server.change(lambda state: state.revoke_all())
    elif life is not None:
        world.server.change(lambda state: state.end(life.session))
    world.excused_until = world.now() + world.plan.timing.session
    return True
