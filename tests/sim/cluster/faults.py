"""What goes wrong in a world: each fault by its name, which tells whether it happened."""

from collections.abc import Callable
from itertools import product

import msgspec

from rota.core.instants import MILLISECOND, SECOND
from rota.storage.store import StoreFailed
from sim.cluster.machine import Machine
from sim.cluster.world import World

MS = MILLISECOND


def crash(world: World, machine: Machine) -> bool:
    """Take the power from a machine; it comes back soon, perhaps before anyone noticed."""
    if machine.life is None:
        return False
    machine.crash()
    world.after(world.chance.choice([100, 800, 3_000, 8_000]) * MS, machine.start)
    return True


def kill(world: World, machine: Machine) -> bool:
    """End a node's process; its attempts live until it starts again."""
    if machine.life is None:
        return False
    machine.kill()
    world.after(world.chance.choice([100, 800, 5_000]) * MS, machine.start)
    return True


def wipe(world: World, machine: Machine) -> bool:
    """Take the power and the disk, while every other copy that counts is whole."""
    if machine.life is None or not _may_lose(world, machine):
        return False
    machine.crash(loses_disk=True)
    world.after(500 * MS, machine.start)
    return True


def _may_lose(world: World, machine: Machine) -> bool:
    """Tell whether all copies of a machine are somewhere else too, and nobody is changing that."""
    configurations = world.configurations
    if len(configurations) < world.plan.shard_count:
        return False  # The first copy of a shard may be on it, and its configuration on its way.
    for number, configuration in configurations.items():
        if len(configuration.sync) < 2:
            return False
        for copy in configuration.sync:
            works = world.machines[copy.node_id].works
            if works is None:
                return False
            replica = works.parts.shards[number].replica
            if replica.copy.allocation != copy.allocation:
                return False
            if replica.primary is not None and replica.primary.changes:
                return False
    return True


def stop(world: World, machine: Machine) -> bool:
    """Have a node stop in order, as for an upgrade, and start again."""
    del world
    if machine.life is None or machine.is_paused:
        return False
    machine.stop()
    return True


def pause(world: World, machine: Machine) -> bool:
    """Stop a node for a while; its clocks go on, and it does not notice."""
    if machine.life is None or machine.is_paused:
        return False
    life = machine.life
    machine.pause()

    def resume() -> None:
        if machine.life is life and machine.is_paused:
            machine.resume()

    world.after(world.chance.choice([200, 1_000, 2_500, 4_500]) * MS, resume)
    return True


def slow_disk(world: World, machine: Machine) -> bool:
    """Have syncs take up to two seconds, for a while."""
    machine.is_slow = True

    def mend() -> None:
        machine.is_slow = False

    world.after(5 * SECOND, mend)
    return True


def fail_disk(world: World, machine: Machine) -> bool:
    """Have the next sync fail, which ends the node (R25)."""
    del world
    if machine.life is None or machine.is_to_fail:
        return False
    machine.is_to_fail = True
    machine.store.fail_next_sync(StoreFailed("the simulation said so"))
    return True


def partition(world: World, machine: Machine) -> bool:
    """Part the machines in two."""
    del machine
    ids = list(world.machines)
    side = set(world.chance.sample(ids, world.chance.randrange(1, len(ids))))
    world.links.cuts = {(a, b) for a, b in product(ids, repeat=2) if (a in side) != (b in side)}
    return True


def isolate(world: World, machine: Machine) -> bool:
    """Part one machine from all others."""
    others = [each for each in world.machines if each != machine.id]
    world.links.cuts = {pair for o in others for pair in ((machine.id, o), (o, machine.id))}
    return True


def leave_alone(world: World, machine: Machine) -> bool:
    """Part one machine from everyone and everything, for longer than its attempts may live."""
    world.links.alone_until[machine.id] = world.now() + world.chance.choice([4, 12, 30]) * SECOND
    return True


def cut_one_way(world: World, machine: Machine) -> bool:
    """Have what a machine sends not arrive at most others."""
    world.links.cuts |= {
        (machine.id, other)
        for other in world.machines
        if other != machine.id and world.chance.random() < 0.7
    }
    return True


def cut_off(world: World, machine: Machine) -> bool:
    """Part a machine from the coordinator."""
    world.links.cut_off.add(machine.id)
    return True


def stop_coordinator(world: World, machine: Machine) -> bool:
    """Have no coordinator for a while; then sessions have their full time again."""
    del machine
    if not world.server.is_up:
        return False
    world.server.crash()
    world.after(world.chance.choice([800, 4_000, 12_000]) * MS, world.server.restart)
    return True


def forget_steps(world: World, machine: Machine) -> bool:
    """Have the coordinator forget what it would have told to watches."""
    del machine
    world.server.change(lambda state: state.compact())
    return True


def storm(world: World, machine: Machine) -> bool:
    """Have every message come many times, in any order."""
    del machine
    world.links.storm_until = world.now() + SECOND
    return True


def set_calendar(world: World, machine: Machine) -> bool:
    """Set the calendar of a machine, back or forth."""
    machine.clock.calendar_error = world.chance.choice([-5_000, -300, 0, 0, 300, 5_000]) * MS
    return True


def drain(world: World, machine: Machine) -> bool:
    """Have a node give up all that it holds, and take it again."""
    member = world.server.state.view().members.get(machine.id)
    if member is None or member.state != "active" or len(world.machines) <= 3:
        return False
    draining = msgspec.structs.replace(member, state="draining")
    world.server.change(lambda state: state.register(draining))
    world.after(10 * SECOND, lambda: world.server.change(lambda state: state.register(member)))
    return True


def mend_network(world: World, machine: Machine) -> bool:
    """End all cuts."""
    del machine
    world.links.mend()
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


Fault = Callable[[World, Machine], bool]
FAULTS: dict[str, Fault] = {
    "crash": crash,
    "kill": kill,
    "disk lost": wipe,
    "stop": stop,
    "pause": pause,
    "slow disk": slow_disk,
    "failing disk": fail_disk,
    "partition": partition,
    "isolation": isolate,
    "left alone": leave_alone,
    "one-way cut": cut_one_way,
    "cut from the coordinator": cut_off,
    "coordinator stopped": stop_coordinator,
    "steps forgotten": forget_steps,
    "message storm": storm,
    "calendar set": set_calendar,
    "drain": drain,
}
RARE: dict[str, Fault] = {"session revoked": revoke_sessions}
MENDING = "network mended"


def meet_fault(world: World) -> None:
    """Have one of the plan's faults happen, and then others, until the world heals."""
    if world.is_healing:
        return
    kinds = FAULTS | RARE | {MENDING: mend_network}
    kind = world.chance.choice([*world.plan.faults, MENDING, MENDING])
    machine = world.chance.choice(list(world.machines.values()))
    if kinds[kind](world, machine):
        world.counts[kind] += 1
        world.note(kind, machine.id)
    world.after(world.chance.choice(world.plan.pauses_ms) * MS, lambda: meet_fault(world))


def heal(world: World) -> None:
    """End all faults."""
    world.is_healing = True
    world.links.make_perfect()
    if not world.server.is_up:
        world.server.restart()
    for machine in world.machines.values():
        machine.is_slow = False
        machine.clock.calendar_error = 0
        if machine.is_paused:
            machine.resume()
        machine.start()
