"""Parameters of a simulated cluster: its size, its timing, its load and its faults."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from rota.core.replication.primary import Copies
from rota.core.replication.timeouts import DRIFT_PERCENT, Timing
from rota.core.timing.instants import MILLISECOND, SECOND, Duration
from rota.node.shards.copy_comparison import COMPARE_EVERY
from sim.apart import chance_apart
from sim.sizes import Sizes, draw_sizes

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

FOCUSES: Mapping[str, tuple[str, ...]] = {
    "anything": (),
    "leases": (
        "pause",
        "isolation",
        "left alone",
        "kill",
        "seen death",
        "cut from the coordinator",
    ),
    "members": ("join", "drain", "leave", "rolling restart", "stop", "disk lost"),
    "disks": ("crash", "power cut", "slow disk", "failing disk", "full disk", "damaged disk"),
    "coordinator": ("coordinator stopped", "cut from the coordinator", "watch silent", "kill"),
}
"""Combinations of faults that occur together too rarely by chance."""
ASKED_FOR: Mapping[str, tuple[str, ...]] = {
    "stand-ins": (
        "left alone",
        "left alone",
        "partition",
        "cut from the coordinator",
        "coordinator stopped",
        "crash",
        "seen death",
        "pause",
    ),
    "lost-state": (
        "coordinator restored",
        "coordinator restored",
        "crash",
        "seen death",
        "rolling restart",
        "left alone",
        "cut from the coordinator",
        "drain",
        "join",
        "disk lost",
    ),
    "reruns": (
        "crash",
        "seen death",
        "pause",
        "partition",
        "rolling restart",
        "drain",
        "slow disk",
    ),
    "hooks": (
        "crash",
        "seen death",
        "pause",
        "partition",
        "left alone",
        "rolling restart",
        "drain",
        "slow disk",
    ),
    "access": (
        "cut from the coordinator",
        "cut from the coordinator",
        "cut from the coordinator",
        "left alone",
        "partition",
        "coordinator stopped",
        "steps forgotten",
        "crash",
        "seen death",
        "pause",
        "rolling restart",
        "join",
    ),
    "second-loss": (
        "coordinator restored",
        "revision set back",
        "revision set back",
        "revision set back",
        "crash",
        "rolling restart",
        "drain",
        "join",
    ),
    "apart": (
        "frozen disk",
        "coordinator refuses",
        "forged messages",
        "replayed messages",
        "copied data",
        "coordinator restored",
        "crash",
        "seen death",
        "partition",
        "isolation",
        "drain",
    ),
}
"""Likewise, but never drawn from a seed: only on request."""
DRIFT_MAX_PPM = DRIFT_PERCENT * 10_000
"""The greatest drift without harm, by the documentation."""
POOLS = ("a", "b")
"""The labels of nodes, in turn, in worlds with labels."""
NO_POOL = "c"
"""A label that some jobs require and no node has."""
COMPARE_OFTEN = Duration(20 * SECOND)
"""The default of hours is longer than a world lasts; a comparison is given up after 0.6 s."""
SHARES = (0.15, 0.4, 0.8)
"""Shares of all kinds of faults in a world without a focus: from one or two kinds to nearly all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Parameters of a world, drawn from its seed.

    Attributes:
        focus: Name of its combination of faults.
        node_count: Nodes at its beginning.
        user_count: Users; each creates jobs and sends requests about them.
        slots: Attempts that a node may run at the same time.
        begins_well: Whether there are no faults until the cluster is whole for the first time.
        loss_percent: Of messages between nodes, and between clients and nodes.
        is_far: Whether messages take tens of milliseconds, and not one or two.
        drift_ppm: How much faster or slower a node's clock may run than true time.
        drifts_fully: Whether each clock has the greatest drift, some fast and the others slow.
        sizes: Of windows, of snapshots' parts, and of journals.
        has_pools: Whether nodes have labels, and some tasks require one.
        has_slow_answers: Whether requests to the coordinator may take seconds, and its answers may
            get lost.
        faults: The kinds of faults that happen; one named twice happens twice as often.
        pauses_ms: Possible times between two faults.
        lasts_s: Duration of the faults.
        compare_every: Period in which a node compares the copies of all of its shards (R43).
    """

    focus: str
    node_count: int
    shard_count: int
    user_count: int
    slots: int
    timing: Timing
    begins_well: bool
    loss_percent: int
    is_far: bool
    drift_ppm: int
    drifts_fully: bool
    sizes: Sizes
    has_pools: bool
    has_slow_answers: bool
    faults: tuple[str, ...]
    pauses_ms: tuple[int, ...]
    lasts_s: int
    compare_every: Duration

    @property
    def pools(self) -> tuple[str, ...]:
        """The labels that tasks require; the last is on no node."""
        return (*POOLS, NO_POOL) if self.has_pools else ()

    @property
    def has_reruns(self) -> bool:
        """Whether users run executions again, and some jobs have deadlines."""
        return self.focus == "reruns"

    @property
    def has_hooks(self) -> bool:
        """Whether jobs have hooks."""
        return self.focus == "hooks"

    @property
    def has_keys(self) -> bool:
        """Whether administrators create and revoke keys."""
        return self.focus == "access"

    @property
    def stand_in_after(self) -> Duration:
        """Time without a primary until nodes stand in for it: longer than any takeover."""
        return Duration(2 * self.timing.session)


def draw_plan(
    chance: Random,
    kinds: Sequence[str],
    rare: Sequence[str],
    apart: Sequence[str] = (),
    focus: str | None = None,
) -> Plan:
    """Draw a plan.

    Args:
        chance: Random numbers of the seed.
        kinds: Faults of which a world without a focus has some, so that each can occur alone.
        rare: Faults that only few worlds have, because they suspend some checks.
        apart: Faults that few worlds have, with any focus; they do not change what else is drawn.
        focus: Replaces the one that is drawn.
    """
    own = chance_apart(chance)
    drifts_fully, sizes = own.random() < 0.5, draw_sizes(own)
    has_pools = own.random() < 0.2
    more = tuple(kind for kind in apart if own.random() < 0.12)
    drawn = chance.choice(["anything"] * len(FOCUSES) + list(FOCUSES))
    share = chance.choice(SHARES)
    some = [kind for kind in kinds if chance.random() < share]
    some += [kind for kind in rare if chance.random() < 0.15]
    return Plan(
        focus=focus or drawn,
        node_count=chance.choice([3, 3, 4, 5]),
        shard_count=chance.choice([4, 4, 8]),
        user_count=chance.choice([2, 4, 6]),
        slots=chance.choice([2, 8, 64]),
        timing=chance.choice([ORDINARY, HASTY, HASTY]),
        begins_well=chance.random() < 0.7,
        loss_percent=chance.choice([0, 0, 2, 10]),
        is_far=chance.random() < 0.3,
        drift_ppm=chance.choice([0, 200, DRIFT_MAX_PPM]),
        drifts_fully=drifts_fully,
        sizes=sizes,
        has_pools=has_pools,
        has_slow_answers=chance.random() < 0.3,
        faults=({**FOCUSES, **ASKED_FOR}[focus or drawn] or tuple(some)) + more,
        pauses_ms=chance.choice([(500, 2_000), (500, 2_000, 6_000), (4_000, 12_000)]),
        lasts_s=chance.choice([30, 45, 60]),
        compare_every=COMPARE_OFTEN if chance_apart(chance).random() < 0.25 else COMPARE_EVERY,
    )
