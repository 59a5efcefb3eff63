"""``rota trigger``: run a job now."""

import asyncio
import sys
from pathlib import Path

import click
import msgspec

from rota.client.cli.display.printing import OutputCopy, say
from rota.client.cli.display.progress import (
    Facts,
    follow,
    print_failed_output,
    print_output_of_only_task,
)
from rota.client.cli.display.show import show_one
from rota.client.cli.display.table_columns import EXECUTION, TRIGGERED
from rota.client.cli.human import took
from rota.client.cli.inputs.options import (
    as_seconds,
    connect,
    connect_async,
    dry_run_option,
    examples,
    format_option,
    job_argument,
    namespace_option,
    url_option,
)
from rota.client.cli.jobs.execution_views import print_execution
from rota.client.cli.jobs.followed_tasks import follow_tasks
from rota.client.errors import NodeFailed, TooBusy, Unreachable, WaitTimedOut
from rota.wire.documents import ExecutionView, Json


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
        if not (is_waited_for or is_followed):
            show_one(made, TRIGGERED, form)
            if is_dry:
                say("dry run: nothing is changed")
            return 0
        say(f"execution {made.execution_id}")
        try:
            if is_followed:
                execution = asyncio.run(_followed(made.execution_id, timeout_s))
            else:
                execution = follow(client, made.execution_id, timeout_s)
        except KeyboardInterrupt:
            say(f"it continues; end it with: rota executions cancel {made.execution_id}")
            raise
        except (Unreachable, TooBusy, NodeFailed) as error:
            error.add_note(
                "the execution continues; wait for it with: rota executions wait "
                f"{made.execution_id}"
            )
            raise
    if form not in ("table", "wide"):
        show_one(execution, EXECUTION, form)
    elif not is_followed:
        print_execution(execution)
    is_success = execution.status == "success"
    if is_followed:
        say(f"{execution.status} after {took(execution.started_at, execution.finished_at)}")
    elif is_success and form in ("table", "wide"):
        print_output_of_only_task(execution)
    elif not is_success:
        print_failed_output(execution)
    return 0 if is_success else 1


async def _followed(execution_id: str, timeout_s: float | None) -> ExecutionView:
    """Return an execution when it has ended; print the output of its tasks until then.

    Raises:
        WaitTimedOut: It has not ended after *timeout_s*.
    """
    facts, copy = Facts(), OutputCopy(is_raw=False)
    async with connect_async() as client:
        try:
            async with asyncio.timeout(timeout_s):
                return await follow_tasks(client, execution_id, copy, on_view=facts.show)
        except TimeoutError as error:
            view = await client.execution(execution_id)
            raise WaitTimedOut([view], timeout_s or 0.0) from error
