"""``rota rerun``: run a finished execution again."""

from typing import Literal

import click
import msgspec

from rota.client.cli.display.printing import say
from rota.client.cli.display.show import show_one
from rota.client.cli.display.table_columns import TRIGGERED
from rota.client.cli.inputs.json_text import as_json_text
from rota.client.cli.inputs.options import (
    as_seconds,
    connect,
    dry_run_option,
    examples,
    execution_argument,
    format_option,
    namespace_option,
    url_option,
)
from rota.client.cli.jobs.awaited_end import wait_for_end
from rota.wire.documents import Json


@click.command(
    epilog=examples(
        "rota rerun report@latest",
        "rota rerun report@latest --from load --wait",
        "rota rerun report@latest --all -p day=2027-01-01",
        "rota rerun report@latest --all --latest",
    ),
)
@execution_argument
@click.option(
    "--failed",
    "is_failed",
    is_flag=True,
    help="Run the failed tasks, and those that need them; the default unless it succeeded.",
)
@click.option("--from", "from_task", metavar="TASK", help="Run a task, and those that need it.")
@click.option("--all", "is_all", is_flag=True, help="Run all tasks.")
@click.option(
    "-p",
    "--parameter",
    "overrides",
    metavar="K=V",
    multiple=True,
    help="Change a member of its parameters; V is JSON, or a text. Repeatable.",
)
@click.option(
    "--parameters",
    metavar="JSON",
    callback=as_json_text,
    help="JSON that replaces its parameters; @FILE reads a file, - standard input.",
)
@click.option("--latest", "is_latest", is_flag=True, help="Use the latest definition of its job.")
@click.option(
    "--wait",
    "is_waited_for",
    is_flag=True,
    help="Wait for its end, and print the output of a single task; exit with 1 unless it succeeds.",
)
@click.option(
    "-f",
    "--follow",
    "is_followed",
    is_flag=True,
    help="Wait, and print the output of all tasks as it is written.",
)
@click.option(
    "--timeout",
    "timeout_s",
    metavar="DURATION",
    callback=as_seconds,
    help="Maximum wait, such as 10m.",
)
@click.option(
    "--idempotency-key", metavar="KEY", help="The same key again gives the same execution."
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
    overrides: tuple[str, ...],
    parameters: Json,
    is_latest: bool,
    is_waited_for: bool,
    is_followed: bool,
    timeout_s: float | None,
    idempotency_key: str | None,
    is_dry: bool,
    namespace: str | None,
    form: str,
) -> int:
    """Run a finished execution again, as a new one.

    It has the same parameters and the same definition. Tasks that do not run again are kept with
    their results.
    """
    from rota.client.cli.inputs.execution_names import execution_id_of

    if is_failed + is_all + (from_task is not None) > 1:
        raise click.UsageError("choose one of --failed, --from and --all")
    if is_dry and (is_waited_for or is_followed):
        raise click.UsageError("a dry run makes no execution to wait for")
    tasks: Literal["failed", "all"] | None = "failed" if is_failed else "all" if is_all else None
    with connect() as client:
        made = client.rerun(
            execution_id_of(client, execution, namespace),
            tasks=tasks,
            from_task=from_task,
            parameters=parameters,
            overrides=dict(map(_override, overrides)),
            is_latest=is_latest,
            idempotency_key=idempotency_key,
            dry_run=is_dry,
        )
        if is_waited_for or is_followed:
            return wait_for_end(
                client, made.execution_id, form, is_followed=is_followed, timeout_s=timeout_s
            )
    show_one(made, TRIGGERED, form)
    if is_dry:
        say("dry run: nothing is changed")
    return 0


def _override(text: str) -> tuple[str, Json]:
    name, found, value = text.partition("=")
    if not found or not name:
        raise click.UsageError(f"{text!r} is not K=V, such as day=2027-01-01")
    try:
        return name, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return name, value
