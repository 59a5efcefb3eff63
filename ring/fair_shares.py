"""Fair shares of the nodes: in proportion to weight, as far as spreading the copies allows.

Two rules take precedence over weights. A node holds at most one copy of a shard. A zone holds at
most `zone_limit` copies: one if there are as many zones as copies, otherwise the smallest number
with which every copy has a node. The excess of a node or zone is divided among the others by
weight.

Sums are `math.fsum`, which rounds once: `sum` adds differently from Python 3.12 on, and nodes with
different Pythons must agree to the last bit.
"""

from collections.abc import Iterable, Sequence
from itertools import count
from math import fsum

from rota.ring.membership import Member

_ROUNDING = 1e-9


def zone_limit(holders: Sequence[Member], copies: int) -> int:
    """Return how many of a shard's *copies* one zone may hold; *copies* is at most all holders."""
    sizes = [len(nodes) for nodes in _by_zone(holders).values()]
    return next(limit for limit in count(1) if sum(min(limit, size) for size in sizes) >= copies)


def fair_shares(holders: Sequence[Member], shard_count: int, copies: int) -> list[float]:
    """Return the number of copies that each holder should have; the sum is *copies* per shard.

    Args:
        holders: The nodes that should hold shards, all of a weight above zero.
        shard_count: The number of shards, at least 1.
        copies: The number of copies of each shard, from 1 to the number of holders; 1 gives the
            shares of primaries.
    """
    shares = [0.0] * len(holders)
    zone_max = shard_count * zone_limit(holders, copies)
    zones = _by_zone(holders)
    rest = float(shard_count * copies)
    while True:
        open_nodes = [node for nodes in zones.values() for node in nodes]
        for node, share in _pour(rest, open_nodes, holders, node_max=shard_count):
            shares[node] = share
        full = [
            zone
            for zone, nodes in zones.items()
            if fsum(shares[node] for node in nodes) > zone_max * (1 + _ROUNDING)
        ]
        if not full:
            return shares
        # The excess raises the shares of the others, so another zone may be full next time.
        for zone in full:
            for node, share in _pour(zone_max, zones.pop(zone), holders, node_max=shard_count):
                shares[node] = share
            rest -= zone_max


def _pour(
    amount: float, nodes: Iterable[int], holders: Sequence[Member], *, node_max: int
) -> Iterable[tuple[int, float]]:
    """Yield each of *nodes* with its part of *amount*, by weight and at most *node_max*."""
    heaviest_first = sorted(nodes, key=lambda node: -holders[node].weight)
    for place, node in enumerate(heaviest_first):
        weights = fsum(holders[each].weight for each in heaviest_first[place:])
        if amount * holders[node].weight <= node_max * weights:
            for each in heaviest_first[place:]:
                yield each, amount * holders[each].weight / weights
            return
        yield node, float(node_max)
        amount -= node_max


def _by_zone(holders: Sequence[Member]) -> dict[str, list[int]]:
    zones: dict[str, list[int]] = {}
    for node, member in enumerate(holders):
        zones.setdefault(member.zone, []).append(node)
    return zones
