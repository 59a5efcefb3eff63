"""``rota next``: the coming fire times of jobs, of files of jobs, or of schedules."""

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import click
from msgspec.structs import asdict

from rota.client.cli.display.printing import out, say
from rota.client.cli.display.show import Column, Look, show_many
from rota.client.cli.display.table_columns import NEXT_FIRE, is_next_paused, paused_text
from rota.client.cli.files.ical_feed import feed
from rota.client.cli.human import now
from rota.client.cli.inputs.files import optional_files_option
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
from rota.client.cli.jobs.job_selection import DEFAULT_NAMESPACE
from rota.core.timing.instants import Instant, format_instant, parse_instant
from rota.wire.documents import JobView, NextFireView

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client

ICAL = "ical"
COUNT, COUNT_MAX = 10, 1_000
JOBS_MAX = 1_000
"""The most jobs of `--all`: each takes a request."""

Fires = tuple[str, list[NextFireView]]
"""The full name of a job, or a schedule, with its fire times."""


class _Range(NamedTuple):
    """The fire times that are asked for: the first *most* after *after*, up to *until*."""

    after: str | None
    until: str | None
    most: int

    @property
    def start(self) -> Instant:
        return now() if self.after is None else parse_instant(self.after)

    def cut(self, fires: Iterable[NextFireView]) -> list[NextFireView]:
        """Return the fire times that are not after *until*."""
        if self.until is None:
            return list(fires)
        end = parse_instant(self.until)
        return [each for each in fires if parse_instant(each.at) <= end]


class FireOf(NextFireView, frozen=True, kw_only=True):
    """A coming fire time among those of several jobs or schedules.

    Attributes:
        job: The full name of its job, or its schedule.
    """

    job: str


@click.command(
    "next",
    epilog=examples(
        "rota next report",
        'rota next --schedule "30 2 * * *" --timezone Europe/Berlin --count 5',
        'rota next report --schedule "H 3 * * *"',
        "rota next report --until 'in 7d'",
        'rota next --schedule "@every 6h" --after 2027-01-01T00:00:00Z',
        "rota next --all --until 'in 2h'",
        "rota next -f jobs/ --count 20",
        "rota next --all --count 20 -o ical > fires.ics",
    ),
)
@click.argument("job", required=False, shell_complete=complete_job)
@click.option(
    "--schedule",
    "schedules",
    metavar="TEXT",
    multiple=True,
    help="A schedule in place of that of a job; no node is needed. Repeatable.",
)
@optional_files_option
@click.option(
    "--timezone",
    metavar="ZONE",
    help="Time zone of --schedule.  [default: UTC]",
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
@click.option("--all", "is_all", is_flag=True, help="All jobs of the node, or of a namespace.")
@namespace_option
@output_option((*FORMATS, ICAL))
@url_option
def next_fires(
    job: str | None,
    *,
    is_all: bool,
    schedules: tuple[str, ...],
    files: tuple[str, ...],
    timezone: str | None,
    count: int | None,
    after: str | None,
    until: str | None,
    namespace: str | None,
    form: str,
) -> None:
    """Show the next fire times of a job, with its local time and with notes on clock changes.

    With --schedule, JOB is the name from which the values of H follow; it need not exist. Fire
    times of several jobs or schedules are shown together. -o ical prints an iCalendar file, with
    --count fire times of each job.
    """
    limits = _Range(after, until, count or (COUNT if until is None else COUNT_MAX))
    if until is not None and parse_instant(until) <= limits.start:
        raise click.UsageError(
            f"--until {until} is not after the begin; write 'in 2d' for a time ahead"
        )
    _check_sources(job, is_all=is_all, schedules=schedules, files=files, timezone=timezone)
    if schedules:
        of = job if job and "/" in job else f"{namespace or DEFAULT_NAMESPACE}/{job or ''}"
        found = [(each, _of_schedule(each, timezone or "UTC", of, limits)) for each in schedules]
    elif files:
        found = list(_of_files(files, namespace, limits))
    else:
        with connect() as client:
            found = list(
                _of_node(client, namespace, limits)
                if is_all
                else _of_job(client, job or "", namespace, limits)
            )
    _say_if_cut(found, limits)
    found = [(name, limits.cut(fires)) for name, fires in found]
    if form == ICAL:
        named = job if len(schedules) == 1 else None
        out(feed([(named or name, fires) for name, fires in found], now()), end="")
    elif not any(fires for _, fires in found) and form in ("table", "wide"):
        say(_no_fires_text(schedules, job, until))
    elif is_all or files or len(schedules) > 1:
        together = list(islice(merge(*map(_named, found), key=_instant), limits.most))
        show_many(together, _of_several("SCHEDULE" if schedules else "JOB"), form)
    else:
        [(_, fires)] = found
        show_many(fires, NEXT_FIRE, form)


def _say_if_cut(found: Sequence[Fires], limits: _Range) -> None:
    """Print that fire times up to --until are left out, if that is so."""
    if limits.until is None:
        return
    end = parse_instant(limits.until)
    for name, fires in found:
        if len(fires) >= limits.most and parse_instant(fires[-1].at) <= end:
            say(f"{name}: only the first {len(fires):,} fire times; there are more until then")


def _check_sources(
    job: str | None,
    *,
    is_all: bool,
    schedules: Sequence[str],
    files: Sequence[str],
    timezone: str | None,
) -> None:
    """Check that the command line names fire times of one kind."""
    kinds = [bool(job) and not schedules, is_all, bool(schedules), bool(files)]
    if job is not None and not schedules and (" " in job or job.startswith("@")):
        raise click.UsageError(f"a schedule follows --schedule: rota next --schedule {job!r}")
    if timezone is not None and not schedules:
        raise click.UsageError("--timezone is that of --schedule; a job has its own")
    if not any(kinds):
        raise click.UsageError("give either a job or --schedule, --file or --all")
    if sum(kinds) > 1:
        raise click.UsageError("give only one of a job, --schedule, --file and --all")


def _of_job(client: "Client", job: str, namespace: str | None, limits: _Range) -> Iterator[Fires]:
    found = client.job(job, namespace=namespace)
    fires = client.next_fires(found.job_id, count=limits.most, after=limits.after)
    _say_pause(found)
    yield f"{found.namespace}/{found.name}", fires


def _say_pause(job: JobView) -> None:
    """Print that a job does not run at its fire times, if that is so."""
    if is_next_paused(job):
        end = "before the end of the pause" if job.paused_until else "until it is resumed"
        name = f"{job.namespace}/{job.name}"
        say(f"{name} is paused {paused_text(job)}; it does not run {end}")


def _of_node(client: "Client", namespace: str | None, limits: _Range) -> Iterator[Fires]:
    """Yield the fire times of each job that fires by itself, and print which ones are paused."""
    shown = 0
    for job in client.jobs(namespace=namespace):
        if job.next_fire_at is None:
            continue
        if shown == JOBS_MAX:
            say(f"only the first {JOBS_MAX:,} jobs are shown; give a namespace with -n")
            return
        shown += 1
        fires = client.next_fires(job.job_id, count=limits.most, after=limits.after)
        _say_pause(job)
        yield f"{job.namespace}/{job.name}", fires


def _of_files(files: Sequence[str], namespace: str | None, limits: _Range) -> Iterator[Fires]:
    """Yield the fire times of each job of files, with the calendars of the files."""
    from rota.client.cli.files.given_jobs import jobs_in
    from rota.wire.bodies.schedule_bodies import next_fire_view

    jobs, facts = jobs_in(files, namespace)
    for job in jobs:
        coming = facts.coming(job, [limits.start] * len(job.schedules), ())
        yield job.full_name, [next_fire_view(*each) for each in islice(coming, limits.most)]


def _of_schedule(text: str, timezone: str, of: str, limits: _Range) -> list[NextFireView]:
    from rota.core.timing.schedule import Schedule, checked, preview

    return [
        NextFireView(at=format_instant(each.instant), local=each.local, schedule=0, note=each.note)
        for each in preview(
            checked(Schedule(text=text, timezone=timezone, seed=of)), limits.start, limits.most
        )
    ]


def _named(found: Fires) -> list[FireOf]:
    name, fires = found
    return [FireOf(**asdict(fire), job=name) for fire in fires]


def _instant(fire: NextFireView) -> Instant:
    return parse_instant(fire.at)


def _of_several(title: str) -> Look[NextFireView]:
    time, local, *others = NEXT_FIRE.columns
    return Look(name=NEXT_FIRE.name, columns=(time, Column(title, _owner), local, *others))


def _owner(fire: NextFireView, _: Instant) -> str:
    return fire.job if isinstance(fire, FireOf) else ""


def _no_fires_text(schedules: Sequence[str], job: str | None, until: str | None) -> str:
    if until is not None:
        return f"no fire time until {until}"
    if schedules and all(each.lower().startswith("@at") for each in schedules):
        return "this time has passed; to create a job with it, add --misfire"
    if len(schedules) == 1:
        return "the schedule does not fire again"
    if schedules:
        return "no schedule fires again"
    return f"{job} does not fire by itself again" if job else "no job fires by itself again"
