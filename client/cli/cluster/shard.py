"""``rota shard``: repair, recovery and export of shards that do not open by themselves."""

import click

from rota.client.cli.cluster.recovery import recover
from rota.client.cli.cluster.shard_export import export
from rota.client.cli.display.printing import say
from rota.client.cli.inputs.command_groups import SuggestingGroup
from rota.client.cli.inputs.options import connect, dry_run_option, examples, url_option


@click.group(
    cls=SuggestingGroup,
    epilog=examples("rota shard repair 17 --dry-run", "rota shard recover --help"),
)
def shard() -> None:
    """Repair, recover or export a shard.

    Shards are named by their numbers: see `rota cluster shards`.
    """


shard.add_command(recover)
shard.add_command(export)


@shard.command(
    "repair",
    short_help="Free a shard that is closed by a promise.",
    epilog=examples("rota shard repair 17 --dry-run", "rota shard repair 17"),
)
@click.argument("number", type=click.IntRange(min=0))
@dry_run_option
@url_option
def repair(number: int, *, is_dry: bool) -> None:
    """Free a shard that is closed by a copy's promise of too high an epoch.

    Raises etcd's epoch of the shard above all promises; nothing is lost. It is refused if nothing
    is wrong, if a counted copy cannot be reached, and if etcd's records are older than a node's.
    """
    with connect() as client:
        view = client.repair_shard(number, dry_run=is_dry)
    for promise in view.promises:
        say(f"{promise.node_id}: promised epoch {promise.promised}, wrote {promise.written}")
    if view.unasked:
        say(f"not asked, because they cannot be reached: {', '.join(view.unasked)}")
    epochs = f"from epoch {view.epoch_before} to {view.epoch}"
    say(
        f"dry run: nothing is changed; shard {number} would go {epochs}"
        if is_dry
        else f"repaired shard {number}: {epochs}"
    )
