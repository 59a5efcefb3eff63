"""Which faults there are, and when: all of it follows from a seed."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SOON_S = 2.0
"""After the beginning: load has been there before, without any fault."""


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    Attributes:
        lasts_s: From and to; equal where it always lasts so long, 0 where it is over when done.
        gap_s: Until the next one, after the end of this one.
        hosts: How many nodes it is done to; 0 where it is done to etcd, or to all.
        cuts: Whether it takes a network that can be cut.
        calm: Whether it waits until nothing is left of those before it.
        members: How many members of etcd it takes.
    """

    lasts_s: tuple[float, float]
    gap_s: float = 8.0
    hosts: int = 1
    cuts: bool = False
    calm: bool = False
    members: int = 1


KINDS = {
    "kill": Kind((5, 5), gap_s=5),
    "kill-warden": Kind((0, 0)),
    "kill-host": Kind((8, 15)),
    "stop": Kind((1, 4)),
    "pause": Kind((1, 20)),
    "pause-both": Kind((1, 12)),
    "wipe": Kind((2, 5), gap_s=15, calm=True),
    "partition": Kind((3, 20), hosts=2, cuts=True),
    "one-way": Kind((3, 20), hosts=2, cuts=True),
    "isolate": Kind((3, 25), cuts=True),
    "cut-etcd": Kind((3, 20), cuts=True),
    "loss": Kind((5, 15), cuts=True),
    "etcd-stop": Kind((60, 60), gap_s=15, hosts=0),
    "etcd-leader": Kind((5, 15), hosts=0, members=3),
    "revoke": Kind((0, 0), hosts=0),
    "rolling": Kind((0, 0), hosts=0, calm=True),
    "grow": Kind((0, 0), hosts=0, calm=True),
}
"""What is done is in `chaos.harness.nemesis`, under the same names."""
MIXED, NONE = "mixed", "none"
RARELY = ("etcd-stop", "grow", "wipe")
"""They take minutes: in a mixed run once each, if there is time."""


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


def schedule(
    nemesis: str, seed: int, minutes: float, nodes: Sequence[str], *, can_cut: bool, members: int
) -> list[Fault]:
    """Return the faults of a run, in order.

    Args:
        nemesis: A kind, several with commas between them, ``mixed`` or ``none``.
        seed: From which everything follows.
        minutes: After which nothing begins.
        nodes: Names of those that things are done to.
        can_cut: Whether the network can be cut.
        members: How many members etcd has.

    Raises:
        ValueError: There is no such kind, or it cannot be done here.
    """
    if nemesis == NONE:
        return []
    possible = [
        name
        for name, kind in KINDS.items()
        if kind.members <= members and (can_cut or not kind.cuts)
    ]
    wanted = possible if nemesis == MIXED else nemesis.split(",")
    if strange := sorted(set(wanted) - set(possible)):
        raise ValueError(f"{', '.join(strange)} cannot be done here; {', '.join(possible)} can")
    rng = random.Random(f"{seed} {nemesis} {len(nodes)}")
    faults: list[Fault] = []
    at = SOON_S
    for name in _kinds(rng, wanted):
        kind = KINDS[name]
        lasts = rng.uniform(*kind.lasts_s)
        hosts = tuple(rng.sample(sorted(nodes), kind.hosts))
        if at + lasts > minutes * 60:
            break
        faults.append(Fault(len(faults), name, hosts, round(at, 3), round(lasts, 3)))
        at += lasts + kind.gap_s
    return faults


def _kinds(rng: random.Random, wanted: list[str]) -> Iterator[str]:
    """Yield each kind once, in any order, and then go on by chance; what takes long comes last."""
    frequent = [name for name in wanted if name not in RARELY] or list(wanted)
    rare = [name for name in wanted if name not in frequent]
    yield from rng.sample(frequent, len(frequent))
    yield from rng.sample(rare, len(rare))
    while True:
        yield rng.choice(frequent)
