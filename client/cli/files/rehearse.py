"""``rota rehearse``: files of jobs on virtual time, without a node."""

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from statistics import median

import click
import msgspec

from rota.client.cli.display.printing import out, say
from rota.client.cli.display.show import Column, Counter, Look, show_many, show_one
from rota.client.cli.files.given_jobs import jobs_in
from rota.client.cli.human import absolute, now, span
from rota.client.cli.inputs.files import files_option
from rota.client.cli.inputs.options import (
    as_time,
    connect,
    examples,
    format_option,
    namespace_option,
    seconds_of,
    url_option,
)
from rota.client.definitions import InvalidFile
from rota.client.errors import NotFound
from rota.client.rehearsal.rehearsal import Rehearsal, Tally, rehearse
from rota.core.model.dag import path_of
from rota.core.model.job import JobSpec
from rota.core.timing.instants import (
    DAY,
    MINUTE,
    SECOND,
    Duration,
    format_instant,
    later,
    parse_instant,
    seconds,
)

EX_LIMIT = 8
BAR_WIDTH = 40
HERD_SHOWN = 5
STEPS_MAX = 1_000_000
"""The most decisions of a rehearsal: fires, starts and ends; a few minutes of work."""
RECORDED = 20
"""The number of executions of a job whose durations `--recorded` reads."""


class RehearsedJob(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a job did in a rehearsal.

    Attributes:
        job: Its full name.
        fires: Its fire times.
        outcomes: The number of fire times by outcome, as in the ledger.
        starts: The attempts that began.
        longest_wait_s: The longest time from when an execution was due to the begin of its first
            attempt, in seconds.
        unfinished: The executions that had not ended in the end.
    """

    job: str
    fires: int
    outcomes: dict[str, int]
    starts: int
    longest_wait_s: float
    unfinished: int


class RehearsalView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A rehearsal.

    Attributes:
        begin: The begin of the range.
        end: The end of the range.
        jobs: What each job did.
        starts_by_hour: The attempts that began in each hour of the day in UTC, 24 numbers.
        busiest_minute: The minute in which the most attempts began.
        most_starts: Their number.
        most_running: The most attempts that ran at a time.
        most_running_at: When as many ran for the first time.
        herd: The jobs that begin together in a minute, if these are 10 or more.
    """

    begin: str
    end: str
    jobs: list[RehearsedJob]
    starts_by_hour: list[int]
    busiest_minute: str
    most_starts: int
    most_running: int
    most_running_at: str
    herd: list[str]


JOB: Look[RehearsedJob] = Look(
    name=lambda found: found.job,
    columns=(
        Column("JOB", lambda found, _: found.job),
        Column("FIRES", lambda found, _: str(found.fires)),
        Column("STARTS", lambda found, _: str(found.starts)),
        Column("NOT FIRED", lambda found, _: _not_fired(found), is_optional=True),
        Column("LONGEST WAIT", lambda found, _: span(found.longest_wait_s)),
        Column("UNFINISHED", lambda found, _: str(found.unfinished or ""), is_optional=True),
    ),
)
REHEARSAL: Look[RehearsalView] = Look(name=lambda found: found.begin, columns=())


@click.command(
    "rehearse",
    epilog=examples(
        "rota rehearse -f report.yaml",
        "rota rehearse -f jobs.yaml --days 7 --slots 8 --duration flaky=5m",
        "rota rehearse -f jobs/ --from 2026-10-24 --max-running 20 --max-starts 50",
    ),
)
@files_option
@click.option(
    "--from", "begin", metavar="TIME", callback=as_time, help="Begin of the range.  [default: now]"
)
@click.option(
    "--days", type=click.IntRange(1, 366), default=1, show_default=True, help="Length of the range."
)
@click.option(
    "--slots",
    type=click.IntRange(1, 100_000),
    default=1_000,
    show_default=True,
    help="Attempts that run at a time.",
)
@click.option(
    "--duration",
    "durations",
    metavar="JOB=TIME",
    multiple=True,
    help="How long an attempt of this job takes; without a job, of all others.  [default: 1m]",
)
@click.option(
    "--recorded", "is_recorded", is_flag=True, help="Take the durations of the jobs on a node."
)
@click.option(
    "--max-running", type=click.IntRange(1), metavar="N", help="Exit with 8 if more run at a time."
)
@click.option(
    "--max-starts", type=click.IntRange(1), metavar="N", help="Exit with 8 if more begin a minute."
)
@namespace_option
@format_option
@url_option
def rehearse_files(
    files: tuple[str, ...],
    *,
    begin: str | None,
    days: int,
    slots: int,
    durations: tuple[str, ...],
    is_recorded: bool,
    max_running: int | None,
    max_starts: int | None,
    namespace: str | None,
    form: str,
) -> int:
    """Show what the jobs of files would do in a range of time, on virtual time.

    The rules are those of a node: schedules, calendars of the files, overlap, dependencies, flows.
    Nothing runs; each attempt succeeds after its duration. No node is needed.
    """
    jobs, facts = jobs_in(files, namespace)
    _warn_of_missing_jobs(jobs)
    _check_circles(jobs)
    since = parse_instant(begin) if begin else now()
    taken = _durations(durations, jobs)
    if is_recorded:
        taken = _recorded(jobs) | taken
    end = later(since, Duration(days * DAY))
    found = Rehearsal(since, end)
    steps = rehearse(
        jobs,
        begin=since,
        end=end,
        slots=slots,
        facts=facts,
        duration_of=lambda name: taken.get(name, taken[""]),
    )
    with Counter("rehearsed minutes:", days * DAY // MINUTE) as counter:
        passed = 0
        for number, (at, found) in enumerate(steps):  # noqa: B007 - the last one is shown.
            if number == STEPS_MAX:
                until = absolute(format_instant(at))
                detail = f"{STEPS_MAX:,} steps lead to {until} only; give fewer --days"
                raise click.UsageError(detail)
            counter.add((at - since) // MINUTE - passed)
            passed = (at - since) // MINUTE
    view = _view_of(found)
    if form in ("table", "wide"):
        _print(view, form)
    else:
        show_one(view, REHEARSAL, form)
    is_over = view.most_running > (max_running or view.most_running)
    return EX_LIMIT if is_over or view.most_starts > (max_starts or view.most_starts) else 0


def _warn_of_missing_jobs(jobs: Sequence[JobSpec]) -> None:
    names = {job.full_name for job in jobs}
    for job in jobs:
        for name in job.dependencies:
            if name not in names:
                say(f"warning: {job.full_name} never runs: no file has the job {name}")


def _check_circles(jobs: Sequence[JobSpec]) -> None:
    """Check that neither dependencies nor calls of jobs form a circle, as a node does.

    Raises:
        InvalidFile: They form one.
    """
    dependencies = {job.full_name: job.dependencies for job in jobs}
    if path := _circle(dependencies):
        detail = f"the dependencies of the jobs form a circle: {path}; remove one of them"
        raise InvalidFile(detail)
    if path := _circle({job.full_name: job.called_jobs for job in jobs}):
        detail = f"the jobs run each other in a circle: {path}; remove one of the tasks"
        raise InvalidFile(detail)


def _circle(named: Mapping[str, Iterable[str]]) -> str:
    """Return the path of jobs that name each other in a circle; empty if there is none."""
    try:
        TopologicalSorter(named).prepare()
    except CycleError as error:
        path: Sequence[str] = error.args[1]  # From a name to the job that names it.
        return path_of(tuple(reversed(path)))
    return ""


def _durations(given: Iterable[str], jobs: Iterable[JobSpec]) -> dict[str, Duration]:
    """Return the durations of the options by the full name of the job; of all others under "".

    Raises:
        click.UsageError: An option is malformed, or names a job that is in no file.
    """
    found = {"": seconds(60)}
    names = {job.name: job.full_name for job in jobs} | {
        job.full_name: job.full_name for job in jobs
    }
    for text in given:
        name, _, duration = text.rpartition("=")
        if name and name not in names:
            raise click.UsageError(f"--duration {text}: no file has a job {name!r}")
        try:
            found[names.get(name, "")] = seconds(seconds_of(duration))
        except ValueError as error:
            raise click.UsageError(f"--duration {text}: {error}") from error
    return found


def _recorded(jobs: Sequence[JobSpec]) -> dict[str, Duration]:
    """Return the median durations of the latest successful executions on a node, by job.

    That of an execution is divided among its tasks, as if they ran one after the other.
    """
    found: dict[str, Duration] = {}
    with connect() as client:
        for job in jobs:
            try:
                latest = [*client.executions(job=job.full_name, status="success", limit=RECORDED)]
            except NotFound:
                latest = []
            took = [
                parse_instant(each.finished_at) - parse_instant(each.started_at)
                for each in latest
                if each.finished_at and each.started_at
            ]
            if took:
                found[job.full_name] = Duration(round(median(took) / len(job.tasks)))
    others = sorted({job.full_name for job in jobs} - found.keys())
    if others:
        say(f"no recorded duration, so that of --duration: {', '.join(others)}")
    return found


def _view_of(found: Rehearsal) -> RehearsalView:
    minute, starts = found.busiest
    return RehearsalView(
        begin=format_instant(found.begin),
        end=format_instant(found.end),
        jobs=[_job_view(name, each, found) for name, each in found.tallies.items()],
        starts_by_hour=[found.hours[hour] for hour in range(24)],
        busiest_minute=format_instant(minute),
        most_starts=starts,
        most_running=found.running,
        most_running_at=format_instant(found.running_at or found.begin),
        herd=list(found.herd),
    )


def _job_view(name: str, tally: Tally, found: Rehearsal) -> RehearsedJob:
    return RehearsedJob(
        job=name,
        fires=tally.outcomes.total(),
        outcomes=dict(tally.outcomes),
        starts=tally.starts,
        longest_wait_s=tally.longest_wait / SECOND,
        unfinished=found.unfinished[name],
    )


def _not_fired(found: RehearsedJob) -> str:
    others: Mapping[str, int] = {
        outcome: count for outcome, count in found.outcomes.items() if outcome != "fired"
    }
    return ", ".join(f"{count} {outcome}" for outcome, count in others.items())


def _print(view: RehearsalView, form: str) -> None:
    show_many(view.jobs, JOB, form)
    out("")
    out(f"from {absolute(view.begin)} to {absolute(view.end)} UTC")
    busiest = absolute(view.busiest_minute)
    out(f"most starts in a minute: {view.most_starts:,}, {busiest}")
    out(f"most attempts at a time: {view.most_running:,}, {absolute(view.most_running_at)}")
    if view.most_starts:
        out("")
        out("STARTS BY HOUR OF THE DAY (UTC)")
        most = max(view.starts_by_hour)
        for hour, count in enumerate(view.starts_by_hour):
            bar = "#" * round(count * BAR_WIDTH / most)
            out(f"{hour:02}  {count:>7,}  {bar}".rstrip())
    if view.herd:
        out("")
        named = ", ".join(view.herd[:HERD_SHOWN]) + (
            "" if len(view.herd) <= HERD_SHOWN else ", ..."
        )
        out(f"{len(view.herd)} jobs begin in the same minute: {named}")
        out("`spread: true`, or H in place of the minute, gives each of them a minute of its own")
