"""``rota next``: the next fire times of a job, or of a schedule without a job."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from rota.client.cli.display.printing import out, say
from rota.client.cli.display.show import show_many
from rota.client.cli.display.table_columns import NEXT_FIRE
from rota.client.cli.human import now
from rota.client.cli.inputs.options import (
    FORMATS,
    as_time,
    complete_job,
    connect,
    examples,
    namespace_option,
    output_option,
    url_option,
)
from rota.client.cli.jobs.ical_feed import feed
from rota.client.cli.jobs.job_selection import DEFAULT_NAMESPACE
from rota.core.timing.instants import format_instant, parse_instant
from rota.wire.documents import NextFireView

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client

ICAL = "ical"
COUNT, COUNT_MAX = 10, 1_000
JOBS_MAX = 1_000
"""The most jobs of one file: each takes a request."""


@click.command(
    "next",
    epilog=examples(
        "rota next report",
        'rota next --schedule "30 2 * * *" --timezone Europe/Berlin --count 5',
        'rota next report --schedule "H 3 * * *"',
        "rota next report --until 'in 7d'",
        'rota next --schedule "@every 6h" --after 2027-01-01T00:00:00Z',
        "rota next --all --count 20 -o ical > fires.ics",
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
    type=click.IntRange(1, COUNT_MAX),
    help="Number of fire times.  [default: 10, or 1000 with --until]",
)
@click.option(
    "--after",
    "--from",
    "after",
    metavar="TIME",
    callback=as_time,
    help="Only fire times after this time.  [default: now]",
)
@click.option(
    "--until",
    metavar="TIME",
    callback=as_time,
    help="Only fire times up to this time, such as 'in 2d'.",
)
@click.option("--all", "is_all", is_flag=True, help="All jobs; needs -o ical.")
@namespace_option
@output_option((*FORMATS, ICAL))
@url_option
def next_fires(
    job: str | None,
    *,
    is_all: bool,
    schedule: str | None,
    timezone: str,
    count: int | None,
    after: str | None,
    until: str | None,
    namespace: str | None,
    form: str,
) -> None:
    """Show the next fire times of a job, with its local time and with notes on clock changes.

    With --schedule, JOB is the name from which the values of H follow; it need not exist. With -o
    ical, the fire times are an iCalendar file, of all jobs of the namespace, or of all, with --all.
    """
    count = count or (COUNT if until is None else COUNT_MAX)
    if is_all:
        if form != ICAL or job is not None or schedule is not None:
            raise click.UsageError("--all needs -o ical, and neither a job nor --schedule")
        if until is not None:
            raise click.UsageError("--until is for one job; --all takes --count")
        with connect() as client:
            out(feed(_of_all(client, namespace, count, after), now()), end="")
        return
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
            if form == ICAL:
                found = client.job(job or "", namespace=namespace)
                job = f"{found.namespace}/{found.name}"
    fires = [each for each in fires if until is None or each.at <= until]
    if form == ICAL:
        out(feed([(job or schedule or "", fires)], now()), end="")
        return
    if not fires and form in ("table", "wide"):
        say(_no_fires_text(schedule, job, until))
        return
    show_many(fires, NEXT_FIRE, form)


def _of_all(
    client: "Client", namespace: str | None, count: int, after: str | None
) -> Iterator[tuple[str, Sequence[NextFireView]]]:
    """Yield the fire times of each job that fires by itself, with its full name."""
    shown = 0
    for job in client.jobs(namespace=namespace):
        if job.next_fire_at is None:
            continue
        if shown == JOBS_MAX:
            say(f"only the first {JOBS_MAX:,} jobs are in the file; give a namespace with -n")
            return
        shown += 1
        yield f"{job.namespace}/{job.name}", client.next_fires(job.job_id, count=count, after=after)


def _no_fires_text(schedule: str | None, job: str | None, until: str | None) -> str:
    if until is not None:
        return f"no fire time until {until}"
    if schedule is None:
        return f"{job} does not fire by itself again"
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
