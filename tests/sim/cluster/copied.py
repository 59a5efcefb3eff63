"""A copy of a data directory: a second process that claims a session as the same node."""

import asyncio

from rota.core.timing.instants import SECOND
from rota.core.vocabulary.shard_configuration import NO_SESSION
from rota.node.coordination.coordinator import Claim
from rota.node.coordination.coordinator_errors import (
    CoordinatorUnavailable,
    OutcomeUnknown,
    SessionTaken,
)
from rota.node.coordination.testing.simulated_coordinator import SimulatedCoordinator
from sim.cluster.chance import SeededEntropy
from sim.cluster.checks import Violation
from sim.cluster.machine import Machine
from sim.cluster.world import World

TRIES = 12
PAUSE_S = 0.5


def start_copy(world: World, machine: Machine) -> bool:
    """Have a process with a copy of a node's data request a session, for some seconds.

    The process has another lock than the node. While the node is off, it gets a session and ends
    it, as if an operator ended the process: a copy that continues is a disk that was set back.
    """
    if machine.life is None:
        return False
    world.group.create_task(_ask_again_and_again(world, machine), context=world.loop.context)
    return True


async def _ask_again_and_again(world: World, machine: Machine) -> None:
    entropy = SeededEntropy(world.chance.getrandbits(64))
    coordinator = SimulatedCoordinator(world.server, machine.id, link=world.links, entropy=entropy)
    claim = Claim(node_id=machine.id, store_id=machine.store_id, lock=f"{machine.id}/copy")
    for _ in range(TRIES):
        try:
            grant = await coordinator.begin_session(claim, world.plan.timing.session / SECOND)
            _see_taken(world, machine)
            await coordinator.end_session(grant.session)
        except (SessionTaken, CoordinatorUnavailable, OutcomeUnknown):
            pass
        await asyncio.sleep(PAUSE_S)


def _see_taken(world: World, machine: Machine) -> None:
    """Check that the node has no valid session, now that the copy has one."""
    wiring = machine.wiring
    if wiring is None or world.now() <= world.excused_until:
        return
    membership, session_s = wiring.context.membership, world.plan.timing.session / SECOND
    if membership.session != NO_SESSION and membership.session_age_s < session_s / 2:
        raise Violation(f"R4: a copy of the data of {machine.id} took the session of the node")
