"""``rota rerun``: run a finished execution again."""

from typing import Any, Literal

import click

from rota.client.cli.inputs.options import (
    connect,
    dry_run_option,
    examples,
    execution_argument,
    format_option,
    namespace_option,
    url_option,
)
from rota.client.cli.inputs.parameters import members_of, parameters_options
from rota.client.cli.jobs.awaited_end import Waiting, show_started, waiting_options
from rota.wire.documents import Json


@click.command(
    epilog=examples(
        "rota rerun report@latest",
        "rota rerun report@latest --from load --wait",
        "rota rerun report@latest --all -p day=2027-01-01",
        "rota rerun report@latest --all --latest",
        "rota rerun release@latest --mark-success check",
    ),
)
@execution_argument
@click.option(
    "--failed",
    "is_failed",
    is_flag=True,
    help="Run the failed tasks and those that need them; the default unless the execution "
    "succeeded.",
)
@click.option("--from", "from_task", metavar="TASK", help="Run this task and those that need it.")
@click.option("--all", "is_all", is_flag=True, help="Run all tasks.")
@click.option(
    "--mark-success",
    "marked",
    metavar="TASK",
    multiple=True,
    help="Count this task as successful, and do not run it; may be repeated.",
)
@parameters_options
@click.option("--latest", "is_latest", is_flag=True, help="Use the latest definition of its job.")
@waiting_options
@click.option(
    "--idempotency-key",
    metavar="KEY",
    help="A repetition with the same key returns the same execution.",
)
@dry_run_option
@namespace_option
@format_option
@url_option
def rerun(
    execution: str,
    *,
    is_failed: bool,
    from_task: str | None,
    is_all: bool,
    marked: tuple[str, ...],
    overrides: tuple[str, ...],
    parameters: Json,
    is_latest: bool,
    idempotency_key: str | None,
    is_dry: bool,
    namespace: str | None,
    form: str,
    **waiting: Any,  # of `waiting_options`
) -> int:
    """Run a finished execution again, as a new one.

    By default, the new execution has the same parameters and the same definition. Tasks that do not
    run again are kept with their results.
    """
    from rota.client.cli.inputs.execution_names import execution_id_of

    if is_failed + is_all + (from_task is not None) > 1:
        raise click.UsageError("choose one of --failed, --from and --all")
    wait = Waiting(is_dry=is_dry, **waiting)
    tasks: Literal["failed", "all"] | None = "failed" if is_failed else "all" if is_all else None
    with connect() as client:
        made = client.rerun(
            execution_id_of(client, execution, namespace),
            tasks=tasks,
            from_task=from_task,
            mark_success=marked,
            parameters=parameters,
            overrides=members_of(overrides),
            is_latest=is_latest,
            idempotency_key=idempotency_key,
            dry_run=is_dry,
        )
        return show_started(client, made, wait, form)
