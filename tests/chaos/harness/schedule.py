"""Kinds of faults, and schedules of faults that follow from a seed."""

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

SOON_S = 2.0
"""From the beginning to the first fault; the load runs before, without faults."""
NAMESPACES = "namespaces"
"""Separate hosts, whose cables can be cut, and whose disks can be small."""
COMPILER = "compiler"
"""Separate wall clocks and faulty disks, by a library that is compiled first."""
VOLUMES = "volumes"
"""Separate disks that can be frozen, which require loop devices."""
ALL = 99
"""More hosts than there are: all of them, in random order."""


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    Attributes:
        lasts_s: From and to; equal where it always lasts so long, 0 where it is over when done.
        gap_s: Until the next one, after the end of this one.
        takes_s: About how long it takes to begin and to do it, beside how long it lasts.
        hosts: How many nodes it is done to; 0 where it is done to etcd, or to each in turn.
        needs: What this machine has to have, if anything.
        calm: Whether it waits until all copies are there after the previous faults.
        members: How many members of etcd it takes.
        nodes: How many nodes it takes.
    """

    lasts_s: tuple[float, float]
    gap_s: float = 8.0
    takes_s: float = 0.0
    hosts: int = 1
    needs: str = ""
    calm: bool = False
    members: int = 1
    nodes: int = 1


KINDS = {
    "kill": Kind((5, 5), gap_s=5),
    "kill-warden": Kind((0, 0)),
    "kill-host": Kind((8, 15)),
    "stop": Kind((1, 4)),
    "pause": Kind((1, 60)),
    "pause-both": Kind((1, 12)),
    "wipe": Kind((2, 5), gap_s=15, takes_s=10, calm=True),
    "old-copy": Kind((0, 0), gap_s=15, takes_s=45, calm=True),
    "cloned-directory": Kind((4, 10), gap_s=15, takes_s=15, calm=True),
    "flip": Kind((2, 5), gap_s=15, takes_s=10, calm=True),
    "disk-full": Kind((5, 15), needs=NAMESPACES),
    "frozen-disk": Kind((3, 20), needs=VOLUMES),
    "slow-disk": Kind((5, 15), needs=COMPILER),
    "bad-disk": Kind((2, 6), needs=COMPILER),
    "clock": Kind((4, 15), needs=COMPILER),
    "partition": Kind((3, 20), hosts=2, needs=NAMESPACES),
    "one-way": Kind((3, 20), hosts=2, needs=NAMESPACES),
    "isolate": Kind((3, 25), needs=NAMESPACES),
    "refuse": Kind((3, 20), needs=NAMESPACES),
    "ring": Kind((3, 20), hosts=ALL, needs=NAMESPACES, nodes=5),
    "zone": Kind((3, 20), hosts=2, needs=NAMESPACES, nodes=5),
    "swizzle": Kind((1, 5), takes_s=6, hosts=ALL, needs=NAMESPACES),
    "cut-etcd": Kind((3, 20), needs=NAMESPACES),
    "loss": Kind((5, 15), needs=NAMESPACES),
    "slow-link": Kind((5, 15), needs=NAMESPACES),
    "stale-link": Kind((5, 15), needs=NAMESPACES),
    "etcd-stop": Kind((15, 60), gap_s=15, hosts=0),
    "etcd-leader": Kind((5, 15), hosts=0, members=3),
    "etcd-quota": Kind((8, 30)),
    "etcd-restored": Kind(
        (2, 15), gap_s=15, takes_s=45, hosts=ALL, needs=NAMESPACES, calm=True, nodes=3
    ),
    "revoke": Kind((0, 0), hosts=0),
    "rolling": Kind((0, 0), takes_s=25, hosts=0, calm=True),
    "upgrade": Kind((0, 0), takes_s=25, hosts=0, calm=True),
    "grow": Kind((0, 0), takes_s=50, hosts=0, calm=True),
}
"""The actions are in `chaos.harness.deeds`, under the same names."""
MIXED, NONE = "mixed", "none"
RARELY = ("etcd-stop", "grow", "old-copy", "upgrade", "wipe", "flip", "cloned-directory")
"""They take minutes in all: in a mixed run once each, if there is time, and then rarely."""
NAMED = ("etcd-restored",)
"""They are done only in runs that name them: each takes a minute or two."""
BETWEEN_RARE = 80
"""Number of other faults between two rare ones, which take half an hour."""
HURRY_S = 12.0, 5.0
"""Limits of duration, where the kind permits it, and of gap, in runs too short for all kinds."""
ON_SMALL_DISK = "disk-full"
"""Always done to the last of the nodes, whose data is on a small disk from the beginning."""
ON_VOLUME = "frozen-disk"
"""Always done to the first of the nodes, whose data is on a loop device all the time."""


@dataclass(frozen=True)
class Fault:
    """Something that is done to some hosts.

    Attributes:
        number: From 0.
        kind: A key of `KINDS`.
        hosts: The nodes that it is done to.
        begins_s: After the beginning of all faults.
        lasts_s: Until it is undone.
    """

    number: int
    kind: str
    hosts: tuple[str, ...]
    begins_s: float
    lasts_s: float


def possible(can: Collection[str], *, members: int, nodes: int) -> list[str]:
    """Return the kinds that can be done on this machine, with this number of members and nodes."""
    return [
        name
        for name, kind in KINDS.items()
        if kind.members <= members and kind.nodes <= nodes and kind.needs in ("", *can)
    ]


def schedule(
    nemesis: str,
    seed: int,
    minutes: float,
    nodes: Sequence[str],
    *,
    can: Collection[str],
    members: int,
) -> list[Fault]:
    """Return the faults of a run, in order.

    Args:
        nemesis: A kind, several with commas between them, ``mixed`` (all but `NAMED`) or ``none``.
        seed: From which everything follows.
        minutes: After which nothing begins.
        nodes: Names of those that things are done to.
        can: What this machine has: of `NAMESPACES`, `COMPILER` and `VOLUMES`.
        members: How many members etcd has.

    Raises:
        ValueError: There is no such kind, or it cannot be done here.
    """
    if nemesis == NONE:
        return []
    there = possible(can, members=members, nodes=len(nodes))
    mixed = [name for name in there if name not in NAMED]
    wanted = mixed if nemesis == MIXED else nemesis.split(",")
    if strange := sorted(set(wanted) - set(there)):
        raise ValueError(f"{', '.join(strange)} cannot be done here; {', '.join(there)} can")
    rng = random.Random(f"{seed} {nemesis} {len(nodes)}")
    is_hurried = sum(map(_takes_s, wanted)) > minutes * 60
    faults: list[Fault] = []
    at = SOON_S
    for name in _kinds(rng, wanted):
        kind = KINDS[name]
        low, high = kind.lasts_s
        gap = min(kind.gap_s, HURRY_S[1]) if is_hurried else kind.gap_s
        lasts = rng.uniform(low, max(low, min(high, HURRY_S[0])) if is_hurried else high)
        if at + lasts > minutes * 60:
            break
        hosts = _hosts(rng, name, sorted(nodes))
        faults.append(Fault(len(faults), name, hosts, round(at, 3), round(lasts, 3)))
        at += lasts + kind.takes_s + gap
    return faults


def _takes_s(name: str) -> float:
    kind = KINDS[name]
    return sum(kind.lasts_s) / 2 + kind.takes_s + kind.gap_s


def _hosts(rng: random.Random, name: str, nodes: Sequence[str]) -> tuple[str, ...]:
    if name == ON_SMALL_DISK:
        return (nodes[-1],)
    if name == ON_VOLUME:
        return (nodes[0],)
    return tuple(rng.sample(nodes, min(KINDS[name].hosts, len(nodes))))


def _kinds(rng: random.Random, wanted: Sequence[str]) -> Iterator[str]:
    """Yield each kind once, in random order, and then kinds by chance; long ones are rare."""
    frequent = [name for name in wanted if name not in RARELY] or list(wanted)
    rare = [name for name in wanted if name not in frequent]
    yield from rng.sample(frequent, len(frequent))
    while True:
        yield from rng.sample(rare, len(rare))
        yield from (rng.choice(frequent) for _ in range(BETWEEN_RARE))
