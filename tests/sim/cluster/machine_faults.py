"""Faults of a machine: of its power, its node's process, its disk and its wall clock.

Each fault returns True if it happened.
"""

from functools import partial

from rota.core.timing.instants import MILLISECOND, SECOND
from rota.storage.store import StoreFailed
from sim.cluster.machine import Machine
from sim.cluster.world import World

MS = MILLISECOND

SLOW_SYNCS_MS = ((0, 2_000), (300, 600))
"""Ranges of the duration of a slow disk's syncs."""


def crash(world: World, machine: Machine) -> bool:
    """Cut the power of a machine; it starts again soon, perhaps before any node noticed."""
    if machine.life is None:
        return False
    machine.crash()
    world.after(world.chance.choice([100, 800, 3_000, 8_000]) * MS, machine.start)
    return True


def cut_power(world: World, machine: Machine) -> bool:
    """Cut the power of all machines at once; they start again one after the other."""
    del machine
    crashed = [crash(world, each) for each in world.machines.values()]
    return any(crashed)


def kill(world: World, machine: Machine) -> bool:
    """End a node's process; its attempts run until it starts again."""
    if machine.life is None:
        return False
    machine.kill()
    world.after(world.chance.choice([100, 800, 5_000]) * MS, machine.start)
    return True


def see_death(world: World, machine: Machine) -> bool:
    """Likewise, and its warden ends the session and sends the proof of death (note 2)."""
    life = machine.life
    if life is None or not kill(world, machine):
        return False
    session, left = life.session, world.observer.left_on(machine.id)
    arrives_s = world.links.fate(machine.id, "end_session").arrives_s
    if arrives_s is not None:
        world.after(
            round(arrives_s * SECOND),
            lambda: world.server.change(lambda state: state.end(session)),
        )
    for other in world.machines.values():
        if other is not machine:
            receive = partial(other.receive_death, machine.id, session, left)
            world.links.carry(machine.id, other.id, receive)
    return True


def pause(world: World, machine: Machine) -> bool:
    """Pause a node for a while; its clocks run on, and it does not notice."""
    if machine.life is None or machine.is_paused:
        return False
    life = machine.life
    machine.pause()

    def resume() -> None:
        if machine.life is life and machine.is_paused:
            machine.resume()

    world.after(world.chance.choice([200, 1_000, 2_500, 4_500]) * MS, resume)
    return True


def set_wall_clock(world: World, machine: Machine) -> bool:
    """Set the wall clock of a machine ahead or back."""
    machine.clock.wall_clock_error = world.chance.choice([-5_000, -300, 0, 0, 300, 5_000]) * MS
    return True


# -- disks -----------------------------------------------------------------------------------------


def wipe(world: World, machine: Machine) -> bool:
    """Cut the power and lose the disk, while every other copy that counts is whole."""
    if machine.life is None or not _may_lose(world, machine):
        return False
    machine.crash()
    machine.replace_disk()
    world.after(500 * MS, machine.start)
    return True


def damage_disk(world: World, machine: Machine) -> bool:
    """Cut the power, and damage the disk before the machine starts again.

    Its node has to detect that; then the machine gets another disk, so its data must not be needed.
    """
    if machine.life is None or not _may_lose(world, machine):
        return False
    machine.crash()
    is_damaged = machine.damage_disk()
    world.after(500 * MS, machine.start)
    return is_damaged


def slow_disk(world: World, machine: Machine) -> bool:
    """Slow down a machine's syncs for a while."""
    low, high = world.chance.choice(SLOW_SYNCS_MS)
    machine.slow_sync = low * MS, high * MS

    def mend() -> None:
        machine.slow_sync = None

    world.after(world.chance.choice([5, 15]) * SECOND, mend)
    return True


def freeze_disk(world: World, machine: Machine) -> bool:
    """Let no sync return for seconds; in half of the cases none ever does, and the node is ended.

    Meanwhile the node's loop runs on, and the node may stop, be paused or lose its power.
    """
    life = machine.life
    if life is None or machine.is_frozen:
        return False
    lasts = world.chance.choice([2, 6, 15]) * SECOND
    machine.frozen_until = world.now() + lasts

    def end() -> None:
        if machine.life is life:
            machine.crash()
            machine.frozen_until = 0
            world.after(500 * MS, machine.start)

    if world.chance.random() < 0.5:
        world.after(lasts - 1, end)
    return True


def fail_disk(world: World, machine: Machine) -> bool:
    """Let the next sync or the next write fail, which ends the node (R25)."""
    if machine.life is None or machine.is_to_fail:
        return False
    machine.is_to_fail = True
    error = StoreFailed("a fault of the simulation")
    if world.chance.random() < 0.5:
        machine.store.fail_next_write(error)
    else:
        machine.store.fail_next_sync(error)
    return True


def fill_disk(world: World, machine: Machine) -> bool:
    """Fill a disk nearly, so that the node refuses requests; then perhaps full.

    A node ends with the first write that fails, and so do its next lives, until there is room.
    """
    if machine.life is None or machine.is_nearly_full:
        return False
    machine.is_nearly_full = True
    if world.chance.random() < 0.7:
        world.after(world.chance.choice([0, 1_000]) * MS, machine.fill_disk)
    world.after(world.chance.choice([2_000, 6_000]) * MS, machine.make_room)
    return True


def _may_lose(world: World, machine: Machine) -> bool:
    """Return True if all copies of a machine are elsewhere too, and no change is pending."""
    configurations = world.configurations
    if world.is_lost:
        return False  # The counted copies are not those that the coordinator has.
    if len(configurations) < world.plan.shard_count:
        return False  # The first copy of a shard may be on it, and its configuration on its way.
    for number, configuration in configurations.items():
        if len(configuration.sync) < 2:
            return False
        for copy in configuration.sync:
            wiring = world.machines[copy.node_id].wiring
            if wiring is None:
                return False
            replica = wiring.context.shards[number].replica
            if replica.copy.allocation != copy.allocation:
                return False
            if replica.primary is not None and replica.primary.changes:
                return False
    return True
