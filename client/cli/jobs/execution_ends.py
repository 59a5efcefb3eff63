"""``rota executions cancel`` and ``rota executions wait``: the end of executions."""

from typing import TYPE_CHECKING

import click

from rota.client.cli.display.printing import say
from rota.client.cli.display.show import show_many
from rota.client.cli.display.table_columns import EXECUTION
from rota.client.cli.inputs.options import (
    as_seconds,
    complete_execution,
    connect,
    dry_run_option,
    examples,
    executions_argument,
    format_option,
    namespace_option,
    url_option,
)
from rota.client.cli.jobs.job_selection import Selection

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client


@click.command(
    "cancel",
    epilog=examples(
        "rota executions cancel report@latest",
        "rota executions cancel ID ID",
        "rota executions cancel --label team=core --yes",
    ),
)
@click.argument("named", metavar="[EXECUTION...]", nargs=-1, shell_complete=complete_execution)
@click.option(
    "-l",
    "--label",
    "labels",
    metavar="K[=V]",
    multiple=True,
    help="All unfinished executions of jobs of the namespace with this label. Repeatable.",
)
@click.option("--all", "is_all", is_flag=True, help="All unfinished executions of the namespace.")
@click.option("--force", "is_forced", is_flag=True, help="Stop teardowns, too.")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask for confirmation.")
@dry_run_option
@namespace_option
@format_option
@url_option
def cancel_executions(
    named: tuple[str, ...],
    *,
    labels: tuple[str, ...],
    is_all: bool,
    is_forced: bool,
    is_sure: bool,
    is_dry: bool,
    namespace: str | None,
    form: str,
) -> None:
    """Cancel executions: their attempts get SIGTERM, and SIGKILL after the stop grace."""
    from rota.client.cli.inputs.execution_names import execution_id_of

    selection = Selection(named, labels, is_all, namespace, is_sure, what="executions")
    with connect() as client:
        if named:
            ids = [execution_id_of(client, each, namespace) for each in named]
        else:
            ids = _unfinished(client, selection)
            selection.confirm("cancel", "execution", len(ids), is_dry=is_dry)
        # What ended by itself was not cancelled; what is named may have been cancelled before.
        over = {each for each in ids if named and client.execution(each).finished_at is not None}
        views = [client.cancel(each, force=is_forced, dry_run=is_dry) for each in ids]
    show_many(views, EXECUTION, form)
    for view in views:
        if view.execution_id in over or view.status in ("success", "failed"):
            say(f"{view.execution_id} had ended before ({view.status}); it is not changed")
    if is_dry:
        say("dry run: nothing is changed")


def _unfinished(client: "Client", selection: Selection) -> list[str]:
    """Return the unfinished executions of the selected jobs, or of the whole namespace."""
    jobs = [None] if selection.is_all else selection.named(client)
    return [
        each.execution_id
        for job in jobs
        for status in ("queued", "running")
        for each in client.executions(namespace=selection.within, job=job, status=status)
    ]


@click.command(
    "wait", epilog=examples("rota executions wait report@latest", "rota executions wait ID ID")
)
@executions_argument
@click.option(
    "--timeout",
    "timeout_s",
    metavar="DURATION",
    callback=as_seconds,
    help="Maximum wait, such as 10m.",
)
@namespace_option
@format_option
@url_option
def wait_for_executions(
    named: tuple[str, ...], *, timeout_s: float | None, namespace: str | None, form: str
) -> int:
    """Wait until executions have ended; exit with 1 unless all succeed."""
    from rota.client.cli.inputs.execution_names import execution_id_of

    with connect() as client:
        ids = [execution_id_of(client, each, namespace) for each in named]
        views = client.wait_many(ids, timeout_s=timeout_s)
    show_many(views, EXECUTION, form)
    return 0 if all(view.status == "success" for view in views) else 1
