"""``rota backfill``: runs of a job for fire times of the past."""

from typing import Literal

import click

from rota.client.cli.display.printing import out, say
from rota.client.cli.display.show import print_facts, show_many, show_one
from rota.client.cli.display.table_columns import BACKFILL
from rota.client.cli.human import absolute
from rota.client.cli.inputs.command_groups import SuggestingGroup
from rota.client.cli.inputs.options import (
    as_time,
    connect,
    dry_run_option,
    examples,
    format_option,
    job_argument,
    namespace_option,
    url_option,
)
from rota.client.cli.inputs.parameters import members_of, parameters_options, with_members
from rota.client.cli.jobs.saved_jobs import say_if_dry
from rota.wire.documents import BackfillView, Json


class _Backfills(SuggestingGroup):
    for_jobs = "`rota backfill list {job}` lists its backfills."


@click.group(
    cls=_Backfills,
    epilog=examples(
        "rota backfill start report --since 2026-10-01 --until 2026-11-01 --dry-run",
        "rota backfill start report --since 2026-10-01 --parallel 4",
        "rota backfill list report",
        "rota backfill pause report BACKFILL",
    ),
)
def backfill() -> None:
    """Run a job for fire times of the past.

    A backfill runs one execution for each fire time of the schedules of a job in a range. The next
    fire times stay as they are, and live executions take precedence.
    """


@backfill.command(
    "start",
    epilog=examples(
        "rota backfill start report --since 2026-10-01 --until 2026-11-01 --dry-run",
        "rota backfill start report --since 30d --reprocess failed --order newest",
        "rota backfill start report --since 2026-10-01 --parallel 4 -p full=true",
    ),
)
@job_argument
@click.option(
    "--since", metavar="TIME", required=True, callback=as_time, help="First instant of the range."
)
@click.option("--until", metavar="TIME", callback=as_time, help="End of the range.  [default: now]")
@click.option(
    "--reprocess",
    type=click.Choice(["missing", "failed", "all"]),
    default="missing",
    show_default=True,
    help="Fire times without an execution, also those whose newest one failed, or all.",
)
@click.option(
    "--order",
    type=click.Choice(["oldest", "newest"]),
    default="oldest",
    show_default=True,
    help="Fire times that run first.",
)
@click.option(
    "--parallel",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Most unfinished executions at the same time.",
)
@parameters_options
@click.option(
    "--idempotency-key",
    metavar="KEY",
    help="A repetition with the same key returns the same backfill.",
)
@dry_run_option
@namespace_option
@format_option
@url_option
def start(
    job: str,
    *,
    since: str,
    until: str | None,
    reprocess: Literal["missing", "failed", "all"],
    order: Literal["oldest", "newest"],
    parallel: int,
    overrides: tuple[str, ...],
    parameters: Json,
    idempotency_key: str | None,
    is_dry: bool,
    namespace: str | None,
    form: str,
) -> None:
    """Run a job for the fire times of a range.

    A local date, such as 2026-10-01, is its midnight. Fire times without an execution run, one
    after the other, the oldest first. Calendars of the job apply, blackouts do not. With --dry-run,
    nothing is started, and the number of fire times and the first ones are shown.
    """
    with connect() as client:
        members = members_of(overrides)
        if members and parameters is None:
            parameters = (client.job(job, namespace=namespace).definition or {}).get("parameters")
        made = client.create_backfill(
            job,
            since=since,
            until=until,
            reprocess=reprocess,
            order=order,
            parallel=parallel,
            parameters=with_members(parameters, members) if members else parameters,
            namespace=namespace,
            idempotency_key=idempotency_key,
            dry_run=is_dry,
        )
    _show(made, form)
    for warning in made.warnings:
        say(f"warning: {warning}")
    say_if_dry(is_dry=is_dry)


@backfill.command("list", epilog=examples("rota backfill list report"))
@job_argument
@namespace_option
@format_option
@url_option
def list_backfills(job: str, *, namespace: str | None, form: str) -> None:
    """List the backfills of a job, the newest first."""
    with connect() as client:
        show_many(client.backfills(job, namespace=namespace), BACKFILL, form)


@backfill.command("show", epilog=examples("rota backfill show report BACKFILL"))
@job_argument
@click.argument("backfill_id", metavar="BACKFILL")
@namespace_option
@format_option
@url_option
def show(job: str, backfill_id: str, *, namespace: str | None, form: str) -> None:
    """Show a backfill, its progress, and the next fire times that it runs."""
    with connect() as client:
        found = client.backfill(job, backfill_id, namespace=namespace)
    _show(found, form)


def _control(word: str, about: str) -> None:
    """Add the command that pauses, resumes or cancels a backfill."""

    @backfill.command(word, help=about, epilog=examples(f"rota backfill {word} report BACKFILL"))
    @job_argument
    @click.argument("backfill_id", metavar="BACKFILL")
    @namespace_option
    @format_option
    @url_option
    def control(job: str, backfill_id: str, *, namespace: str | None, form: str) -> None:
        with connect() as client:
            changes = {
                "pause": client.pause_backfill,
                "resume": client.resume_backfill,
                "cancel": client.cancel_backfill,
            }
            _show(changes[word](job, backfill_id, namespace=namespace), form)

    del control  # It is a command of the group.


_control("pause", "Begin no further executions; those that have begun continue.")
_control("resume", "Continue with a paused backfill.")
_control("cancel", "End a backfill; executions that have begun continue.")


def _show(found: BackfillView, form: str) -> None:
    if form in ("table", "wide"):
        _print_backfill(found)
    else:
        show_one(found, BACKFILL, form)


def _print_backfill(found: BackfillView) -> None:
    counts = f"{found.succeeded} succeeded, {found.failed} failed, {found.running} running"
    print_facts(
        [
            ("backfill", "" if found.status == "dry_run" else found.backfill_id),
            ("status", found.status.replace("_", " ")),
            ("range", f"{absolute(found.since)} to {absolute(found.until)} UTC"),
            ("runs", f"{found.reprocess}, {found.order} first, {found.parallel} in parallel"),
            ("fire times", f"{found.total}: {counts}, {found.total - found.begun} to come"),
            ("by", found.started_by.principal if found.started_by else ""),
        ]
    )
    if found.next_times:
        out("")
        out("NEXT FIRE TIMES (UTC)")
        for at in found.next_times:
            out(absolute(at))
