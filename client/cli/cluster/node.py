"""``rota node``: drain, undrain and forget a node.

Any node can carry out the request; the node to be drained or forgotten need not run.
"""

from collections.abc import Callable
from time import perf_counter, sleep

import click

from rota.client.cli.cluster.cluster_views import left_to_drain, node_in
from rota.client.cli.display.printing import say, say_done
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
    """A node is not drained at the end of the wait; the draining continues."""

    code = "not_drained"


@click.group(
    cls=SuggestingGroup,
    epilog=examples("rota node drain n3 --wait", "rota node undrain n3", "rota node forget n3"),
)
def node() -> None:
    """Drain, undrain or forget a node.

    Nodes are named by their ids: see `rota cluster members`.
    """


@node.command(
    "drain",
    short_help="Move all shards from a node to other nodes.",
    epilog=examples("rota node drain n3", "rota node drain n3 --wait --timeout 10m"),
)
@click.argument("name", shell_complete=complete_node)
@click.option(
    "--wait",
    "is_waiting",
    is_flag=True,
    help="Wait until the node has no copy that can be moved, and runs no attempt.",
)
@click.option(
    "--timeout",
    "timeout_s",
    metavar="DURATION",
    callback=as_seconds,
    help="Maximum wait; after it, exit with 7 while the draining continues.",
)
@dry_run_option
@url_option
def drain(name: str, *, is_waiting: bool, timeout_s: float | None, is_dry: bool) -> None:
    """Drain a node: its shards move to other nodes, and no execution is interrupted.

    The node stays drained, also after a restart, until `rota node undrain`. A copy that no other
    node can take is removed nevertheless, as long as enough copies of its shard remain. Copies that
    are needed stay; while the node is stopped, their shards accept no writes.
    """
    if timeout_s is not None and not is_waiting:
        raise click.UsageError("--timeout limits a wait; add --wait, or omit it")
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
    """Undrain a node: move its share of the shards back to it."""
    with connect() as client:
        client.undrain_node(name, dry_run=is_dry)
    say_done("undrained", name, is_dry=is_dry)


@node.command(
    "forget", short_help="Forget a node that is gone.", epilog=examples("rota node forget n3")
)
@click.argument("name", shell_complete=complete_node)
@dry_run_option
@url_option
def forget(name: str, *, is_dry: bool) -> None:
    """Remove a node that is lost for good from the cluster.

    The node must not run, and none of its copies may count.
    """
    with connect() as client:
        client.forget_node(name, dry_run=is_dry)
    say(f"dry run: nothing is changed; {name} would be forgotten" if is_dry else f"forgot {name}")


def _wait_drained(look: Callable[[], ClusterView], name: str, timeout_s: float | None) -> None:
    """Wait until a node is drained, and print the remaining work whenever it changes.

    Raises:
        NotDrained: The node is not drained after *timeout_s*.
    """
    give_up_at = None if timeout_s is None else perf_counter() + timeout_s
    shown = ""
    while True:
        view = look()
        left = left_to_drain(view, name)
        if not left:
            say(_drained(view, name))
            return
        if left != shown:
            shown = left
            say(f"{name}: {left}")
        if give_up_at is not None and perf_counter() > give_up_at:
            raise NotDrained(
                f"{name} is not drained yet: {left}; the draining continues, see "
                "`rota cluster moves`"
            )
        sleep(LOOK_S)


def _drained(view: ClusterView, name: str) -> str:
    node = node_in(view, name)
    assert node is not None, "left_to_drain has found it"
    if not node.backups:
        return f"drained {name}"
    stay = counted(node.backups, "copy stays", "copies stay")
    return (
        f"drained {name}; {stay}, because no other node can take them and too few would remain; "
        f"while {name} is stopped, their shards accept no writes"
    )
