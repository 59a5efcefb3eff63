"""Documents of ``rota ring``: loads, movement and warnings."""

from collections.abc import Mapping, Sequence

import msgspec

from rota.core.model.ids import NodeId
from rota.ring.assignment import Assignment
from rota.ring.membership import Member, holders_of
from rota.ring.movement import Movement

WEIGHT_TOLERANCE = 0.1
"""The relative difference of share and weight above which a warning is shown."""


class NodeLoad(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The load of a node.

    Attributes:
        node: The id of the node.
        zone: The zone of the node; empty for none.
        weight: The weight of the node.
        primaries: The number of shards of which the node is the primary.
        backups: The number of its other copies.
        copies: The number of its copies.
        share: The number of copies that is its fair share.
        of_share: The number of its copies, as a fraction of *share*.
        arc: The fraction of the hash circle that belongs to the node.
    """

    node: NodeId
    zone: str
    weight: float
    primaries: int
    backups: int
    copies: int
    share: float
    of_share: float
    arc: float


class RingView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An assignment.

    Attributes:
        shards: The number of shards.
        copies: The number of copies of each shard: the requested number, or the number of nodes if
            this is lower.
        zones: The number of zones.
        copies_in_zone: The most copies of a shard in one zone.
        max_of_share: The number of copies of the most loaded node, as a fraction of its share.
        max_primaries_of_share: The same for the number of primaries.
        nodes: The load of each node that gets shards.
        warnings: Warnings about the assignment.
        shards_by_primary: The primary of each shard, in the order of the shards.
    """

    shards: int
    copies: int
    zones: int
    copies_in_zone: int
    max_of_share: float
    max_primaries_of_share: float
    nodes: list[NodeLoad]
    warnings: list[str]
    shards_by_primary: list[NodeId]


class NodeChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The load of a node before and after a change.

    Attributes:
        node: The id of the node.
        zone: The zone of the node; empty for none.
        before: The load before the change; None if the node has no copies then.
        after: The load after the change; None if the node has no copies then.
    """

    node: NodeId
    zone: str
    before: NodeLoad | None
    after: NodeLoad | None


class MovementView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The movement between two assignments.

    Attributes:
        shards: The number of shards of which a copy moves.
        copies: The number of copies that move.
        of_all: The number of copies that move, as a fraction of all copies.
        least: The number of copies that have to move so that every node has its fair share.
        of_least: The number of copies that move, as a multiple of *least*.
        handovers: The number of shards that get another primary.
    """

    shards: int
    copies: int
    of_all: float
    least: float
    of_least: float
    handovers: int


class PlanView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The effect of a change of the membership.

    Attributes:
        shards: The number of shards.
        copies: The number of copies of each shard after the change.
        moved: The movement of copies.
        max_of_share_before: The number of copies of the most loaded node before the change, as a
            fraction of its share.
        max_of_share_after: The same after the change.
        nodes: The load of each node before and after the change.
        warnings: Warnings about the assignment after the change.
    """

    shards: int
    copies: int
    moved: MovementView
    max_of_share_before: float
    max_of_share_after: float
    nodes: list[NodeChange]
    warnings: list[str]


def ring_view(members: Sequence[Member], assignment: Assignment, copies: int) -> RingView:
    """Return the view of an assignment of *members*, with *copies* requested for each shard."""
    loads = loads_of(members, assignment)
    primaries = assignment.primary_loads()
    return RingView(
        shards=len(assignment.replica_sets),
        copies=assignment.copies,
        zones=len({each.zone for each in loads.values()}),
        copies_in_zone=assignment.zone_limit,
        max_of_share=_max_of_share(loads),
        max_primaries_of_share=round(
            max(
                (primaries[node] / share for node, share in assignment.primary_shares.items()),
                default=0.0,
            ),
            4,
        ),
        nodes=list(loads.values()),
        warnings=warnings(members, assignment, copies),
        shards_by_primary=[node for each in assignment.replica_sets for node in each[:1]],
    )


def plan_view(
    before: tuple[Sequence[Member], Assignment],
    after: tuple[Sequence[Member], Assignment],
    moved: Movement,
    copies: int,
) -> PlanView:
    """Return the view of a change between two assignments, each with its members."""
    loads_before, loads_after = loads_of(*before), loads_of(*after)
    zones = {member.id: member.zone for members, _ in (before, after) for member in members}
    assignment = after[1]
    copies_in_all = len(assignment.replica_sets) * assignment.copies
    return PlanView(
        shards=len(assignment.replica_sets),
        copies=assignment.copies,
        moved=MovementView(
            shards=len(moved.shards),
            copies=moved.copies,
            of_all=round(moved.copies / copies_in_all, 4) if copies_in_all else 0.0,
            least=round(moved.least, 2),
            of_least=round(moved.of_least, 4),
            handovers=moved.handovers,
        ),
        max_of_share_before=_max_of_share(loads_before),
        max_of_share_after=_max_of_share(loads_after),
        nodes=[
            NodeChange(
                node=node, zone=zone, before=loads_before.get(node), after=loads_after.get(node)
            )
            for node, zone in zones.items()
        ],
        warnings=warnings(after[0], assignment, copies),
    )


def loads_of(members: Sequence[Member], assignment: Assignment) -> dict[NodeId, NodeLoad]:
    """Return the load of each node that gets shards, in the order of *members*."""
    loads, primaries = assignment.loads(), assignment.primary_loads()
    return {
        member.id: NodeLoad(
            node=member.id,
            zone=member.zone,
            weight=member.weight,
            primaries=primaries[member.id],
            backups=loads[member.id] - primaries[member.id],
            copies=loads[member.id],
            share=round(assignment.shares[member.id], 2),
            of_share=round(loads[member.id] / assignment.shares[member.id], 4),
            arc=round(assignment.arcs[member.id], 4),
        )
        for member in members
        if member.id in assignment.shares
    }


def warnings(members: Sequence[Member], assignment: Assignment, copies: int) -> list[str]:
    """Return warnings about too few nodes or zones, and about uneven shares."""
    holders = holders_of(members)
    said: list[str] = []
    if assignment.copies < copies:
        count = _counted(len(holders), "node")
        said.append(f"{count} for {copies} copies: each shard has {assignment.copies}")
    zones = {member.zone for member in holders}
    if assignment.zone_limit > 1 and zones != {""}:
        count = _counted(len(zones), "zone")
        said.append(
            f"{count} for {assignment.copies} copies: "
            f"a zone may hold {assignment.zone_limit} of a shard"
        )
    uneven = _off_their_weights(holders, assignment)
    if uneven:
        names = ", ".join(uneven[:5]) + (", ..." if len(uneven) > 5 else "")
        said.append(
            "spreading copies over nodes and zones does not allow shares by weight: "
            f"{names} (more than {WEIGHT_TOLERANCE:.0%} off)"
        )
    return said


def _off_their_weights(holders: Sequence[Member], assignment: Assignment) -> list[str]:
    weights = sum(member.weight for member in holders)
    total = len(assignment.replica_sets) * assignment.copies
    found: list[str] = []
    for member in holders:
        wanted = total * member.weight / weights
        got = assignment.shares[member.id]
        if abs(got / wanted - 1) > WEIGHT_TOLERANCE:
            found.append(f"{member.id} gets {got / wanted:.2f} of its part")
    return found


def _max_of_share(loads: Mapping[NodeId, NodeLoad]) -> float:
    return max((each.of_share for each in loads.values()), default=0.0)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
