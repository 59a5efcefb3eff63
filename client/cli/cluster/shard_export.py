"""``rota shard export``: the data directory of a stopped node as lines of JSON."""

import subprocess
import sys
from importlib.util import find_spec

import click

from rota.client.cli.inputs.options import examples


@click.command(
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
