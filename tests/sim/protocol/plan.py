"""What a simulated cluster is like: its size, its timing, and which faults it meets."""

from dataclasses import dataclass
from random import Random

from rota.core.instants import MILLISECOND, SECOND, Duration
from rota.core.replication.timing import Timing

MS = MILLISECOND
TIMING = Timing(
    session=Duration(3 * SECOND),
    peer_lease=Duration(2 * SECOND),
    beat=Duration(150 * MS),
    silence=Duration(1_200 * MS),
)

PACES = [(20, 150, 600), (150, 600, 1_500), (150, 600, 4_000), (600, 4_000, 7_000)]
"""From hectic to so slow that sessions end and others take over before anything else happens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a world is like, drawn from its seed.

    Attributes:
        loss_percent: Of messages, and of the coordinator's answers.
        faults: The kinds of faults that happen; one named twice happens twice as often.
        pauses_ms: One of them passes between two faults.
        has_slow_swaps: Whether a swap, and its answer, may take seconds.
        has_slow_disks: Whether a sync may take seconds.
        is_lazy: Whether nodes take several events before they do what follows from them.
        kept: How many applied entries stay in the journal.
    """

    node_count: int
    replicas: int
    loss_percent: int
    faults: tuple[str, ...]
    pauses_ms: tuple[int, ...]
    has_slow_swaps: bool
    has_slow_disks: bool
    is_lazy: bool
    kept: int


def draw_plan(chance: Random, kinds: tuple[str, ...], rare: tuple[str, ...]) -> Plan:
    """Draw a plan.

    Args:
        chance: Of the seed.
        kinds: Faults of which each world has only some, so that each can be alone.
        rare: Faults that only few worlds have, because they excuse something.
    """
    faults = [kind for kind in kinds if chance.random() < 0.7] or ["crash"]
    faults += [kind for kind in rare if chance.random() < 0.15]
    return Plan(
        node_count=chance.choice([3, 4, 5, 5, 7]),
        replicas=chance.choice([1, 2, 2, 3, 3, 3, 3]),
        loss_percent=chance.choice([0, 2, 10, 25]),
        faults=(*faults, "network mended", "network mended"),
        pauses_ms=chance.choice(PACES),
        has_slow_swaps=chance.random() < 0.4,
        has_slow_disks=chance.random() < 0.3,
        is_lazy=chance.random() < 0.5,
        kept=chance.choice([0, 3, 12]),
    )
