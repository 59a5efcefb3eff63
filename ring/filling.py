"""Filling replica sets rank by rank, so that every node ends within its bounds.

Within a rank one shard after another takes its next node. Who comes late may find its nodes full
and has to go further, so neighbours on the circle do not come one after another; which scattered
order it is makes no difference that can be measured (decisions/0006).

A node is open until it is full. Once no more copies are left than the nodes below their least lack,
only those are open.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rota.ring.membership import Member
from rota.ring.points import CIRCLE, Circle, position_of
from rota.ring.seats import OpenSeats

_STRIDE = 0x9E3779B97F4A7C15
"""The circle divided in the golden ratio: its multiples scatter evenly (Knuth 6.4)."""
_PATIENCE = 64
"""Open seats that a shard tries in vain before it is asked whether there is any for it."""
_SQUEEZES = 2_000
"""Pairs tried to squeeze a shard in, about 1 ms: where zones leave no way, many shards try."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What nodes, by their places in *holders*, should have, and how far they may be from it."""

    shares: Sequence[float]
    least: Sequence[int]
    most: Sequence[int]


class Filling:
    """An assignment while it is made; nodes are places in *holders*.

    Attributes:
        replica_sets: The nodes of each shard, by rank.
    """

    def __init__(
        self, circle: Circle, holders: Sequence[Member], shard_count: int, zone_limit: int
    ) -> None:
        self.replica_sets: list[list[int]] = [[] for _ in range(shard_count)]
        self._circle = circle
        self._zone_limit = zone_limit
        self._zones = [member.zone for member in holders]
        self._loads = [0] * len(holders)
        self._first_seats = [
            circle.first_at(position_of(shard, shard_count)) for shard in range(shard_count)
        ]
        self._order = sorted(range(shard_count), key=lambda shard: shard * _STRIDE % CIRCLE)

    def fill(self, ranks: int, bounds: Bounds) -> None:
        """Give each shard *ranks* more copies; with those it has, nodes come within *bounds*."""
        room = _Room(self._circle, bounds, self._loads, len(self.replica_sets) * ranks)
        for _ in range(ranks):
            for shard in self._order:
                self._place(shard, room)

    def _place(self, shard: int, room: "_Room") -> None:
        """Give a shard its next node."""
        node = self._first_open(shard, room)
        if node is not None:
            self.replica_sets[shard].append(node)
            room.take(node)
        else:
            self._squeeze(shard, room)

    def _first_open(self, shard: int, room: "_Room") -> int | None:
        """Return the first node clockwise that is open to a shard; None if none is."""
        replicas = self.replica_sets[shard]
        seat = self._first_seats[shard]
        end = seat + len(self._circle.owners)
        tried = 0
        while (seat := room.seats.first_from(seat)) < end:
            node = room.seats.owner_of(seat)
            if self._may_join(replicas, node):
                return node
            tried += 1
            if tried == _PATIENCE and not any(
                self._may_join(replicas, each) for each in room.seats.owners()
            ):
                return None
            seat += 1
        return None

    def _may_join(self, replicas: Sequence[int], node: int) -> bool:
        if node in replicas:
            return False
        in_zone = 0
        for each in replicas:
            in_zone += self._zones[each] == self._zones[node]
        return in_zone < self._zone_limit

    def _squeeze(self, shard: int, room: "_Room") -> None:
        """Place a shard that found no open node.

        The last few shards are often held already by all that are open, or by their zones. Then
        one of these takes a backup of another shard, whose node takes the shard instead: the next
        shard clockwise where that works. Where it works nowhere, the roomiest node gets the shard,
        outside of its bounds: spreading is worth more. The limit of zones is such that one may.
        """
        replicas = self.replica_sets[shard]
        able = {node for node in range(len(self._loads)) if self._may_join(replicas, node)}
        takers = room.seats.owners()
        tries = 0
        for step in range(1, len(self.replica_sets)):
            others = self.replica_sets[(shard + step) % len(self.replica_sets)]
            for rank in range(1, len(others)):
                if others[rank] not in able:
                    continue
                rest = others[:rank] + others[rank + 1 :]
                taker = next((each for each in takers if self._may_join(rest, each)), None)
                if taker is not None:
                    replicas.append(others[rank])
                    others[rank] = taker
                    room.take(taker)
                    return
                tries += len(takers)
            if tries > _SQUEEZES:
                break
        node = min(able, key=lambda node: (room.fullness(node), node))
        replicas.append(node)
        room.take(node)


class _Room:
    """Who is open, as loads grow."""

    def __init__(self, circle: Circle, bounds: Bounds, loads: list[int], copies_left: int) -> None:
        self.seats = OpenSeats(circle)
        self._bounds = bounds
        self._loads = loads
        lacking = (max(0, low - load) for low, load in zip(bounds.least, loads, strict=True))
        self._spare = copies_left - sum(lacking)
        """How many copies may go to nodes that lack none."""
        for node in range(len(loads)):
            self._close_if_full(node)

    def take(self, node: int) -> None:
        """Count one more copy on a node."""
        lacked = self._loads[node] < self._bounds.least[node]
        self._loads[node] += 1
        self._close_if_full(node)
        if lacked:
            return
        self._spare -= 1
        if self._spare == 0:
            for each in self.seats.owners():
                self._close_if_full(each)

    def fullness(self, node: int) -> float:
        """Return which part of its share a node would have with one more copy."""
        return (self._loads[node] + 1) / self._bounds.shares[node]

    def _close_if_full(self, node: int) -> None:
        full_at = self._bounds.most if self._spare > 0 else self._bounds.least
        if self._loads[node] >= full_at[node]:
            self.seats.close(node)
