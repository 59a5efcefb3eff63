"""``rota trigger``: run a job now."""

from typing import Any

import click

from rota.client.cli.inputs.json_text import as_json_text
from rota.client.cli.inputs.options import (
    connect,
    dry_run_option,
    examples,
    format_option,
    job_argument,
    namespace_option,
    url_option,
)
from rota.client.cli.jobs.awaited_end import Waiting, show_started, waiting_options
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
@waiting_options
@click.option(
    "--parameters",
    metavar="JSON",
    callback=as_json_text,
    help="JSON that replaces the job's parameters; @FILE is a file, - is standard input.",
)
@click.option(
    "--idempotency-key",
    metavar="KEY",
    help="A repetition with the same key returns the same execution.",
)
@dry_run_option
@namespace_option
@format_option
@url_option
def trigger(
    job: str,
    *,
    parameters: Json,
    idempotency_key: str | None,
    is_dry: bool,
    namespace: str | None,
    form: str,
    **waiting: Any,  # of `waiting_options`
) -> int:
    """Start an execution of a job now."""
    wait = Waiting(is_dry=is_dry, **waiting)
    with connect() as client:
        made = client.trigger(
            job,
            namespace=namespace,
            parameters=parameters,
            idempotency_key=idempotency_key,
            dry_run=is_dry,
        )
        return show_started(client, made, wait, form)
