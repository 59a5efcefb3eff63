"""``rota audit``: the ledger compared with fire times that another engine computes."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click
import msgspec
from msgspec.structs import replace

from rota.client.cli.audit.comparison import Fault
from rota.client.cli.audit.job_audit import JobAudit, Unaudited
from rota.client.cli.display.printing import say
from rota.client.cli.display.show import Column, Look, print_document, show_many
from rota.client.cli.human import absolute, counted, now
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
from rota.client.extras import named_extras
from rota.core.timing.instants import (
    DAY,
    MINUTE,
    SECOND,
    Duration,
    Instant,
    format_instant,
    later,
    parse_duration,
    parse_instant,
)
from rota.wire.documents import JobView, LedgerEntryView

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.cli.audit.calendar_times import CalendarTimes
    from rota.client.client import Client

EX_FAULTS = 1
UNDECIDED = Duration(10 * SECOND)
"""How long after a fire time its outcome may be missing: as long as the default grace."""
EXPIRY = Duration(5 * MINUTE)
"""Entries that would expire during the audit do not count."""


class AuditView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of an audit.

    Attributes:
        since: The begin of the range.
        until: The end of the range.
        jobs: The number of jobs.
        fire_times: The number of fire times that were compared.
        faults: What is wrong.
        not_audited: What was not compared, and why.
    """

    since: str = msgspec.field(name="from")
    until: str = msgspec.field(name="to")
    jobs: int
    fire_times: int
    faults: list[Fault]
    not_audited: list[Unaudited]


FAULT: Look[Fault] = Look(
    name=lambda fault: fault.fire_time,
    columns=(
        Column("JOB", lambda fault, _: fault.job),
        Column("FAULT", lambda fault, _: fault.kind),
        Column("FIRE TIME (UTC)", lambda fault, _: absolute(fault.fire_time)),
        Column("UNTIL", lambda fault, _: _until(fault), is_optional=True),
        Column("FIRES", lambda fault, _: str(fault.count)),
        Column("SCHEDULE", lambda fault, _: str(fault.schedule)),
        Column("REASON", lambda fault, _: fault.reason),
    ),
)


def _until(fault: Fault) -> str:
    return absolute(fault.until) if fault.count > 1 else ""


def _history(ctx: click.Context, param: click.Parameter, text: str) -> Duration:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error


@click.command(
    "audit",
    epilog=examples(
        "rota audit report",
        "rota audit report billing/report --from 2d",
        "rota audit --all -o json",
    ),
)
@click.argument("names", metavar="[JOB...]", nargs=-1, shell_complete=complete_job)
@click.option("--all", "is_all", is_flag=True, help="All jobs; with --namespace, its jobs only.")
@click.option(
    "--from",
    "since",
    metavar="TIME",
    default="1d",
    show_default=True,
    callback=as_time,
    help="Only fire times since this time; a duration, such as 2d, is before now.",
)
@click.option(
    "--to",
    "until",
    metavar="TIME",
    callback=as_time,
    help="Only fire times before this time.  [default: 10 s ago]",
)
@click.option(
    "--history",
    metavar="DURATION",
    default="7d",
    show_default=True,
    callback=_history,
    help="The setting `history` of the nodes: older entries are removed, and are not missed.",
)
@namespace_option
@format_option
@url_option
def audit(
    names: tuple[str, ...],
    *,
    is_all: bool,
    since: str,
    until: str | None,
    history: Duration,
    namespace: str | None,
    form: str,
) -> int:
    """Check that each fire time of jobs has exactly one outcome, and its execution.

    The fire times are computed by another engine than that of the nodes. What it cannot compute is
    listed as not audited. With faults, the exit status is 1. Needs: pip install 'rota[audit]'.
    """
    if bool(names) == is_all:
        raise click.UsageError("name jobs, or give --all")
    check_library()
    present = now()
    end = min(parse_instant(until), present) if until else later(present, Duration(-UNDECIDED))
    kept_from = Instant(max(0, present - history + EXPIRY))
    begin = max(parse_instant(since), kept_from)
    if begin >= end:
        raise click.UsageError(
            f"there is nothing to audit: {format_instant(begin)} is not before "
            f"{format_instant(end)}; entries older than --history {history // DAY}d are removed"
        )
    with connect() as client:
        jobs = client.jobs(namespace=namespace) if is_all else _named(client, names, namespace)
        view = audited(client, jobs, begin, end)
    if form in ("json", "yaml"):
        print_document(view, form)
    else:
        if view.faults or form not in ("table", "wide"):
            show_many(view.faults, FAULT, form)
        _say_result(view, is_clipped=begin > parse_instant(since))
    return EX_FAULTS if view.faults else 0


def audited(client: "Client", jobs: Iterable[JobView], begin: Instant, end: Instant) -> AuditView:
    """Return the audit of *jobs* from *begin* to *end*, which `check_library` permits."""
    from rota.client.cli.audit.calendar_times import CalendarTimes

    found = _Audited(begin, end)
    calendars = CalendarTimes(client.documents("calendars"))
    for job in jobs:
        found.add(client, job, calendars)
    return found.view()


def check_library() -> None:
    """Check that the other engine of fire times is installed.

    Raises:
        NotInstalled: It is not.
    """
    with named_extras():
        import croniter  # type: ignore[import-untyped] # it has no types  # noqa: F401


def _named(client: "Client", names: tuple[str, ...], namespace: str | None) -> Iterator[JobView]:
    for name in names:
        yield client.job(name, namespace=namespace or DEFAULT_NAMESPACE)


def _say_result(view: AuditView, *, is_clipped: bool) -> None:
    for each in view.not_audited:
        part = "" if each.schedule is None else f", schedule {each.schedule}"
        say(f"not audited: {each.job}{part}: {each.reason}")
    if is_clipped:
        say(f"the audit counts from {view.since}: older entries are removed (--history)")
    say(
        f"{counted(view.fire_times, 'fire time', 'fire times')} of "
        f"{counted(view.jobs, 'job', 'jobs')} from {view.since} to {view.until}: "
        f"{counted(len(view.faults), 'fault', 'faults')}"
    )


class _Audited:
    """The result so far."""

    def __init__(self, begin: Instant, end: Instant) -> None:
        self._range = begin, end
        self._faults: list[Fault] = []
        self._unaudited: list[Unaudited] = []
        self._counts = [0, 0]

    def add(self, client: "Client", job: JobView, calendars: "CalendarTimes") -> None:
        """Audit a job."""
        from rota.client.cli.audit.job_records import (
            calendar_deletions,
            entries_of,
            last_of,
            versions_of,
        )

        begin, end = self._range
        name = f"{job.namespace}/{job.name}"
        if job.definition is None and not job.broken:
            job = client.job(job.job_id)  # Lists have no definitions.
        self._counts[0] += 1
        if job.broken:
            self._leave_out(name, f"its record cannot be read: {job.broken}")
            return
        versions, missing = versions_of(client, job, begin)
        if missing:
            begin = max(begin, versions[0].begin)
            self._leave_out(name, f"fire times before {format_instant(begin)}: {missing}")
        most = max(len(each.schedules) for each in versions)
        if begin >= end or most == 0:
            return
        if missing:
            crossing = [
                each
                for each in entries_of(client, job.job_id, most, begin, begin)
                if parse_instant(each.fire_time) < begin
            ]
            begin = max([begin, *map(last_of, crossing)])
        run = JobAudit(name, versions, calendars)
        gone = [each for each in run.calendar_names() if each not in calendars.documents]
        run.changed.update(calendar_deletions(client, gone))
        self._faults += run.faults(entries_of(client, job.job_id, most, begin, end), begin, end)
        self._faults += _unpaired(client, job, begin, end)
        self._unaudited += run.unaudited
        self._counts[1] += run.fire_count

    def view(self) -> AuditView:
        """Return the result."""
        return AuditView(
            since=format_instant(self._range[0]),
            until=format_instant(self._range[1]),
            jobs=self._counts[0],
            fire_times=self._counts[1],
            faults=self._faults,
            not_audited=self._unaudited,
        )

    def _leave_out(self, job: str, reason: str) -> None:
        self._unaudited.append(Unaudited(job=job, reason=reason))


def _unpaired(client: "Client", job: JobView, begin: Instant, end: Instant) -> Iterator[Fault]:
    """Yield entries without their execution, and executions without their entry."""
    from rota.client.cli.audit.comparison import unpaired

    since, until = format_instant(begin), format_instant(end)
    found = unpaired(
        client.ledger(job.job_id, since=since, until=until, newest_first=True),
        client.executions(job=job.job_id, since=since, until=until),
    )
    for entry, execution in found:
        if entry is not None and not _exists(client, entry):
            reason = f"its execution {entry.execution_id} does not exist"
            schedule, at = entry.schedule, entry.fire_time
        elif execution is not None:
            reason = f"no ledger entry has its execution {execution.execution_id}"
            schedule, at = _schedule_of(execution.execution_id), execution.fire_time
        else:
            continue
        fault = Fault(kind="execution", schedule=schedule, fire_time=at, until=at, reason=reason)
        yield replace(fault, job=f"{job.namespace}/{job.name}")


def _exists(client: "Client", entry: LedgerEntryView) -> bool:
    from rota.client.errors import NotFound

    try:
        client.execution(entry.execution_id or "-")
    except NotFound:
        return False
    return True


def _schedule_of(execution_id: str) -> int:
    from rota.core.model.ids import ExecutionId, schedule_of

    return schedule_of(ExecutionId(execution_id))
