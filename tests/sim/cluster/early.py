"""Check that no attempt starts early on a node that can detect its wrong wall clock (R20).

A node can detect that when, for a while, it has links to a majority of nodes whose wall clocks are
behind its own. After that it may only start attempts that were decided before.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from rota.core.model.ids import NodeId, instant_of
from rota.core.timing.instants import SECOND
from sim.cluster.chance import BEGINNING
from sim.cluster.checks import Violation
from sim.cluster.machine import Life, Machine
from sim.cluster.world import World

DETECTED_AFTER = 6 * SECOND
"""By then the node has the others' clocks, and its earlier decisions are durable or lost."""
SURELY = SECOND
"""Right wall clocks differ by less, and those that were set wrong by more."""


@dataclass(frozen=True, slots=True)
class _Wrong:
    """A node whose wall clock is detectably ahead.

    Attributes:
        since: Microseconds since the world began.
    """

    life: Life
    since: int


class Early:
    """Checks starts of attempts against wall clocks; `see` is called periodically.

    Args:
        world: The simulated cluster.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._wrong: dict[NodeId, _Wrong] = {}
        self._seen = 0

    def see(self) -> None:
        """Check the attempts that began since the last call.

        Raises:
            Violation: One began too early.
        """
        world = self._world
        sightings = world.observer.sightings[self._seen :]
        self._seen += len(sightings)
        for sighting in sightings:
            wrong = self._wrong.get(sighting.node_id)
            early = instant_of(sighting.key.execution_id) - (BEGINNING + sighting.began)
            is_first = sighting.key.number == 1
            if wrong and is_first and early > SURELY and world.now() - wrong.since > DETECTED_AFTER:
                raise Violation(f"R20: {sighting} began {early / SECOND:.1f} s early")
        self._wrong = dict(self._look_at_wall_clocks())

    def _look_at_wall_clocks(self) -> Iterator[tuple[NodeId, _Wrong]]:
        for machine in self._world.machines.values():
            life = machine.life
            if life is not None and self._can_detect(machine):
                before = self._wrong.get(machine.id)
                is_same = before is not None and before.life is life
                yield machine.id, before if before and is_same else _Wrong(life, self._world.now())

    def _can_detect(self, machine: Machine) -> bool:
        others = [other for other in self._world.machines.values() if other is not machine]
        behind = sum(self._shows(other, machine) for other in others)
        return 2 * behind > len(others) + 1

    def _shows(self, other: Machine, machine: Machine) -> bool:
        """Return True if *other* is behind *machine* and the two exchange messages."""
        links = self._world.links
        if machine.clock.wall_clock_error - other.clock.wall_clock_error <= SURELY:
            return False
        if other.life is None or other.is_paused or machine.is_paused:
            return False
        pair = {machine.id, other.id}
        if any(pair == set(cut) for cut in links.cuts) or any(map(links.is_alone, pair)):
            return False
        # Wall clocks are exchanged with beats and their answers alone.
        return any(
            configuration.primary in pair and pair <= set(configuration.members)
            for configuration in self._world.configurations.values()
        )
