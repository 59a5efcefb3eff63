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
    short_help="Repair a shard that stays closed.",
    epilog=examples("rota shard repair 17 --dry-run", "rota shard repair 17"),
)
@click.argument("number", type=click.IntRange(min=0))
@dry_run_option
@url_option
def repair(number: int, *, is_dry: bool) -> None:
    """Repair a shard that stays closed because a copy promised an epoch that is too high.

    The command raises the epoch of the shard in etcd above all promises; nothing is lost. It is
    refused if the shard needs no repair, if a copy that counts cannot be reached, and if a node has
    a newer configuration than etcd.
    """
    with connect() as client:
        view = client.repair_shard(number, dry_run=is_dry)
    for promise in view.promises:
        say(f"{promise.node_id}: promised epoch {promise.promised}, wrote {promise.written}")
    if view.unasked:
        say(f"nodes that did not respond: {', '.join(view.unasked)}")
    epochs = f"from epoch {view.epoch_before} to {view.epoch}"
    say(
        f"dry run: nothing is changed; shard {number} would go {epochs}"
        if is_dry
        else f"repaired shard {number}: {epochs}"
    )
