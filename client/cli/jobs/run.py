"""``rota run``: one execution of a command, now."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota.client.cli.display.show import show_many
from rota.client.cli.display.table_columns import JOB
from rota.client.cli.inputs.options import (
    connect,
    dry_run_option,
    examples,
    format_option,
    namespace_option,
    url_option,
)
from rota.client.cli.inputs.program_words import ProgramCommand
from rota.client.cli.jobs.awaited_end import Waiting, show_started, waiting_options
from rota.client.cli.jobs.job_files import in_namespace
from rota.client.cli.jobs.job_flags import fields_of, work_options
from rota.client.cli.jobs.saved_jobs import say_if_dry, say_warnings
from rota.client.errors import NotYetRunning
from rota.wire.documents import JobView, TriggeredView

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client

START_S = 30.0
"""The longest wait for the execution of a job that was created; it exists in milliseconds, unless
the node ends at this moment."""
LOOK_S = 0.02


class RunCommand(ProgramCommand):
    """A command with advice for users who expect ``run JOB`` to trigger a job."""

    advice = "`rota trigger JOB` runs a job now."


@click.command(
    cls=RunCommand,
    epilog=examples(
        "rota run -- echo hello",
        "rota run --wait -- 'df -h | tail -1'",
        "rota run --follow --cwd /var/log -- ls -l",
        "rota run --image python:3.11 --memory 512MiB -- python -c 'print(1)'",
        "rota run --python reports:daily -p day=2027-01-01",
        "rota run --type image.render -p width=640",
    ),
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@waiting_options
@click.option(
    "--attempt-timeout", "attempt_timeout", metavar="DURATION", help="Timeout of an attempt."
)
@work_options
@dry_run_option
@namespace_option
@format_option
@url_option
def run(
    command: tuple[str, ...],
    *,
    is_waited_for: bool,
    is_followed: bool,
    timeout_s: float | None,
    attempt_timeout: str | None,
    is_dry: bool,
    namespace: str | None,
    form: str,
    **given: Any,  # fields of a job, as flags
) -> int:
    """Run a command once, now.

    The command follows two dashes: several words are a program and its arguments, a single one
    is a line for the shell. The node makes a job with a generated name for it, and deletes the job
    with the history of its execution.
    """
    from rota.client.definitions import with_whole_paths

    wait = Waiting(
        is_waited_for=is_waited_for, is_followed=is_followed, timeout_s=timeout_s, is_dry=is_dry
    )
    if not (command or given["python"] or given["container"] or given["type"]):
        raise click.UsageError("write the command after two dashes: rota run -- echo hello")
    fields = fields_of(None, command, {**given, "timeout": attempt_timeout})
    definition = in_namespace(namespace, with_whole_paths(fields, Path()))
    with connect() as client:
        job = client.create_job(definition, dry_run=is_dry)
        say_warnings([job])
        if is_dry:
            show_many([job], JOB, form)
            say_if_dry(is_dry=True)
            return 0
        made = TriggeredView(_execution_of(client, job), job.job_id, "queued")
        return show_started(client, made, wait, form)


def _execution_of(client: "Client", job: JobView) -> str:
    """Return the id of the execution of a one-off *job*, once it exists.

    Raises:
        NotYetRunning: The execution does not exist after `START_S`.
    """
    for _ in range(round(START_S / LOOK_S)):
        if job.execution_id:
            return job.execution_id
        time.sleep(LOOK_S)
        job = client.job(job.job_id)
    raise NotYetRunning(f"{job.namespace}/{job.name}", job.job_id, START_S)
