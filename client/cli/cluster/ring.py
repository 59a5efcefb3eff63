"""``rota ring``: the placement of shards for any membership, without a cluster."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click
import msgspec

from rota.client.cli.display.printing import out, say
from rota.client.cli.display.show import print_document, print_table
from rota.client.cli.human import counted
from rota.client.cli.inputs.command_groups import SuggestingGroup, output_before
from rota.client.cli.inputs.options import examples, output_option
from rota.core.model.ids import NodeId
from rota.ring.assignment import Assignment, assign
from rota.ring.membership import Member, holders_of, problems_of_members
from rota.ring.movement import movement
from rota.ring.placement import SHARD_COUNT_MAX

F = TypeVar("F", bound=Callable[..., Any])  # Any: options apply to any command

NODES_MAX = 10_000
NODE_FORM = "NAME[=WEIGHT][:ZONE]"
WEIGHT_TOLERANCE = 0.1
"""The relative difference of share and weight above which a warning is shown."""
TITLES = ("NODE", "ZONE", "ARC", "WEIGHT", "", "PRIMARY", "", "COPIES", "", "OF SHARE", "")
_NODE = re.compile(r"(?P<name>[^=:]+)(?:=(?P<weight>[^:]*))?(?::(?P<zone>.*))?", re.DOTALL)


class NodeLoad(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The load of a node.

    *share* is its fair number of copies, *of_share* its copies as a fraction of them, and *arc* the
    fraction of the hash circle that leads to it.
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


Loads = Mapping[NodeId, NodeLoad]


@click.group(
    cls=SuggestingGroup,
    epilog=examples(
        "rota ring show --nodes 5 --zones 3",
        "rota ring plan --nodes 10 --shards 1024 --add n11",
    ),
)
@output_before
def ring() -> None:
    """Show the placement of shards, and the moves of a change; no node is needed."""


def _power_of_two(ctx: click.Context, param: click.Parameter, value: int) -> int:
    if not 1 <= value <= SHARD_COUNT_MAX or value & (value - 1):
        raise click.BadParameter(
            f"{value} is no power of two up to {SHARD_COUNT_MAX}; use a number such as 256",
            ctx,
            param,
        )
    return value


def _membership_options(command: F) -> F:
    for option in (
        output_option(("table", "json", "yaml")),
        click.option(
            "--replicas",
            "copies",
            type=click.IntRange(1, 7),
            default=3,
            show_default=True,
            help="Number of copies of each shard.",
        ),
        click.option(
            "--shards",
            "shard_count",
            default=256,
            show_default=True,
            callback=_power_of_two,
            help=f"Number of shards: a power of two, up to {SHARD_COUNT_MAX}.",
        ),
        click.option(
            "--zones",
            "zone_count",
            type=click.IntRange(1),
            help="Number of zones over which the nodes are distributed, if --nodes is a count.",
        ),
        click.option(
            "--nodes", metavar="NODES", required=True, help=f"A count, or a list of {NODE_FORM}."
        ),
    ):
        command = option(command)
    return command


@ring.command(
    epilog=examples(
        "rota ring show --nodes 5",
        "rota ring show --nodes a,b=2,c=0.5:east --shards 64 --replicas 2",
        "rota ring show --nodes 6 --zones 3 -o json",
    )
)
@_membership_options
def show(nodes: str, *, zone_count: int | None, shard_count: int, copies: int, form: str) -> None:
    """Show the share of each node."""
    members = read_members(nodes, zone_count or 0)
    placed = assign(members, shard_count, copies)
    loads, primaries = _loads(members, placed), placed.primary_loads()
    of_primaries = [primaries[node] / share for node, share in placed.primary_shares.items()]
    most, most_primaries = _most(loads), round(max(of_primaries, default=0.0), 4)
    warnings = _warnings(members, placed, copies)
    if form == "table":
        out(
            f"{shard_count} shards x {placed.copies} copies on "
            f"{counted(len(loads), 'node', 'nodes')}; the most loaded has {most:.2f} of its share,"
            f"\nof primaries {most_primaries:.2f}\n"
        )
        _print_nodes(loads, loads, warnings)
        return
    view = {
        "shards": shard_count,
        "copies": placed.copies,
        "zones": len({each.zone for each in loads.values()}),
        "copiesInZone": placed.zone_limit,
        "maxOfShare": most,
        "maxPrimariesOfShare": most_primaries,
        "nodes": list(loads.values()),
        "warnings": warnings,
        "shardsByPrimary": [node for each in placed.replica_sets for node in each[:1]],
    }
    print_document(view, form)


@ring.command(
    epilog=examples(
        "rota ring plan --nodes 10 --add n11",
        "rota ring plan --nodes 6 --zones 3 --remove n3",
        "rota ring plan --nodes a,b,c:east --weight a=0.5 --add d=2:west",
    )
)
@_membership_options
@click.option("--add", metavar=NODE_FORM, multiple=True, help="A new node. Repeatable.")
@click.option(
    "--remove", metavar="NAME", multiple=True, help="A node that leaves or drains. Repeatable."
)
@click.option(
    "--weight",
    "weights",
    metavar="NAME=WEIGHT",
    multiple=True,
    help="A new weight of a node. Repeatable.",
)
def plan(
    nodes: str,
    *,
    zone_count: int | None,
    shard_count: int,
    copies: int,
    form: str,
    add: tuple[str, ...],
    remove: tuple[str, ...],
    weights: tuple[str, ...],
) -> None:
    """Show the moves of a change, and the loads before and after."""
    if not (add or remove or weights):
        raise click.UsageError("name a change: --add, --remove or --weight")
    members = read_members(nodes, zone_count or 0)
    members_after = _changed(members, add=add, remove=remove, weights=weights)
    placed, placed_after = (assign(each, shard_count, copies) for each in (members, members_after))
    before, after = _loads(members, placed), _loads(members_after, placed_after)
    moved, total = movement(placed, placed_after), shard_count * placed_after.copies
    of_all = moved.copies / total if total else 0.0
    warnings = _warnings(members_after, placed_after, copies)
    if form == "table":
        out(
            f"{shard_count} shards x {placed_after.copies} copies: {moved.copies} copies of "
            f"{len(moved.shards)} shards move, {of_all:.1%} of all\n"
            f"{moved.of_least:.2f} times the least ({moved.least:.0f}); "
            f"{moved.handovers} shards get another primary\n"
            f"the most loaded node: {_most(before):.2f} of its share before, "
            f"{_most(after):.2f} after\n"
        )
        _print_nodes(before, after, warnings)
        return
    view = {
        "shards": shard_count,
        "copies": placed_after.copies,
        "moved": {
            "shards": len(moved.shards),
            "copies": moved.copies,
            "ofAll": round(of_all, 4),
            "least": round(moved.least, 2),
            "ofLeast": round(moved.of_least, 4),
            "handovers": moved.handovers,
        },
        "maxOfShareBefore": _most(before),
        "maxOfShareAfter": _most(after),
        "nodes": [
            {"node": node, "zone": zone, "before": before.get(node), "after": after.get(node)}
            for node, zone in {each.id: each.zone for each in (*members, *members_after)}.items()
        ],
        "warnings": warnings,
    }
    print_document(view, form)


def read_members(text: str, zone_count: int = 0) -> list[Member]:
    """Return the members of ``--nodes``: ``10`` is n1 to n10, in *zone_count* zones; or a list.

    Raises:
        click.UsageError: *text* has invalid members, or *zone_count* is given without a count.
    """
    if not (text.isascii() and text.isdecimal()):
        if zone_count:
            raise click.UsageError(
                "--zones needs a number of nodes, as in --nodes 6; in a list write NAME:ZONE"
            )
        return _checked([_member(each) for each in text.split(",")])
    if not 1 <= int(text) <= NODES_MAX:
        raise click.UsageError(f"--nodes {text} is out of range; use from 1 to {NODES_MAX}")
    return [
        Member(
            id=NodeId(f"n{number + 1}"), zone=f"z{1 + number % zone_count}" if zone_count else ""
        )
        for number in range(int(text))
    ]


def _member(text: str) -> Member:
    found = _NODE.fullmatch(text.strip())
    if found is None:
        raise click.UsageError(f"{text!r} is not {NODE_FORM}, as in n1, n1=0.5 or n1=2:east")
    weight = 1.0 if found["weight"] is None else _weight(text, found["weight"])
    return Member(id=NodeId(found["name"]), weight=weight, zone=found["zone"] or "")


def _weight(text: str, weight: str) -> float:
    try:
        return float(weight)
    except ValueError as error:
        raise click.UsageError(f"{text!r}: {weight!r} is not a weight such as 0.5 or 2") from error


def _changed(
    members: Iterable[Member], *, add: Iterable[str], remove: Iterable[str], weights: Iterable[str]
) -> list[Member]:
    by_id = {member.id: member for member in members}
    for name in remove:
        del by_id[_known(by_id, name).id]
    for text in weights:
        name, _, weight = text.partition("=")
        before = _known(by_id, name)
        by_id[before.id] = msgspec.structs.replace(before, weight=_weight(text, weight))
    return _checked([*by_id.values(), *map(_member, add)])


def _known(by_id: Mapping[NodeId, Member], name: str) -> Member:
    member = by_id.get(NodeId(name))
    if member is None:
        names = ", ".join(list(by_id)[:10]) + (", ..." if len(by_id) > 10 else "")
        raise click.UsageError(f"there is no node {name!r}; the nodes are: {names}")
    return member


def _checked(members: list[Member]) -> list[Member]:
    problems = [
        f"node {members[int(each.pointer.split('/')[1])].id!r}: {each.detail}"
        for each in problems_of_members(members)
    ]
    if problems:
        raise click.UsageError("; ".join(problems))
    return members


def _loads(members: Iterable[Member], placed: Assignment) -> dict[NodeId, NodeLoad]:
    """Return the load of each node that gets shards, in the order of *members*."""
    loads, primaries = placed.loads(), placed.primary_loads()
    return {
        member.id: NodeLoad(
            node=member.id,
            zone=member.zone,
            weight=member.weight,
            primaries=primaries[member.id],
            backups=loads[member.id] - primaries[member.id],
            copies=loads[member.id],
            share=round(placed.shares[member.id], 2),
            of_share=round(loads[member.id] / placed.shares[member.id], 4),
            arc=round(placed.arcs[member.id], 4),
        )
        for member in members
        if member.id in placed.shares
    }


def _most(loads: Loads) -> float:
    return max((each.of_share for each in loads.values()), default=0.0)


def _print_nodes(before: Loads, after: Loads, warnings: Iterable[str]) -> None:
    """Print the loads of nodes, those that change with the value after an arrow."""
    print_table(
        TITLES,
        [_row(before.get(node), after.get(node)) for node in {**before, **after}],
        optional=("",),
    )
    for each in warnings:
        say(f"warning: {each}")


def _row(before: NodeLoad | None, after: NodeLoad | None) -> Sequence[str]:
    named = after or before
    assert named is not None
    texts = (_texts(each) if each else ["-"] * 4 for each in (before, after))
    pairs = zip(*texts, strict=True)
    cells = [cell for old, new in pairs for cell in (old, "" if new == old else f"-> {new}")]
    return [named.node, named.zone, f"{named.arc:.1%}", *cells]


def _texts(load: NodeLoad) -> list[str]:
    return [f"{load.weight:g}", str(load.primaries), str(load.copies), f"{load.of_share:.2f}"]


def _warnings(members: Sequence[Member], placed: Assignment, copies: int) -> list[str]:
    """Return warnings about too few nodes or zones, and about uneven shares."""
    holders = holders_of(members)
    said: list[str] = []
    if placed.copies < copies:
        count = counted(len(holders), "node", "nodes")
        said.append(f"{count} for {copies} copies: each shard has {placed.copies}")
    zones = {member.zone for member in holders}
    if placed.zone_limit > 1 and zones != {""}:
        count = counted(len(zones), "zone", "zones")
        said.append(
            f"{count} for {placed.copies} copies: a zone may hold {placed.zone_limit} of a shard"
        )
    if uneven := _off_their_weights(holders, placed):
        names = ", ".join(uneven[:5]) + (", ..." if len(uneven) > 5 else "")
        said.append(
            "spreading copies over nodes and zones does not allow shares by weight: "
            f"{names} (more than {WEIGHT_TOLERANCE:.0%} off)"
        )
    return said


def _off_their_weights(holders: Sequence[Member], placed: Assignment) -> list[str]:
    weights = sum(member.weight for member in holders)
    total = len(placed.replica_sets) * placed.copies
    parts = {
        member.id: placed.shares[member.id] / (total * member.weight / weights)
        for member in holders
    }
    return [
        f"{name} gets {part:.2f} of its part"
        for name, part in parts.items()
        if abs(part - 1) > WEIGHT_TOLERANCE
    ]
