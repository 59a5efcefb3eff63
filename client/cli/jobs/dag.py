"""``rota dag``: the graph of the tasks of a job or of an execution."""

from typing import TYPE_CHECKING

import click

from rota.client.cli.display.printing import one_line, out, say
from rota.client.cli.inputs.command_groups import namespace_before
from rota.client.cli.inputs.options import (
    complete_job,
    connect,
    examples,
    namespace_option,
    url_option,
)

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client
    from rota.wire.documents import JobView, TaskView

FORMATS = ("text", "mermaid")


@click.group(epilog=examples("rota dag show report", "rota dag show report@latest"))
@namespace_before
def dag() -> None:
    """Show the tasks of a job or of an execution as a graph."""


@dag.command(
    "show",
    epilog=examples(
        "rota dag show report",
        "rota dag show report@latest",
        "rota dag show @latest",
        "rota dag show report --format mermaid",
    ),
)
@click.argument("named", metavar="JOB|EXECUTION", shell_complete=complete_job)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    show_default=True,
    help="Lines of text, or a flowchart of Mermaid for GitHub and others.",
)
@namespace_option
@url_option
def show_dag(named: str, *, form: str, namespace: str | None) -> None:
    """Show the tasks of a job or of an execution as a graph.

    The tasks of an execution have their states, and loops the counts of their steps. An execution
    is named by its id, @latest or JOB@latest; another name is that of a job.
    """
    from rota.client.cli.jobs.dag_text import mermaid_lines, text_lines

    with connect() as client:
        job, states = _graph(client, named, namespace)
    draw = mermaid_lines if form == "mermaid" else text_lines
    for line in draw(job.tasks, states):
        out(one_line(line))
    if job.broken:
        say(job.broken)


def _graph(
    client: "Client", named: str, namespace: str | None
) -> "tuple[JobView, dict[str, TaskView]]":
    """Return a job with the tasks as defined, and the tasks of an execution by name.

    Raises:
        NotFound: There is no such job or execution, or the version of the job that the execution
            ran is no longer stored.
        NoExecution: The job, or the cluster, has no execution yet.
        click.UsageError: The word after the ``@`` is not ``latest``.
    """
    from rota.client.cli.inputs.execution_names import execution_id_of
    from rota.core.model.ids import is_execution_id

    if "@" not in named and not is_execution_id(named):
        return client.job(named, namespace=namespace), {}
    execution = client.execution(execution_id_of(client, named, namespace))
    job = client.job(execution.job_id, version=execution.job_version)
    return job, execution.tasks or {}
