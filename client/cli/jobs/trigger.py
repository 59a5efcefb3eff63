"""``rota trigger``: run a job now."""

import sys
from pathlib import Path

import click
import msgspec

from rota.client.cli.display.printing import say
from rota.client.cli.display.progress import follow, print_failed_output
from rota.client.cli.display.show import show_one
from rota.client.cli.display.table_columns import EXECUTION, TRIGGERED
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
from rota.client.cli.jobs.execution_views import print_execution
from rota.wire.documents import Json


def _read(ctx: click.Context, param: click.Parameter, text: str | None) -> Json:
    if text is None:
        return None
    try:
        return msgspec.json.decode(_text_of(text))
    except OSError as error:
        detail = f"{error.filename}: {error.strerror}"
        raise click.BadParameter(detail, ctx, param) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{text!r} is not JSON: {error}", ctx, param) from error


def _text_of(text: str) -> str:
    if text == "-":
        return sys.stdin.read()
    return Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text


@click.command(
    epilog=examples(
        "rota trigger report",
        "rota trigger report --wait --timeout 10m",
        """rota trigger report --parameters '{"day": "2027-01-01"}'""",
        "id=$(rota trigger report -o name)",
    )
)
@job_argument
@click.option(
    "--wait",
    "is_waited_for",
    is_flag=True,
    help="Wait for its end; exit with 1 unless it succeeds.",
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
    callback=_read,
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
    timeout_s: float | None,
    parameters: Json,
    idempotency_key: str | None,
    is_dry: bool,
    namespace: str | None,
    form: str,
) -> int:
    """Start an execution of a job now."""
    if is_dry and is_waited_for:
        raise click.UsageError("a dry run makes no execution to wait for")
    with connect() as client:
        made = client.trigger(
            job,
            namespace=namespace,
            parameters=parameters,
            idempotency_key=idempotency_key,
            dry_run=is_dry,
        )
        if not is_waited_for:
            show_one(made, TRIGGERED, form)
            if is_dry:
                say("dry run: nothing is changed")
            return 0
        say(f"execution {made.execution_id}")
        try:
            execution = follow(client, made.execution_id, timeout_s)
        except KeyboardInterrupt:
            say(f"it continues; end it with: rota executions cancel {made.execution_id}")
            raise
        if form in ("table", "wide"):
            print_execution(execution)
        else:
            show_one(execution, EXECUTION, form)
        if execution.status == "success":
            return 0
        print_failed_output(execution)
    return 1
