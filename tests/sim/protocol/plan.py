"""Parameters of a simulated cluster: its size, its timing and its faults."""

from dataclasses import dataclass
from random import Random

from rota.core.replication.timeouts import DRIFT_PERCENT, Timing
from rota.core.timing.instants import MILLISECOND, SECOND, Duration
from sim.apart import chance_apart
from sim.sizes import Sizes, draw_sizes

MS = MILLISECOND
TIMING = Timing(
    session=Duration(3 * SECOND),
    peer_lease=Duration(2 * SECOND),
    beat=Duration(150 * MS),
    silence=Duration(1_200 * MS),
)

PACES = [(20, 150, 600), (150, 600, 1_500), (150, 600, 4_000), (600, 4_000, 7_000)]
"""From hectic to so slow that sessions end and others take over before anything else happens."""

DRIFT_MAX = DRIFT_PERCENT / 100
"""The greatest drift without harm, by the documentation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Parameters of a world, drawn from its seed.

    Attributes:
        loss_percent: Of messages, and of the coordinator's answers.
        faults: The kinds of faults that happen; one named twice happens twice as often.
        pauses_ms: Possible times between two faults.
        has_slow_swaps: Whether a swap, and its answer, may take seconds.
        has_slow_disks: Whether a sync may take seconds.
        is_lazy: Whether nodes take several events before they act on them.
        kept: Number of applied entries that stay in the journal.
        drift: How much faster or slower a node's clock may run than true time, as a share of it.
        drifts_fully: Whether each clock has the greatest drift, some fast and the others slow.
        sizes: Of the window of entries under way, and of the entries in memory.
        is_often_quiet: Whether clients pause for seconds, so that the shard is quiet (R44).
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
    drift: float
    drifts_fully: bool
    sizes: Sizes
    is_often_quiet: bool


def draw_plan(
    chance: Random, kinds: tuple[str, ...], rare: tuple[str, ...], apart: tuple[str, ...]
) -> Plan:
    """Draw a plan.

    Args:
        chance: Random numbers of the seed.
        kinds: Faults of which each world has only some, so that each can occur alone.
        rare: Faults that only few worlds have, because they suspend some checks.
        apart: Faults that few worlds have; they do not change what else is drawn.
    """
    own = chance_apart(chance)
    faults = [kind for kind in kinds if chance.random() < 0.7] or ["crash"]
    faults += [kind for kind in rare if chance.random() < 0.15]
    faults += [kind for kind in apart if own.random() < 0.15]
    node_count, replicas = chance.choice([3, 4, 5, 5, 7]), chance.choice([1, 2, 2, 3, 3, 3, 3])
    if replicas == 1:
        # A coordinator set back names an earlier node for the only copy, and none contradicts it
        # if the node of the newer copy is away: what guarantees.md excludes.
        faults = [each for each in faults if each != "coordinator restored"]
    return Plan(
        node_count=node_count,
        replicas=replicas,
        loss_percent=chance.choice([0, 2, 10, 25]),
        faults=(*faults, "network mended", "network mended"),
        pauses_ms=chance.choice(PACES),
        has_slow_swaps=chance.random() < 0.4,
        has_slow_disks=chance.random() < 0.3,
        is_lazy=chance.random() < 0.5,
        kept=chance.choice([0, 3, 12]),
        drift=own.choice([DRIFT_MAX / 2, DRIFT_MAX]),
        drifts_fully=own.random() < 0.3,
        sizes=draw_sizes(own),
        is_often_quiet=own.random() < 0.5,
    )
