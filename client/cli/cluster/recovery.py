"""``rota cluster recover-coordination`` and ``rota shard recover``: after a loss of state."""

from collections import Counter
from collections.abc import Sequence

import click

from rota.client.cli.display.printing import say
from rota.client.cli.human import counted
from rota.client.cli.inputs.options import (
    complete_node,
    connect,
    dry_run_option,
    examples,
    url_option,
)
from rota.wire.documents import RecoveryView, ShardLossView, ShardRecoveryView

EX_CLOSED = 8
NAMED_MAX = 10
RECOVERED, FOUNDED = "recovered", "founded"
WHY_CLOSED = {
    "changed": "the configuration changed during the recovery: run the command again",
    "no_copy": "no copy that counts is left",
    "unknown_configuration": "a node promised an epoch whose configuration no node has seen",
    "forked": "nodes continued in two ways, and no copy has every acknowledged write",
    "unsure": "missing nodes may have the last writes: start one with its data, or add "
    "--accept-loss",
}

without_option = click.option(
    "--without",
    multiple=True,
    metavar="NODE",
    shell_complete=complete_node,
    help="A node that is stopped and lost for good. Repeatable.",
)


@click.command(
    "recover-coordination",
    short_help="Restore the state that etcd lost.",
    epilog=examples(
        "rota cluster recover-coordination --dry-run",
        "rota cluster recover-coordination",
        "rota cluster recover-coordination --without n3",
    ),
)
@without_option
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Also recover shards whose last writes may be on missing nodes only.",
)
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask for confirmation.")
@dry_run_option
@url_option
def recover_coordination(
    without: tuple[str, ...], *, accept_loss: bool, is_sure: bool, is_dry: bool
) -> int:
    """Restore the state that etcd lost: the configurations of all shards, as nodes have seen them.

    Use this command after etcd was restored from a snapshot, emptied or replaced. All nodes have to
    run, except those that --without names. Each shard opens with the copies that have every
    acknowledged write. If these copies are not certain, the shard stays closed, and the command
    exits with 8, also as a dry run.
    """
    with connect() as client:
        if is_dry or not is_sure:
            plan = client.recover_coordination(
                without=without, accept_loss=accept_loss, dry_run=True
            )
            is_any_closed = show_plan(plan, is_dry=True)
            if is_dry:
                say("dry run: nothing is changed")
                return EX_CLOSED if is_any_closed else 0
        if not is_sure:
            click.confirm("write this to etcd?", abort=True, err=True)
        view = client.recover_coordination(without=without, accept_loss=accept_loss)
    return EX_CLOSED if show_plan(view, is_dry=False) else 0


def show_plan(view: RecoveryView, *, is_dry: bool) -> bool:
    """Print the recovered and the closed shards; return True if any shard is closed."""
    closed: dict[str, list[ShardRecoveryView]] = {}
    for shard in view.shards:
        if shard.outcome not in (RECOVERED, FOUNDED):
            closed.setdefault(shard.outcome, []).append(shard)
    done = [shard for shard in view.shards if shard.outcome == RECOVERED]
    verb = "would recover" if is_dry else "recovered"
    say(f"{verb} {counted(len(done), 'shard', 'shards')} in generation {view.generation}")
    by_copies = Counter(len(each.copies) for each in done)
    for copies, count in sorted(by_copies.items()):
        say(f"  with {counted(copies, 'copy', 'copies')}: {counted(count, 'shard', 'shards')}")
    founded = [shard for shard in view.shards if shard.outcome == FOUNDED]
    if founded:
        say(
            f"  {'to be founded' if is_dry else 'founded'}, because no node has data of them: "
            f"{_named(founded)}"
        )
    for outcome, shards in sorted(closed.items()):
        say(f"closed: {_named(shards)}: {WHY_CLOSED.get(outcome, outcome)}")
    if set(closed) - {"changed"}:
        say("see `rota shard recover`, which opens a shard from one copy")
    return bool(closed)


def _named(shards: Sequence[ShardRecoveryView]) -> str:
    """Return the numbers of the first `NAMED_MAX` shards."""
    more = ", …" * (len(shards) > NAMED_MAX)
    return ", ".join(str(each.shard) for each in shards[:NAMED_MAX]) + more


@click.command(
    "recover",
    short_help="Open a shard from a copy that does not count.",
    epilog=examples(
        "rota shard recover 17 --from n3 --without n1 --without n2 --dry-run",
        "rota shard recover 17 --from n3 --without n1 --without n2 --accept-loss",
    ),
)
@click.argument("numbers", metavar="SHARD...", nargs=-1, required=True, type=click.IntRange(min=0))
@click.option(
    "--from",
    "source",
    metavar="NODE",
    required=True,
    shell_complete=complete_node,
    help="The node whose copy becomes the only one that counts.",
)
@without_option
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Accept the loss of acknowledged writes that this copy does not have.",
)
@dry_run_option
@url_option
def recover(
    numbers: tuple[int, ...],
    *,
    source: str,
    without: tuple[str, ...],
    accept_loss: bool,
    is_dry: bool,
) -> None:
    """Open shards from a copy that does not count, if no copy that counts is left.

    Writes acknowledged after the copy's last entry are lost; --dry-run shows the time of that
    entry. The command is refused while a node with a copy that counts answers. Nodes that --without
    names must be stopped, and may start again only with an empty data directory.
    """
    with connect() as client:
        for number in numbers:
            view = client.recover_shard(
                number, source, without=without, accept_loss=accept_loss, dry_run=is_dry
            )
            _show_loss(view, is_dry=is_dry)
    if is_dry:
        say("dry run: nothing is changed")


def _show_loss(view: ShardLossView, *, is_dry: bool) -> None:
    verb = "would recover" if is_dry else "recovered"
    say(f"{verb} shard {view.shard} from {view.node_id}, under epoch {view.epoch}")
    last = f"entry {view.last_index}, of {view.last_at}" if view.last_at else "no entry"
    say(f"  its copy ends with {last}: writes acknowledged later are lost")
    if view.missing:
        say(f"  copies that counted and are missing: {', '.join(view.missing)}")
    if not is_dry:
        say(f"  recorded on {view.recorded_on}, in RECOVERIES in its data directory")
