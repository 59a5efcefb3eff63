"""What a simulated cluster is like: its size, its timing, its work, and which faults it meets."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from rota.core.instants import MILLISECOND, SECOND, Duration
from rota.core.replication.primary import Copies
from rota.core.replication.timing import Timing

COPIES = Copies(wanted=3, least=2)
ORDINARY = Timing()
HASTY = Timing(
    session=Duration(3 * SECOND),
    peer_lease=Duration(SECOND),
    beat=Duration(200 * MILLISECOND),
    silence=Duration(SECOND),
    attempt_lease=Duration(6 * SECOND),
    kill_grace=Duration(2 * SECOND),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a world is like, drawn from its seed.

    Attributes:
        user_count: Users; each makes jobs, and does to them what it likes.
        slots: Attempts that a node may run at the same time.
        begins_well: Whether nothing is wrong until all is well for the first time.
        loss_percent: Of messages between nodes, and between clients and nodes.
        is_far: Whether messages take tens of milliseconds, and not one or two.
        drift_ppm: How much faster or slower a node's clock may run than true time.
        has_slow_answers: Whether the coordinator may take seconds to do what it was asked, and its
            answer may get lost.
        faults: The kinds of faults that happen; one named twice happens twice as often.
        pauses_ms: One of them passes between two faults.
        lasts_s: For how long there are faults.
    """

    node_count: int
    shard_count: int
    user_count: int
    slots: int
    timing: Timing
    begins_well: bool
    loss_percent: int
    is_far: bool
    drift_ppm: int
    has_slow_answers: bool
    faults: tuple[str, ...]
    pauses_ms: tuple[int, ...]
    lasts_s: int


def draw_plan(chance: Random, kinds: Sequence[str], rare: Sequence[str]) -> Plan:
    """Draw a plan.

    Args:
        chance: Of the seed.
        kinds: Faults of which each world has only some, so that each can be alone.
        rare: Faults that only few worlds have, because they excuse something.
    """
    faults = [kind for kind in kinds if chance.random() < 0.6]
    faults += [kind for kind in rare if chance.random() < 0.15]
    return Plan(
        node_count=chance.choice([3, 3, 4, 5]),
        shard_count=chance.choice([4, 4, 8]),
        user_count=chance.choice([2, 4, 6]),
        slots=chance.choice([2, 8, 64]),
        timing=chance.choice([ORDINARY, HASTY]),
        begins_well=chance.random() < 0.7,
        loss_percent=chance.choice([0, 0, 2, 10]),
        is_far=chance.random() < 0.3,
        drift_ppm=chance.choice([0, 200, 10_000]),
        has_slow_answers=chance.random() < 0.3,
        faults=tuple(faults),
        pauses_ms=chance.choice([(500, 2_000), (500, 2_000, 6_000), (4_000, 12_000)]),
        lasts_s=chance.choice([30, 45, 60]),
    )
