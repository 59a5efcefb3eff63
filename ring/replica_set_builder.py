"""Builder of replica sets, rank by rank, so that the load of every node ends within its bounds.

Within a rank, each shard in turn gets its next node. Shards that come late may find nearby nodes
full and get distant ones, so neighbours on the circle are not processed one after another; the
choice of the scattered order makes no measurable difference (decisions/0006).

A node is open until it is full. When the remaining copies just suffice for the nodes below their
lower bound, only those nodes are open.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rota.ring.membership import Member
from rota.ring.open_points import OpenPoints
from rota.ring.points import CIRCLE, Circle, position_of

_STRIDE = 0x9E3779B97F4A7C15
"""The circle divided in the golden ratio: its multiples scatter evenly (Knuth 6.4)."""
_TRIES = 64
"""The number of open points tried for a shard before a check whether any open node may hold it."""
_EXCHANGES = 2_000
"""The number of exchanges tried for a shard, about 1 ms; if the zones permit no solution, many
shards try that many."""


@dataclass(frozen=True, kw_only=True)
class LoadBounds:
    """Shares and bounds of the nodes' loads, by the index of the node in *holders*."""

    shares: Sequence[float]
    least: Sequence[int]
    most: Sequence[int]


class ReplicaSetBuilder:
    """Builder of the replica sets of all shards; a node is its index in *holders*.

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
        self._first_points = [
            circle.first_at(position_of(shard, shard_count)) for shard in range(shard_count)
        ]
        self._order = sorted(range(shard_count), key=lambda shard: shard * _STRIDE % CIRCLE)

    def add_ranks(self, ranks: int, bounds: LoadBounds) -> None:
        """Give each shard *ranks* more copies; *bounds* apply to the total loads of the nodes."""
        open_nodes = _OpenNodes(self._circle, bounds, self._loads, len(self.replica_sets) * ranks)
        for _ in range(ranks):
            for shard in self._order:
                self._add_node(shard, open_nodes)

    def _add_node(self, shard: int, open_nodes: "_OpenNodes") -> None:
        """Add the next node to a shard's replica set."""
        node = self._first_open(shard, open_nodes)
        if node is not None:
            self.replica_sets[shard].append(node)
            open_nodes.take(node)
        else:
            self._add_by_exchange(shard, open_nodes)

    def _first_open(self, shard: int, open_nodes: "_OpenNodes") -> int | None:
        """Return the first open node clockwise that may hold a shard; None if there is none."""
        replicas = self.replica_sets[shard]
        index = self._first_points[shard]
        end = index + len(self._circle.owners)
        tried = 0
        while (index := open_nodes.points.first_from(index)) < end:
            node = open_nodes.points.owner_of(index)
            if self._may_join(replicas, node):
                return node
            tried += 1
            if tried == _TRIES and not any(
                self._may_join(replicas, each) for each in open_nodes.points.owners()
            ):
                return None
            index += 1
        return None

    def _may_join(self, replicas: Sequence[int], node: int) -> bool:
        if node in replicas:
            return False
        in_zone = 0
        for each in replicas:
            in_zone += self._zones[each] == self._zones[node]
        return in_zone < self._zone_limit

    def _add_by_exchange(self, shard: int, open_nodes: "_OpenNodes") -> None:
        """Place a shard that found no open node.

        The open nodes, or their zones, often hold the last few shards already. Then an open node
        takes over a backup of another shard, the next one clockwise for which that is possible, and
        the node of that backup gets this shard. If it is not possible for any shard, the least
        loaded node gets this shard beyond its bounds, because spreading the copies has priority.
        The zone limit ensures that there is always such a node.
        """
        replicas = self.replica_sets[shard]
        able = {node for node in range(len(self._loads)) if self._may_join(replicas, node)}
        takers = open_nodes.points.owners()
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
                    open_nodes.take(taker)
                    return
                tries += len(takers)
            if tries > _EXCHANGES:
                break
        node = min(able, key=lambda node: (open_nodes.fullness(node), node))
        replicas.append(node)
        open_nodes.take(node)


class _OpenNodes:
    """The open nodes, as loads grow."""

    def __init__(
        self, circle: Circle, bounds: LoadBounds, loads: list[int], copies_left: int
    ) -> None:
        self.points = OpenPoints(circle)
        self._bounds = bounds
        self._loads = loads
        lacking = (max(0, low - load) for low, load in zip(bounds.least, loads, strict=True))
        self._spare = copies_left - sum(lacking)
        """The number of copies that nodes at or above their lower bound may still get."""
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
            for each in self.points.owners():
                self._close_if_full(each)

    def fullness(self, node: int) -> float:
        """Return the load of a node with one more copy, as a fraction of its share."""
        return (self._loads[node] + 1) / self._bounds.shares[node]

    def _close_if_full(self, node: int) -> None:
        full_at = self._bounds.most if self._spare > 0 else self._bounds.least
        if self._loads[node] >= full_at[node]:
            self.points.close(node)
