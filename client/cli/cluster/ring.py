"""``rota ring``: the placement of shards for any membership, without a cluster."""

from collections.abc import Callable
from string import ascii_letters, digits
from typing import Any, TypeVar

import click

from rota.client.cli.cluster.ring_views import NodeLoad, PlanView, RingView, plan_view, ring_view
from rota.client.cli.display.printing import out, say
from rota.client.cli.display.show import Look, print_table, show_one
from rota.client.cli.inputs.command_groups import SuggestingGroup, output_before
from rota.client.cli.inputs.options import examples
from rota.client.cli.inputs.ring_members import NODE_FORM, changed, read_members
from rota.ring.assignment import assign
from rota.ring.movement import movement
from rota.ring.placement import SHARD_COUNT_MAX

F = TypeVar("F", bound=Callable[..., Any])  # Any: options apply to any command

BAR_WIDTH = 24
"""The width of the bar for a load of twice the fair share, in characters."""
MAP_WIDTH, MAP_HEIGHT_MAX = 64, 16
MARKS = ascii_letters + digits
"""The marks of nodes in the map of shards; with more nodes than marks, there is no map."""


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


def _membership_options(command: F) -> F:
    for option in (
        click.option(
            "-o",
            "--output",
            "form",
            type=click.Choice(("table", "json", "yaml")),
            metavar="FORM",
            default="table",
            help="table, json or yaml.  [default: table]",
        ),
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
            "--nodes",
            "nodes",
            metavar="NODES",
            required=True,
            help=f"Nodes: a count, a list of {NODE_FORM}, or a file in YAML or JSON.",
        ),
    ):
        command = option(command)
    return command


def _power_of_two(ctx: click.Context, param: click.Parameter, value: int) -> int:
    if not 1 <= value <= SHARD_COUNT_MAX or value & (value - 1):
        raise click.BadParameter(
            f"{value} is no power of two up to {SHARD_COUNT_MAX}; use a number such as 256",
            ctx,
            param,
        )
    return value


@ring.command(
    epilog=examples(
        "rota ring show --nodes 5",
        "rota ring show --nodes a,b=2,c=0.5:east --shards 64 --replicas 2",
        "rota ring show --nodes members.yaml -o json",
    )
)
@_membership_options
def show(nodes: str, *, zone_count: int | None, shard_count: int, copies: int, form: str) -> None:
    """Draw the ring and the share of each node."""
    members = read_members(nodes, zone_count or 0)
    view = ring_view(members, assign(members, shard_count, copies), copies)
    if form != "table":
        show_one(view, _RING, form)
        return
    _draw(view)
    _warn(view.warnings)


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
    members_after = changed(members, add=add, remove=remove, weights=weights)
    before = assign(members, shard_count, copies)
    after = assign(members_after, shard_count, copies)
    view = plan_view((members, before), (members_after, after), movement(before, after), copies)
    if form != "table":
        show_one(view, _PLAN, form)
        return
    _print_plan(view)
    _warn(view.warnings)


def _print_plan(view: PlanView) -> None:
    moved = view.moved
    out(
        f"{view.shards} shards x {view.copies} copies: {moved.copies} copies of {moved.shards} "
        f"shards move, {moved.of_all:.1%} of all\n"
        f"{moved.of_least:.2f} times the least ({moved.least:.0f}); "
        f"{moved.handovers} shards get another primary\n"
        f"the most loaded node: {view.max_of_share_before:.2f} of its share before, "
        f"{view.max_of_share_after:.2f} after\n"
    )
    rows = [
        [
            each.node,
            each.zone,
            *_before_after(each.before, each.after, lambda load: f"{load.weight:g}"),
            *_before_after(each.before, each.after, lambda load: str(load.primaries)),
            *_before_after(each.before, each.after, lambda load: str(load.copies)),
            *_before_after(each.before, each.after, lambda load: f"{load.of_share:.2f}"),
        ]
        for each in view.nodes
    ]
    titles = ("NODE", "ZONE", "WEIGHT", "", "PRIMARY", "", "COPIES", "", "OF SHARE", "")
    print_table(titles, rows)


def _before_after(
    before: NodeLoad | None, after: NodeLoad | None, text: Callable[[NodeLoad], str]
) -> tuple[str, str]:
    """Return two cells, the second of which is empty if nothing changes."""
    old, new = (text(each) if each else "-" for each in (before, after))
    return old, "" if new == old else f"-> {new}"


def _draw(view: RingView) -> None:
    marks = dict(zip((each.node for each in view.nodes), MARKS, strict=False))
    has_map = len(view.nodes) <= len(MARKS) and view.copies > 0
    out(
        f"{view.shards} shards x {view.copies} copies on {len(view.nodes)} nodes; the most "
        f"loaded has {view.max_of_share:.2f} of its share,\n"
        f"of primaries {view.max_primaries_of_share:.2f}\n"
    )
    if has_map:
        _print_map([marks[node] for node in view.shards_by_primary])
    rows = [
        [
            marks[each.node] if has_map else "",
            each.node,
            each.zone,
            f"{each.weight:g}",
            f"{each.arc:.1%}",
            str(each.primaries),
            str(each.backups),
            f"{each.of_share:.2f}",
            _bar(each),
        ]
        for each in view.nodes
    ]
    titles = ("", "NODE", "ZONE", "WEIGHT", "ARC", "PRIM", "BACKUP", "OF SHARE", _SCALE)
    print_table(titles, rows)
    out("\n# primary  = backup  | fair share")


def _print_map(marks: list[str]) -> None:
    """Print the primaries of the shards, clockwise; of many shards, those of every n-th shard."""
    step = max(1, len(marks) // (MAP_WIDTH * MAP_HEIGHT_MAX))
    shown = marks[::step]
    every = "each shard" if step == 1 else f"every {step}th shard"
    out(f"the circle clockwise, by the primary of {every}:")
    for start in range(0, len(shown), MAP_WIDTH):
        row = "".join(shown[start : start + MAP_WIDTH])
        out(f"{start * step:>6}  {row}")
    out("")


_SCALE = "0".ljust(BAR_WIDTH // 2) + "1".ljust(BAR_WIDTH // 2) + "2"


def _bar(load: NodeLoad) -> str:
    """Return a load as a bar with a mark at the fair share; it ends at twice the fair share."""
    if not load.share:
        return ""
    fair = BAR_WIDTH // 2
    primaries = round(fair * load.primaries / load.share)
    copies = min(round(fair * load.of_share), BAR_WIDTH)
    bar = ("#" * primaries + "=" * (copies - primaries)).ljust(fair + 1)
    return bar[:fair] + ("|" if copies <= fair else "+") + bar[fair + 1 :]


def _warn(warnings: list[str]) -> None:
    for each in warnings:
        say(f"warning: {each}")


_RING: Look[RingView] = Look(name=lambda view: str(view.shards), columns=())
_PLAN: Look[PlanView] = Look(name=lambda view: str(view.shards), columns=())
