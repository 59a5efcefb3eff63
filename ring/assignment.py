"""Assignment of shards to nodes: consistent hashing with bounded loads and spread zones.

The first node clockwise from a shard's position that has room becomes its primary, the next one its
first backup, and so on. Nodes are skipped that are full, that hold the shard already, or whose zone
has the most copies of it that are allowed. Bounded loads are due to Mirrokni, Thorup and
Zadimoghaddam ("Consistent Hashing with Bounded Loads", 2016). Here loads are bounded on both sides,
by `Slack` around the node's share. Primaries are placed first, within their own bounds, then the
backups within the bounds of all copies; see `replica_set_builder`.

The result depends on the membership alone, not on its order or on earlier assignments. It is the
*target* (docs/explanation/ring.md); where a shard is now is in its configuration in etcd.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, sqrt
from typing import NamedTuple

from rota.core.model.ids import NodeId
from rota.ring.fair_shares import fair_shares, zone_limit
from rota.ring.membership import Member, holders_of
from rota.ring.points import Circle
from rota.ring.replica_set_builder import LoadBounds, ReplicaSetBuilder

_ROUNDING = 1e-9


class Slack(NamedTuple):
    """The allowed difference of loads from fair shares, as fractions of the share."""

    above: float
    below: float


def slack_of(mean: float) -> tuple[Slack, Slack]:
    """Return the slack of primaries and that of all copies, for *mean* copies on a node.

    A random load of mean n has the standard deviation sqrt(n), so small loads vary relatively more,
    and tighter bounds would cost movement. 1.25 * sqrt(n) is 7 % of 307 copies (1,024 shards of 3
    copies on 10 nodes) and 16 % of 61 copies (on 50 nodes). The slack is at least 7 %, because arcs
    of 128 points vary by 9 %. A load that is too small does less harm than one that is too large,
    so the slack below the share is a quarter larger, and for primaries twice that. Bounds for
    primaries as tight as those for copies would add 10 % to the movement of 50 nodes.
    """
    above = min(max(1.25 / sqrt(mean), 0.07), 0.25)
    return Slack(above, 2.5 * above), Slack(above, 1.25 * above)


def bounds_of(shares: Sequence[float], slack: Slack) -> LoadBounds:
    """Return the bounds of the number of copies of each node; a share can always be rounded up."""
    return LoadBounds(
        shares=shares,
        least=[floor(share * (1 - slack.below)) for share in shares],
        most=[
            max(ceil(share - _ROUNDING), floor(share * (1 + slack.above) + _ROUNDING))
            for share in shares
        ],
    )


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """The replica sets wanted for a membership.

    Attributes:
        replica_sets: For each shard, the nodes that should hold it: the primary, then the backups
            in the order in which they would take over.
        copies: The number of nodes in each replica set: the requested number, or the number of
            nodes if that is lower.
        zone_limit: The largest number of copies of a shard in one zone.
        shares: The number of copies that each node should have; only nodes that should hold any.
        primary_shares: The number of primaries that each of these nodes should have.
        arcs: The fraction of the hash circle that leads to each of these nodes.
    """

    replica_sets: tuple[tuple[NodeId, ...], ...]
    copies: int
    zone_limit: int
    shares: Mapping[NodeId, float]
    primary_shares: Mapping[NodeId, float]
    arcs: Mapping[NodeId, float]

    def loads(self) -> Counter[NodeId]:
        """Return the number of copies on each node."""
        return Counter(node for replicas in self.replica_sets for node in replicas)

    def primary_loads(self) -> Counter[NodeId]:
        """Return the number of shards of which each node is the primary."""
        return Counter(node for replicas in self.replica_sets for node in replicas[:1])


def assign(members: Iterable[Member], shard_count: int, copies: int) -> Assignment:
    """Return the nodes that should hold each shard.

    For 1,000 nodes and 16,384 shards this takes half a second: the points are hashed and sorted,
    and a few points are tried for each copy.

    Args:
        members: The members, valid by `problems_of_members`, in any order. If none may hold shards,
            all replica sets are empty.
        shard_count: The number of shards, at least 1.
        copies: The number of copies of each shard, at least 1; if there are fewer nodes, each of
            them holds one.
    """
    holders = holders_of(members)
    ids = [member.id for member in holders]
    copies = min(copies, len(holders))
    if not copies:
        return Assignment(
            replica_sets=((),) * shard_count,
            copies=0,
            zone_limit=0,
            shares={},
            primary_shares={},
            arcs={},
        )
    shares = fair_shares(holders, shard_count, copies)
    primary_shares = fair_shares(holders, shard_count, 1)
    primary_slack, slack = slack_of(shard_count * copies / len(holders))
    circle = Circle(holders)
    in_zone_max = zone_limit(holders, copies)
    builder = ReplicaSetBuilder(circle, holders, shard_count, in_zone_max)
    builder.add_ranks(1, bounds_of(primary_shares, primary_slack))
    builder.add_ranks(copies - 1, bounds_of(shares, slack))
    return Assignment(
        replica_sets=tuple(
            tuple(ids[node] for node in replicas) for replicas in builder.replica_sets
        ),
        copies=copies,
        zone_limit=in_zone_max,
        shares=dict(zip(ids, shares, strict=True)),
        primary_shares=dict(zip(ids, primary_shares, strict=True)),
        arcs=dict(zip(ids, circle.arcs(), strict=True)),
    )
