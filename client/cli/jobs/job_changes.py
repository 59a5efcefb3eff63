"""``rota jobs pause``, ``resume`` and ``delete``: changes of a job without a definition."""

import click

from rota.client.cli.display.printing import say
from rota.client.cli.inputs.options import (
    complete_job,
    connect,
    dry_run_option,
    examples,
    job_argument,
    namespace_option,
    url_option,
)


@click.command(
    "pause",
    epilog=examples("rota jobs pause report", 'rota jobs pause report --reason "moving house"'),
)
@job_argument
@click.option("--reason", metavar="TEXT", default="", help="Reason, recorded in the ledger.")
@dry_run_option
@namespace_option
@url_option
def pause_job(job: str, *, reason: str, is_dry: bool, namespace: str | None) -> None:
    """Stop the fires of a job; its fire times are recorded as paused.

    Unfinished executions continue, and `rota trigger` still works.
    """
    with connect() as client:
        client.pause_job(job, namespace=namespace, reason=reason, dry_run=is_dry)
    say(_done(job, "paused", is_dry=is_dry))


@click.command("resume", epilog=examples("rota jobs resume report"))
@job_argument
@dry_run_option
@namespace_option
@url_option
def resume_job(job: str, *, is_dry: bool, namespace: str | None) -> None:
    """Resume a paused job, from its next fire time on."""
    with connect() as client:
        client.resume_job(job, namespace=namespace, dry_run=is_dry)
    say(_done(job, "resumed", is_dry=is_dry))


@click.command(
    "delete", epilog=examples("rota jobs delete hello", "rota jobs delete report flaky --dry-run")
)
@click.argument("names", metavar="JOB...", nargs=-1, required=True, shell_complete=complete_job)
@dry_run_option
@namespace_option
@url_option
def delete_jobs(names: tuple[str, ...], *, is_dry: bool, namespace: str | None) -> None:
    """Delete jobs; unfinished executions are cancelled, the history stays."""
    with connect() as client:
        for name in names:
            client.delete_job(name, namespace=namespace, dry_run=is_dry)
            say(_done(name, "deleted", is_dry=is_dry))


def _done(job: str, verb: str, *, is_dry: bool) -> str:
    return f"dry run: nothing is changed; {job} would be {verb}" if is_dry else f"{verb} {job}"
