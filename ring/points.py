"""The hash circle: where nodes and shards are on it.

Every node has points, as many as its weight says (Karger et al., "Consistent Hashing and Random
Trees", STOC 1997). They depend on its id alone, so nodes come and go without moving another's
points, and a heavier node keeps those that it had. Shards stand at equal distances: hashing them
too would add the unevenness of the shards to that of the nodes.

All of it is part of what the nodes of a cluster must agree on: a change here moves every shard.
"""

from bisect import bisect_left
from collections.abc import Sequence
from hashlib import blake2b
from struct import unpack

from rota.core.model.ids import NodeId
from rota.ring.membership import Member

CIRCLE = 1 << 64
"""Positions are integers below this, clockwise."""
POINTS = 128
"""Of a node of weight 1. With half as many, a change moves some 4 % more (decisions/0006)."""
_POINTS_A_DIGEST = 8
"""BLAKE2b gives 64 bytes at once, so 128 points cost 16 hashes."""


class Circle:
    """The points of all *holders*, in order.

    Attributes:
        positions: Where they are, ascending.
        owners: Whose they are, as places in *holders*.
    """

    def __init__(self, holders: Sequence[Member]) -> None:
        points = sorted(
            (position, owner)
            for owner, member in enumerate(holders)
            for position in points_of(member.id, point_count(member.weight))
        )
        self.positions = [position for position, _ in points]
        self.owners = [owner for _, owner in points]

    def first_at(self, position: int) -> int:
        """Return which point is the first at or after *position*; past the last, their number."""
        return bisect_left(self.positions, position)

    def arcs(self) -> list[float]:
        """Return which part of the circle leads to a point of each owner; in all 1."""
        lengths = [0] * (max(self.owners, default=-1) + 1)
        before = self.positions[-1] - CIRCLE if self.positions else 0
        for position, owner in zip(self.positions, self.owners, strict=True):
            lengths[owner] += position - before
            before = position
        return [length / CIRCLE for length in lengths]


def point_count(weight: float) -> int:
    """Return how many points a node of *weight* above zero has: at least one."""
    return max(1, round(POINTS * weight))


def points_of(node_id: NodeId, count: int) -> list[int]:
    """Return the first *count* points of a node, in no order."""
    points: list[int] = []
    while len(points) < count:
        number = len(points) // _POINTS_A_DIGEST
        points += unpack(">8Q", blake2b(f"{node_id}#{number}".encode()).digest())
    return points[:count]


def position_of(shard: int, shard_count: int) -> int:
    """Return where a shard is. Where there are twice as many, its first half stays there."""
    return shard * CIRCLE // shard_count
