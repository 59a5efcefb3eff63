"""Operations on a cluster under load and faults; each returns True if it began.

Nodes join, are drained and undrained, leave for good, and are restarted one after the other.
"""

from collections import deque
from functools import partial

import msgspec

from rota.core.timing.instants import MILLISECOND, SECOND
from rota.node.coordination.coordinator import Member
from sim.cluster.checks import unwell
from sim.cluster.machine import Machine
from sim.cluster.plan import COPIES
from sim.cluster.world import World

JOINS_MAX = 2
"""More nodes would only make a world slow."""
LOOKS_EVERY = 500 * MILLISECOND
PATIENCE = 10 * SECOND
"""Limit of the wait for a whole cluster before the next node is restarted in any case."""


def join(world: World, machine: Machine) -> bool:
    """Start a new node; the ring then assigns copies to it."""
    del machine
    if len(world.machines) >= world.plan.node_count + JOINS_MAX:
        return False
    world.add_machine().start()
    return True


def drain(world: World, machine: Machine) -> bool:
    """Have a node give up all its copies, and take them again."""
    member = _begin_to_drain(world, machine)
    if member is None:
        return False

    def take_back() -> None:
        if not machine.is_leaving:
            world.server.change(lambda state: state.register(member))

    world.after(10 * SECOND, take_back)
    return True


def leave(world: World, machine: Machine) -> bool:
    """Have a node give up all its copies; then stop and forget it."""
    staying = [each for each in world.machines.values() if not each.is_leaving]
    # Tasks that need the labels of the last such node would wait for ever (seed 910156).
    is_last = [each.labels for each in staying].count(machine.labels) == 1
    if machine.is_leaving or is_last or _begin_to_drain(world, machine) is None:
        return False
    machine.is_leaving = True

    def look() -> None:
        holds = any(machine.id in each.members for each in world.configurations.values())
        holds = holds or world.is_lost
        if machine.life is not None and not machine.is_paused and not holds:
            machine.leave()
        if machine.has_left and machine.life is None:
            world.counts["nodes left"] += 1
            world.server.change(lambda state: state.forget(machine.id))
        else:
            world.after(LOOKS_EVERY, look)

    world.after(LOOKS_EVERY, look)
    return True


def _begin_to_drain(world: World, machine: Machine) -> Member | None:
    """Start a drain; return the node's member record, or None if the node cannot be spared."""
    members = world.server.state.view().members
    member = members.get(machine.id)
    active = [each for each in members.values() if each.state == "active"]
    if member is None or member not in active or len(active) <= COPIES.wanted:
        return None
    draining = msgspec.structs.replace(member, state="draining")
    world.server.change(lambda state: state.register(draining))
    return member


def stop(world: World, machine: Machine) -> bool:
    """Stop a node gracefully, as for an upgrade, and start it again."""
    del world
    if machine.life is None or machine.is_paused:
        return False
    machine.stop()
    return True


def restart_all(world: World, machine: Machine) -> bool:
    """Restart all nodes, each when the cluster is whole again or after `PATIENCE`."""
    del machine
    if world.is_rolling:
        return False
    world.is_rolling = True
    waiting = deque(world.machines.values())
    _restart_next(world, waiting, since=world.now())
    return True


def _restart_next(world: World, waiting: deque[Machine], since: int) -> None:
    if not waiting or world.is_healing:
        world.is_rolling = False
        return
    if unwell(world) and world.now() - since < PATIENCE:
        world.after(LOOKS_EVERY, partial(_restart_next, world, waiting, since=since))
        return
    stop(world, waiting.popleft())
    world.after(LOOKS_EVERY, partial(_restart_next, world, waiting, since=world.now()))
