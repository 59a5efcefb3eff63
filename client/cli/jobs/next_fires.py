"""``rota next``: the next fire times of a job, or of a schedule without a job."""

import click

from rota.client.cli.display.printing import say
from rota.client.cli.display.show import show_many
from rota.client.cli.display.table_columns import NEXT_FIRE
from rota.client.cli.human import now
from rota.client.cli.inputs.options import (
    as_time,
    complete_job,
    connect,
    examples,
    format_option,
    namespace_option,
    url_option,
)
from rota.client.cli.jobs.job_selection import DEFAULT_NAMESPACE
from rota.core.timing.instants import format_instant, parse_instant
from rota.wire.documents import NextFireView


@click.command(
    "next",
    epilog=examples(
        "rota next report",
        'rota next --schedule "30 2 * * *" --timezone Europe/Berlin --count 5',
        'rota next report --schedule "H 3 * * *"',
        'rota next --schedule "@every 6h" --after 2027-01-01T00:00:00Z',
    ),
)
@click.argument("job", required=False, shell_complete=complete_job)
@click.option(
    "--schedule",
    metavar="TEXT",
    help="A schedule in place of that of a job; the command then needs no running node.",
)
@click.option(
    "--timezone",
    metavar="ZONE",
    default="UTC",
    show_default=True,
    help="Time zone of --schedule.",
)
@click.option(
    "--count",
    type=click.IntRange(1, 1000),
    default=10,
    show_default=True,
    help="Number of fire times.",
)
@click.option(
    "--after",
    "--from",
    "after",
    metavar="TIME",
    callback=as_time,
    help="Only fire times after this time.  [default: now]",
)
@namespace_option
@format_option
@url_option
def next_fires(
    job: str | None,
    *,
    schedule: str | None,
    timezone: str,
    count: int,
    after: str | None,
    namespace: str | None,
    form: str,
) -> None:
    """Show the next fire times of a job, with its local time and with notes on clock changes.

    With --schedule, JOB is the name from which the values of H follow; it need not exist.
    """
    if job is None and schedule is None:
        raise click.UsageError("give either a job or --schedule")
    if job is not None and (" " in job or job.startswith("@")):
        raise click.UsageError(f"a schedule follows --schedule: rota next --schedule {job!r}")
    if schedule is not None:
        of = job if job and "/" in job else f"{namespace or DEFAULT_NAMESPACE}/{job or ''}"
        fires = _preview(schedule, timezone, of, after, count)
    else:
        with connect() as client:
            fires = client.next_fires(job or "", namespace=namespace, count=count, after=after)
    if not fires and form in ("table", "wide"):
        say(_no_fires_text(schedule) if schedule else f"{job} does not fire by itself again")
        return
    show_many(fires, NEXT_FIRE, form)


def _no_fires_text(schedule: str) -> str:
    if schedule.lower().startswith("@at"):
        return "this time has passed; to create a job with it, add --misfire"
    return "the schedule does not fire again"


def _preview(
    schedule: str, timezone: str, of: str, after: str | None, count: int
) -> list[NextFireView]:
    try:
        from rota.core.timing.schedule import Schedule, checked, preview
    except ImportError as error:
        raise click.UsageError(
            f"--schedule needs the package {error.name}, which is not installed; run "
            "pip install 'rota[node]'"
        ) from error
    start = now() if after is None else parse_instant(after)
    return [
        NextFireView(at=format_instant(each.instant), local=each.local, schedule=0, note=each.note)
        for each in preview(
            checked(Schedule(text=schedule, timezone=timezone, seed=of)), start, count
        )
    ]
