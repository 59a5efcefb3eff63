"""``rota shard``: repair, recovery and export of shards that do not open by themselves."""

import subprocess
import sys
from importlib.util import find_spec

import click

from rota.client.cli.cluster.recovery import recover
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


@shard.command(
    "export",
    short_help="Write the data of a stopped node to a file.",
    epilog=examples(
        "rota shard export --data-dir rota-data --output shards.jsonl",
        "rota shard export --data-dir rota-data --output 17.jsonl 17",
    ),
)
@click.argument("numbers", metavar="[SHARD]...", nargs=-1, type=click.IntRange(min=0))
@click.option("--data-dir", metavar="DIR", required=True, help="Data directory of a stopped node.")
@click.option("--output", metavar="FILE", required=True, help="File to create; it must not exist.")
def export(numbers: tuple[int, ...], data_dir: str, output: str) -> int:
    """Write the shards in a stopped node's data directory to a file, as lines of JSON.

    The file has the definitions of jobs, the executions with their tasks, and the ledger, of all
    shards unless some are named. The command needs no node and no etcd, and changes nothing. It
    refuses a directory that is in use.
    """
    # The export is a process of its own, since the client never imports the code of a node, whose
    # packages may be missing. This import loads an HTTP library, which help texts do not need.
    from rota.client.dev.local_node import NEEDS, NodeNotInstalled

    if missing := [name for name in NEEDS if find_spec(name) is None]:
        raise NodeNotInstalled(missing)
    flags = ("--data-dir", data_dir, "--output", output)
    argv = [sys.executable, "-P", "-m", "rota.node.shard_export", *flags, *map(str, numbers)]
    return subprocess.run(argv, stdin=subprocess.DEVNULL, check=False).returncode
