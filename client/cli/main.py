"""The ``rota`` program: its commands and its exit statuses.

0  done                       5  it contradicts what exists
1  an execution failed        6  no node answered, or none could take it
2  wrong usage                7  the wait timed out; what it was for goes on
3  there is no such thing     8  there are differences
4  not allowed                9  the input is invalid
74  its output could not    130  interrupted
    be written              141  whoever read its output has gone

Nothing heavy is loaded before a command runs: listing them shall be instant.
"""

import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

import click

import rota
from rota.client.cli.display.printing import say
from rota.client.cli.inputs.command_groups import Entry, LazyGroup
from rota.client.cli.inputs.options import examples, url_option
from rota.client.cli.setup.completion import VARIABLE

EX_USAGE = 2
EX_IO = 74
EX_INTERRUPTED = 130
EX_UNREAD = 141
"""What a shell says of programs that SIGPIPE ends; Python ignores the signal."""

COMMANDS = {
    "dev": Entry("rota.client.cli.setup.dev:dev", "Run a node for trying things out."),
    "jobs": Entry("rota.client.cli.jobs.jobs:jobs", "List, show, create, change and delete jobs."),
    "trigger": Entry("rota.client.cli.jobs.trigger:trigger", "Run a job now."),
    "executions": Entry(
        "rota.client.cli.jobs.executions:executions", "List, show, cancel and wait for executions."
    ),
    "output": Entry("rota.client.cli.jobs.output:output", "Print what a task wrote."),
    "next": Entry(
        "rota.client.cli.jobs.next_fires:next_fires", "Show when a job, or a schedule, fires."
    ),
    "ledger": Entry(
        "rota.client.cli.jobs.ledger:ledger", "Show the outcome of each fire time of a job."
    ),
    "events": Entry("rota.client.cli.jobs.events:events", "Watch what happens, as it happens."),
    "config": Entry(
        "rota.client.cli.setup.config:config", "Keep URL, namespace and more in profiles."
    ),
    "completion": Entry(
        "rota.client.cli.setup.completion:completion",
        "Print a script by which a shell completes commands.",
    ),
    "cluster": Entry(
        "rota.client.cli.cluster.cluster:cluster",
        "Show nodes, shards, and moves; recover etcd's state.",
    ),
    "node": Entry("rota.client.cli.cluster.node:node", "Drain a node, take it back, forget it."),
    "shard": Entry("rota.client.cli.cluster.shard:shard", "Repair, recover or export a shard."),
    "ring": Entry(
        "rota.client.cli.cluster.ring:ring", "Show where shards would be, and what would move."
    ),
    "bench": Entry("rota.client.cli.setup.bench:bench", "Measure the cluster that is there."),
    "version": Entry("rota.client.cli.setup.version:version", "Show versions of client and node."),
}


@click.group(
    cls=LazyGroup,
    entries=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "rota dev",
        'rota jobs create hello --schedule "*/5 * * * *" -- echo hello',
        "rota trigger hello --wait",
        "rota executions",
    ),
)
@url_option
@click.version_option(rota.__version__, prog_name="rota")
def cli() -> None:
    """Schedule jobs, and see what became of them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command with *argv*, or the program's own arguments; return the exit status."""
    if sys.stdout is None:
        # Whoever closed it wants none of it; nor may a socket get its number.
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the end
    if VARIABLE in os.environ:
        return _complete()
    try:
        status = cli.main(
            args=None if argv is None else list(argv), prog_name="rota", standalone_mode=False
        )
        # Here, for at the end Python would tell of a failure in its own words.
        sys.stdout.flush()
    except (SystemExit, BrokenPipeError):
        # click catches the first broken pipe and exits with 1, which means something else here.
        _drop_output()
        return EX_UNREAD
    except OSError as error:
        _drop_output()
        say(f"error: {error}")
        return EX_IO
    except click.ClickException as error:
        told = io.StringIO()
        error.show(told)
        say(told.getvalue(), end="")
        return EX_USAGE
    except click.Abort:
        say("interrupted")
        return EX_INTERRUPTED
    except Exception as error:
        from rota.client.cli.failures import report

        return report(error)
    return status if isinstance(status, int) else 0


def _drop_output() -> None:
    """Let what is left to be printed go nowhere, so that it does not fail again at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _complete() -> int:
    """Tell a shell what may follow; what is wrong, if anything, is no word for who presses Tab."""
    with suppress(Exception):
        cli.main(prog_name="rota", complete_var=VARIABLE, standalone_mode=False)
    return 0
