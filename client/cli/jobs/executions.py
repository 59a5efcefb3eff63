"""``rota executions``: the commands about executions."""

import click

from rota.client.cli.inputs.command_groups import (
    Entry,
    ListingGroup,
    namespace_before,
    output_before,
)
from rota.client.cli.inputs.options import examples

COMMANDS = {
    "list": Entry(
        "rota.client.cli.jobs.execution_views:list_executions",
        "List executions, latest fire time first.",
    ),
    "show": Entry(
        "rota.client.cli.jobs.execution_views:show_execution",
        "Show an execution: its tasks and their attempts.",
    ),
    "cancel": Entry("rota.client.cli.jobs.execution_ends:cancel_executions", "End executions."),
    "wait": Entry(
        "rota.client.cli.jobs.execution_ends:wait_for_executions",
        "Wait until executions have ended.",
    ),
}


class _Executions(ListingGroup):
    lists_names = True
    for_jobs = "`rota executions list {job}` lists its executions."


@click.group(
    cls=_Executions,
    entries=COMMANDS,
    epilog=examples(
        "rota executions",
        "rota executions report",
        "rota executions list report --status failed",
        "rota executions show @latest",
        "rota executions wait report",
    ),
)
@namespace_before
@output_before
def executions() -> None:
    """List, show, cancel and wait for executions; without a command, list the latest.

    `rota executions JOB` lists those of a job, unless JOB resembles a command.

    An execution is named by its id. @latest is the latest of all executions, JOB or JOB@latest the
    latest of a job.
    """
