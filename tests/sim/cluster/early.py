"""Nothing starts before its time on a node that could know that its calendar is wrong (R20).

It could when, for a while, it was linked to so many nodes whose calendars are behind its own that
these are most of all. Then whatever it starts it decided before that, or ought not to have.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from rota.core.model.ids import NodeId, instant_of
from rota.core.timing.instants import SECOND
from sim.cluster.chance import BEGINNING
from sim.cluster.checks import Violation
from sim.cluster.machine import Life, Machine
from sim.cluster.world import World

KNOWN_AFTER = 6 * SECOND
"""By then it has heard of the others, and what it decided before is durable or never will be."""
SURELY = SECOND
"""Calendars that are to agree differ by less, and those that were set wrong by more."""


@dataclass(frozen=True, slots=True)
class _Wrong:
    """A node whose calendar is ahead, and could be known to be.

    Attributes:
        since: Microseconds since the world began.
    """

    life: Life
    since: int


class Early:
    """Looks at the calendars and at what begins; to be asked again and again.

    Args:
        world: Where.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._wrong: dict[NodeId, _Wrong] = {}
        self._seen = 0

    def see(self) -> None:
        """Look at what began since the last time.

        Raises:
            Violation: Something began too early.
        """
        world = self._world
        sightings = world.observer.sightings[self._seen :]
        self._seen += len(sightings)
        for sighting in sightings:
            wrong = self._wrong.get(sighting.node_id)
            early = instant_of(sighting.key.execution_id) - (BEGINNING + sighting.began)
            is_first = sighting.key.number == 1
            if wrong and is_first and early > SURELY and world.now() - wrong.since > KNOWN_AFTER:
                raise Violation(f"R20: {sighting} began {early / SECOND:.1f} s early")
        self._wrong = dict(self._look_at_calendars())

    def _look_at_calendars(self) -> Iterator[tuple[NodeId, _Wrong]]:
        for machine in self._world.machines.values():
            life = machine.life
            if life is not None and self._could_know(machine):
                before = self._wrong.get(machine.id)
                is_same = before is not None and before.life is life
                yield machine.id, before if before and is_same else _Wrong(life, self._world.now())

    def _could_know(self, machine: Machine) -> bool:
        others = [other for other in self._world.machines.values() if other is not machine]
        behind = sum(self._tells(other, machine) for other in others)
        return 2 * behind > len(others) + 1

    def _tells(self, other: Machine, machine: Machine) -> bool:
        """Tell whether *other*, which is behind, and *machine* hear each other."""
        links = self._world.links
        if machine.clock.calendar_error - other.clock.calendar_error <= SURELY:
            return False
        if other.life is None or other.is_paused or machine.is_paused:
            return False
        pair = {machine.id, other.id}
        if any(pair == set(cut) for cut in links.cuts) or any(map(links.is_alone, pair)):
            return False
        # Calendars are told with beats and their answers alone.
        return any(
            configuration.primary in pair and pair <= set(configuration.members)
            for configuration in self._world.configurations.values()
        )
