"""The nodes that take part in placement, as the operator describes them."""

from collections.abc import Iterable, Sequence
from enum import Enum

import msgspec

from rota.core.errors import Problem
from rota.core.model.ids import NAME_RULE, NodeId, is_name

WEIGHT_MAX = 100.0
"""A node has 128 points per unit of weight; more weight would only slow placement."""


class MemberState(Enum):
    """Whether a node should hold shards."""

    ACTIVE = "active"
    DRAINING = "draining"
    """It still serves its shards, which are being moved to other nodes."""
    REMOVED = "removed"


class Member(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The properties of a node that placement uses.

    Attributes:
        weight: The node's share of the shards relative to other nodes, in ``[0, WEIGHT_MAX]``.
        zone: A name shared by nodes that may fail together. All members without a zone are in one
            unnamed zone, because they may fail together.
    """

    id: NodeId
    weight: float = 1.0
    zone: str = ""
    state: MemberState = MemberState.ACTIVE


def holders_of(members: Iterable[Member]) -> list[Member]:
    """Return the members that should hold shards, by id: active ones of a weight above zero."""
    able = (each for each in members if each.state is MemberState.ACTIVE and each.weight > 0)
    return sorted(able, key=lambda member: member.id)


def problems_of_members(members: Sequence[Member]) -> list[Problem]:
    """Return the errors in a membership; pointers are into the list of members."""
    problems: list[Problem] = []
    seen: set[NodeId] = set()
    for number, member in enumerate(members):
        if not is_name(member.id):
            problems.append(
                Problem(f"/{number}/id", f"{member.id!r} is not a name; use {NAME_RULE}")
            )
        if member.id in seen:
            problems.append(Problem(f"/{number}/id", f"there is already a node {member.id!r}"))
        if member.zone and not is_name(member.zone):
            problems.append(
                Problem(f"/{number}/zone", f"{member.zone!r} is not a name; use {NAME_RULE}")
            )
        if not 0 <= member.weight <= WEIGHT_MAX:
            problems.append(
                Problem(
                    f"/{number}/weight",
                    f"{member.weight:g} is not between 0 and {WEIGHT_MAX:g}; an ordinary node has "
                    "weight 1",
                )
            )
        seen.add(member.id)
    return problems
