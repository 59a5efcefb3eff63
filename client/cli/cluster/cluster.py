"""``rota cluster``: nodes, shards with their copies, moves, and recovery."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import click
import msgspec

from rota.client.cli.cluster.cluster_views import (
    MEMBER,
    MOVE,
    SHARD,
    STATUS,
    StatusView,
    is_well,
    status_of,
)
from rota.client.cli.cluster.recovery import recover_coordination
from rota.client.cli.display import live_table
from rota.client.cli.display.live_table import WatchCommand, watch_option
from rota.client.cli.display.show import Look, print_facts, show_one
from rota.client.cli.human import counted
from rota.client.cli.inputs.command_groups import SuggestingGroup, output_before
from rota.client.cli.inputs.options import (
    complete_node,
    connect,
    examples,
    format_option,
    url_option,
)
from rota.wire.documents import ClusterView, MoveView, ShardView

V = TypeVar("V", bound=msgspec.Struct)

EX_DIFFERENT = 8


@click.group(
    cls=SuggestingGroup,
    epilog=examples(
        "rota cluster status",
        "rota cluster members -o wide",
        "rota cluster moves --watch",
    ),
)
@output_before
def cluster() -> None:
    """Show nodes, shards, and moves; recover etcd's state.

    Any node answers. Values of a node that does not respond are unknown: ? or null.
    """


cluster.add_command(recover_coordination)


@cluster.command(
    "status",
    short_help="Check nodes, shards and moves.",
    epilog=examples("rota cluster status", "rota cluster status -o json"),
)
@format_option
@url_option
def show_status(form: str) -> int:
    """Check that all nodes are alive and all shards on their target nodes; if not, exit with 8.

    After a change of the nodes, shards take some time to move: see `rota cluster moves`.
    """
    with connect() as client:
        status = status_of(client.cluster())
    if form in ("table", "wide"):
        _print_status(status)
    else:
        show_one(status, STATUS, form)
    return 0 if status.is_whole else EX_DIFFERENT


@cluster.command(
    "members",
    cls=WatchCommand,
    epilog=examples("rota cluster members", "rota cluster members -o wide"),
)
@watch_option
@format_option
@url_option
def list_members(form: str, watch_s: float | None) -> None:
    """List the nodes: state, load, number of copies."""
    _show(lambda view: view.nodes, MEMBER, form, watch_s)


@cluster.command(
    "shards",
    cls=WatchCommand,
    short_help="List the shards and their copies.",
    epilog=examples("rota cluster shards", "rota cluster shards --unwell"),
)
@click.option(
    "--node",
    metavar="NAME",
    shell_complete=complete_node,
    help="Only shards with a copy on this node.",
)
@click.option(
    "--unwell",
    "is_unwell",
    is_flag=True,
    help="Only shards without a primary, or with missing copies.",
)
@watch_option
@format_option
@url_option
def list_shards(node: str | None, *, is_unwell: bool, form: str, watch_s: float | None) -> None:
    """List the shards: primary, copies, and their lag."""

    def pick(view: ClusterView) -> list[ShardView]:
        return [
            shard
            for shard in view.shards
            if (node is None or any(each.node_id == node for each in shard.replicas))
            and not (is_unwell and is_well(shard, view.replicas))
        ]

    _show(pick, SHARD, form, watch_s, if_none="no such shards")


@cluster.command(
    "moves",
    cls=WatchCommand,
    short_help="List pending moves.",
    epilog=examples("rota cluster moves", "rota cluster moves -o jsonl"),
)
@watch_option
@format_option
@url_option
def list_moves(form: str, watch_s: float | None) -> None:
    """List the moves that are pending until every shard is on its target nodes.

    First a copy is made, then the primary changes, then the superfluous copy is removed.
    """

    def pick(view: ClusterView) -> list[MoveView]:
        return view.moves

    _show(pick, MOVE, form, watch_s, if_none="every shard is on its target nodes")


def _show(
    pick: Callable[[ClusterView], Sequence[V]],
    look: Look[V],
    form: str,
    watch_s: float | None,
    if_none: str = "",
) -> None:
    """Show the part of the cluster that *pick* returns, once or repeatedly."""
    with connect() as client:
        live_table.show(
            lambda: pick(client.cluster()),
            look=look,
            form=form,
            watch_s=watch_s,
            if_none=if_none,
        )


def _print_status(status: StatusView) -> None:
    nodes = [f"{len(status.active)} active"]
    nodes += [
        f"{len(names)} {word}: {', '.join(names)}"
        for word, names in (("draining", status.draining), ("gone", status.gone))
        if names
    ]
    open_ones = "all open" if status.open == status.shards else f"{status.open} open"
    shards = [
        open_ones,
        *(
            f"{count} {words}"
            for count, words in (
                (status.closed, "without a primary"),
                (status.unknown, "whose primary does not answer"),
                (status.short_of_copies, f"with fewer than {status.replicas} copies"),
            )
            if count
        ),
    ]
    moves = [
        counted(*each)
        for each in (
            (status.copies, "copy to be made", "copies to be made"),
            (status.handovers, "handover", "handovers"),
            (status.removals, "copy to be removed", "copies to be removed"),
        )
        if each[0]
    ]
    lag = status.lag_max
    print_facts(
        [
            ("cluster", f"{status.cluster}, as {status.node_id} sees it"),
            ("nodes", "; ".join(nodes)),
            ("shards", f"{status.shards}: {', '.join(shards)}"),
            ("behind", "" if lag is None else f"at most {counted(lag, 'entry', 'entries')}"),
            ("moves", ", ".join(moves) or "none"),
            (
                "kept",
                f"{counted(status.kept, 'copy', 'copies')} on draining nodes: there is no other "
                "node for them, and without them too few would remain"
                if status.kept
                else "",
            ),
            *(("trouble", each) for each in status.troubles),
            *(("warning", each) for each in status.warnings),
        ]
    )
