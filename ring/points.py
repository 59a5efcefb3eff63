"""The hash circle: the positions of nodes and shards.

Every node has points in proportion to its weight (Karger et al., "Consistent Hashing and Random
Trees", STOC 1997). The points depend on the node's id alone, so adding or removing a node does not
move the points of others, and a node whose weight grows keeps its points. Shards are at equal
distances: hashing them too would make the loads less even.

All nodes of a cluster must agree on these positions: a change here moves every shard.
"""

from bisect import bisect_left
from collections.abc import Sequence
from hashlib import blake2b
from struct import unpack

from rota.core.model.ids import NodeId
from rota.ring.membership import Member

CIRCLE = 1 << 64
"""The number of positions, which are integers from 0, clockwise."""
POINTS = 128
"""The number of points of a node of weight 1; with half as many, a change moves 4 % more
(decisions/0006)."""
_POINTS_A_DIGEST = 8
"""BLAKE2b gives 64 bytes at once, so 128 points cost 16 hashes."""


class Circle:
    """The points of all *holders* on the circle, in ascending order of position.

    Attributes:
        positions: The position of each point, from 0 to below `CIRCLE`.
        owners: For each point, the index in *holders* of the node that owns it.
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
        """Return the index of the first point at or after *position*, or the number of points."""
        return bisect_left(self.positions, position)

    def arcs(self) -> list[float]:
        """Return the fraction of the circle that leads to the points of each owner."""
        lengths = [0] * (max(self.owners, default=-1) + 1)
        before = self.positions[-1] - CIRCLE if self.positions else 0
        for position, owner in zip(self.positions, self.owners, strict=True):
            lengths[owner] += position - before
            before = position
        return [length / CIRCLE for length in lengths]


def point_count(weight: float) -> int:
    """Return the number of points of a node of *weight* above zero: at least one."""
    return max(1, round(POINTS * weight))


def points_of(node_id: NodeId, count: int) -> list[int]:
    """Return the positions of the first *count* points of a node, in no particular order."""
    points: list[int] = []
    while len(points) < count:
        number = len(points) // _POINTS_A_DIGEST
        points += unpack(">8Q", blake2b(f"{node_id}#{number}".encode()).digest())
    return points[:count]


def position_of(shard: int, shard_count: int) -> int:
    """Return the position of a shard; if shards are split, the first half keeps the position."""
    return shard * CIRCLE // shard_count
