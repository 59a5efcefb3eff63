"""``rota executions cancel`` and ``wait``: the end of executions."""

import click

from rota.client.cli.display.printing import say
from rota.client.cli.display.show import show_many
from rota.client.cli.display.table_columns import EXECUTION
from rota.client.cli.inputs.options import (
    as_seconds,
    connect,
    dry_run_option,
    examples,
    executions_argument,
    format_option,
    namespace_option,
    url_option,
)


@click.command(
    "cancel",
    epilog=examples("rota executions cancel report@latest", "rota executions cancel ID ID"),
)
@executions_argument
@dry_run_option
@namespace_option
@format_option
@url_option
def cancel_executions(
    named: tuple[str, ...], *, is_dry: bool, namespace: str | None, form: str
) -> None:
    """Cancel executions: their tasks get TERM, then KILL after the grace."""
    from rota.client.cli.inputs.execution_names import execution_id_of

    with connect() as client:
        ids = [execution_id_of(client, each, namespace) for each in named]
        views = [client.cancel(each, dry_run=is_dry) for each in ids]
    show_many(views, EXECUTION, form)
    if is_dry:
        say("dry run: nothing is changed")


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
