"""All faults of a world, by name, and their end."""

from collections.abc import Callable

from rota.core.timing.instants import MILLISECOND
from sim.cluster import copied, link_faults, lost_state, machine_faults, member_faults, operations
from sim.cluster.machine import Machine
from sim.cluster.world import World

Fault = Callable[[World, Machine], bool]
"""A fault of a world or of one of its machines; returns True if it happened."""

FAULTS: dict[str, Fault] = {
    "crash": machine_faults.crash,
    "power cut": machine_faults.cut_power,
    "kill": machine_faults.kill,
    "seen death": machine_faults.see_death,
    "pause": machine_faults.pause,
    "wall clock set": machine_faults.set_wall_clock,
    "disk lost": machine_faults.wipe,
    "damaged disk": machine_faults.damage_disk,
    "slow disk": machine_faults.slow_disk,
    "failing disk": machine_faults.fail_disk,
    "full disk": machine_faults.fill_disk,
    "partition": link_faults.partition,
    "isolation": link_faults.isolate,
    "left alone": link_faults.leave_alone,
    "one-way cut": link_faults.cut_one_way,
    "message storm": link_faults.storm,
    "cut from the coordinator": link_faults.cut_off,
    "watch silent": link_faults.silence_watch,
    "steps forgotten": link_faults.forget_steps,
    "coordinator stopped": link_faults.stop_coordinator,
    "stop": operations.stop,
    "rolling restart": operations.restart_all,
    "join": operations.join,
    "drain": operations.drain,
    "leave": operations.leave,
}
RARE: dict[str, Fault] = {"session revoked": link_faults.revoke_sessions}
APART: dict[str, Fault] = {
    "frozen disk": machine_faults.freeze_disk,
    "coordinator refuses": link_faults.refuse,
    "forged messages": member_faults.forge,
    "replayed messages": member_faults.replay,
    "copied data": copied.start_copy,
    "coordinator restored": lost_state.restore_coordinator,
}
"""Drawn apart from the others (`chance_apart`)."""
ASKED_FOR: dict[str, Fault] = {lost_state.REVISION_SET_BACK: lost_state.set_revision_back}
"""Only in worlds of which they are the focus (`sim.cluster.plan.ASKED_FOR`)."""
MENDING = "network mended"


def meet_fault(world: World) -> None:
    """Do one of the plan's faults, and schedule the next, until the world heals."""
    if world.is_healing:
        return
    kinds = FAULTS | RARE | APART | ASKED_FOR | {MENDING: link_faults.mend_network}
    kind = world.chance.choice([*world.plan.faults, MENDING, MENDING])
    machine = world.chance.choice(list(world.machines.values()))
    if kinds[kind](world, machine):
        world.counts[kind] += 1
        world.note(kind, machine.id)
    world.after(world.chance.choice(world.plan.pauses_ms) * MILLISECOND, lambda: meet_fault(world))


def heal(world: World) -> None:
    """End all faults."""
    world.is_healing = True
    world.links.make_perfect()
    if not world.server.is_up:
        world.server.restart()
    for machine in world.machines.values():
        machine.slow_sync = None
        if machine.life is not None and machine.is_frozen:
            machine.crash()  # A sync that hangs would outlast the faults.
        machine.frozen_until = 0
        machine.make_room()
        machine.clock.wall_clock_error = 0
        if machine.is_paused:
            machine.resume()
        machine.start()
