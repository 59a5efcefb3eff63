"""``rota node``: what an operator says of a node: to hold nothing, to hold its part, to be no more.

It is said to any node; the one that it is about need not even run.
"""

from collections.abc import Callable
from time import perf_counter, sleep

import click

from rota.client.cli.cluster.cluster_views import left_to_drain, node_in
from rota.client.cli.display.printing import say
from rota.client.cli.human import counted
from rota.client.cli.inputs.command_groups import SuggestingGroup
from rota.client.cli.inputs.options import (
    as_seconds,
    complete_node,
    connect,
    dry_run_option,
    examples,
    url_option,
)
from rota.core.errors import RotaError
from rota.wire.documents import ClusterView

LOOK_S = 0.5


class NotDrained(RotaError):
    """A node still holds or runs something when the time for waiting is over; it goes on."""

    code = "not_drained"


@click.group(
    cls=SuggestingGroup,
    epilog=examples("rota node drain n3 --wait", "rota node undrain n3", "rota node forget n3"),
)
def node() -> None:
    """Drain a node, take it back, forget it.

    Nodes are named by their ids: see `rota cluster members`.
    """


@node.command(
    "drain",
    short_help="Have a node hold nothing.",
    epilog=examples("rota node drain n3", "rota node drain n3 --wait --timeout 10m"),
)
@click.argument("name", shell_complete=complete_node)
@click.option(
    "--wait",
    "is_waiting",
    is_flag=True,
    help="Until it holds nothing that can go, and runs nothing.",
)
@click.option(
    "--timeout",
    "timeout_s",
    metavar="DURATION",
    callback=as_seconds,
    help="Wait no longer, and exit with 7; the node goes on draining.",
)
@dry_run_option
@url_option
def drain(name: str, *, is_waiting: bool, timeout_s: float | None, is_dry: bool) -> None:
    """Have a node hold nothing: its shards go to others, and no execution is interrupted.

    It stays so, also when it is started again, until `rota node undrain`. Where there is no other
    node for its copies they go all the same, as long as enough of each shard remain. Those that are
    needed stay: if the node is stopped then, nothing is written to their shards until it is back.
    """
    with connect() as client:
        client.drain_node(name, dry_run=is_dry)
        if is_dry:
            say(f"dry run: nothing is changed; {name} would be drained")
        elif is_waiting:
            _wait_drained(client.cluster, name, timeout_s)
        else:
            say(f"draining {name}; see `rota cluster moves`")


@node.command("undrain", epilog=examples("rota node undrain n3"))
@click.argument("name", shell_complete=complete_node)
@dry_run_option
@url_option
def undrain(name: str, *, is_dry: bool) -> None:
    """Have a node hold its part again."""
    with connect() as client:
        client.undrain_node(name, dry_run=is_dry)
    say(
        f"dry run: nothing is changed; {name} would hold its part"
        if is_dry
        else f"undrained {name}"
    )


@node.command(
    "forget", short_help="Forget a node that is gone.", epilog=examples("rota node forget n3")
)
@click.argument("name", shell_complete=complete_node)
@dry_run_option
@url_option
def forget(name: str, *, is_dry: bool) -> None:
    """Forget a node that will not come back; it must not run, nor hold copies that count."""
    with connect() as client:
        client.forget_node(name, dry_run=is_dry)
    say(f"dry run: nothing is changed; {name} would be forgotten" if is_dry else f"forgot {name}")


def _wait_drained(look: Callable[[], ClusterView], name: str, timeout_s: float | None) -> None:
    """Wait until a node is drained, and tell how far it is whenever that changes.

    Raises:
        NotDrained: It takes too long.
    """
    give_up_at = None if timeout_s is None else perf_counter() + timeout_s
    told = ""
    while True:
        view = look()
        left = left_to_drain(view, name)
        if not left:
            say(_drained(view, name))
            return
        if left != told:
            told = left
            say(f"{name}: {left}")
        if give_up_at is not None and perf_counter() > give_up_at:
            raise NotDrained(f"{name} is not drained yet: {left}")
        sleep(LOOK_S)


def _drained(view: ClusterView, name: str) -> str:
    node = node_in(view, name)
    assert node is not None, "it was there when it was found drained"
    if not node.backups:
        return f"drained {name}"
    stay = counted(node.backups, "copy stays", "copies stay")
    return (
        f"drained {name}; {stay}, for there is no other node, and too few would remain: while "
        f"{name} is stopped nothing is written to their shards"
    )
