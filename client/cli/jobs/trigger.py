"""``rota trigger``: run a job now."""

import click

from rota.client.cli.display.printing import say
from rota.client.cli.display.show import show_one
from rota.client.cli.display.table_columns import TRIGGERED
from rota.client.cli.inputs.json_text import as_json_text
from rota.client.cli.inputs.options import (
    as_seconds,
    connect,
    dry_run_option,
    examples,
    format_option,
    job_argument,
    namespace_option,
    url_option,
)
from rota.client.cli.jobs.awaited_end import wait_for_end
from rota.wire.documents import Json


@click.command(
    epilog=examples(
        "rota trigger report",
        "rota trigger report --wait --timeout 10m",
        "rota trigger report --follow",
        """rota trigger report --parameters '{"day": "2027-01-01"}'""",
        "id=$(rota trigger report -o name)",
    )
)
@job_argument
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
    "--parameters",
    metavar="JSON",
    callback=as_json_text,
    help="JSON that overrides the job's parameters; @FILE reads a file, - standard input.",
)
@click.option(
    "--idempotency-key", metavar="KEY", help="The same key again gives the same execution."
)
@dry_run_option
@namespace_option
@format_option
@url_option
def trigger(
    job: str,
    *,
    is_waited_for: bool,
    is_followed: bool,
    timeout_s: float | None,
    parameters: Json,
    idempotency_key: str | None,
    is_dry: bool,
    namespace: str | None,
    form: str,
) -> int:
    """Start an execution of a job now."""
    if is_dry and (is_waited_for or is_followed):
        raise click.UsageError("a dry run makes no execution to wait for")
    with connect() as client:
        made = client.trigger(
            job,
            namespace=namespace,
            parameters=parameters,
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
