"""``rota explain``: why a job ran, or did not run, at a time."""

from contextlib import suppress
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import click

from rota.client.cli.display.show import Column, Look, show_many
from rota.client.cli.human import absolute, now
from rota.client.cli.inputs.options import (
    as_time,
    connect,
    examples,
    format_option,
    job_argument,
    namespace_option,
    url_option,
)
from rota.core.timing.instants import (
    MICROSECOND,
    Duration,
    Instant,
    format_instant,
    later,
    parse_instant,
)
from rota.wire.documents import ExecutionView, JobView, LedgerEntryView, NextFireView

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.cli.audit.causes import Cause, Known
    from rota.client.client import Client

ENTRIES_MAX = 50
"""The most entries before a time that are searched for those that have it."""
FILLS_MAX = 20
"""The most executions with one fire time that are shown."""


def _look() -> "Look[Cause]":
    return Look(
        name=lambda cause: cause.code,
        columns=(
            Column("CODE", lambda cause, _: cause.code),
            Column("TIME (UTC)", lambda cause, _: absolute(cause.at), is_optional=True),
            Column("CAUSE", lambda cause, _: cause.cause),
            Column("TO CHANGE IT", lambda cause, _: cause.change, is_optional=True),
        ),
    )


@click.command(
    "explain",
    epilog=examples(
        "rota explain report --at 2027-01-04T00:00:00Z",
        'rota explain report --at "2027-01-04 03:00" -o json',
    ),
)
@job_argument
@click.option(
    "--at",
    "text",
    metavar="TIME",
    required=True,
    callback=as_time,
    help="The time, past or future; a duration, such as 2h, is before now.",
)
@namespace_option
@format_option
@url_option
def explain(job: str, *, text: str, namespace: str | None, form: str) -> None:
    """Show why a job ran, did not run, will run or will not run at a time.

    Each line is a cause, with its time and the smallest change that would alter it.
    """
    with connect() as client:
        causes = causes_at(client, client.job(job, namespace=namespace), parse_instant(text))
    show_many(causes, _look(), form)


def causes_at(client: "Client", job: JobView, at: Instant) -> "list[Cause]":
    """Return why *job* ran, or did not run, at a time: causes, each of which explains the next."""
    from rota.client.cli.audit.causes import causes_of

    return causes_of(_known(client, job, at))


def _known(client: "Client", job: JobView, at: Instant) -> "Known":
    from rota.client.cli.audit.causes import Known

    at_text, after = format_instant(at), format_instant(later(at, MICROSECOND))
    earlier = [
        *client.ledger(job.job_id, until=after, newest_first=True, limit=ENTRIES_MAX),
    ]
    entries = [each for each in earlier if _has(each, at)]
    before = next((each for each in earlier if each not in entries), None)
    following = next(iter(client.ledger(job.job_id, since=after, limit=1)), None)
    since = format_instant(later(at, Duration(-MICROSECOND)))
    fires = client.next_fires(job.job_id, count=1, after=since) if job.schedules else []
    fire = fires[0] if fires else None
    return Known(
        job=job,
        at=at,
        now=now(),
        version=_version_at(client, job, at),
        entries=entries[::-1],
        before=before,
        after=fire,
        later=following,
        executions=_executions(client, entries),
        fills=list(client.executions(job=job.job_id, since=at_text, until=after, limit=FILLS_MAX)),
        excluded=_exclusion(client, job, fire, at) if at > now() else "",
    )


def _has(entry: LedgerEntryView, at: Instant) -> bool:
    return parse_instant(entry.fire_time) <= at <= parse_instant(entry.until)


def _version_at(client: "Client", job: JobView, at: Instant) -> tuple[int, Instant] | None:
    from rota.client.cli.audit.job_records import versions_of

    versions, _ = versions_of(client, job, at)
    begun = [(each.number, each.begin) for each in versions if each.begin <= at]
    return begun[-1] if begun else None


def _executions(client: "Client", entries: list[LedgerEntryView]) -> list[ExecutionView]:
    from rota.client.errors import NotFound

    found: list[ExecutionView] = []
    for execution_id in dict.fromkeys(each.execution_id for each in entries):
        if execution_id is not None:
            with suppress(NotFound):  # It has expired, or its record is still on a stand-in.
                found.append(client.execution(execution_id))
    return found


def _exclusion(client: "Client", job: JobView, fire: NextFireView | None, at: Instant) -> str:
    from rota.client.cli.audit.calendar_times import CalendarTimes
    from rota.client.cli.audit.job_audit import JobAudit
    from rota.client.cli.audit.job_records import version_of

    if fire is None or parse_instant(fire.at) != at:
        return ""
    calendars = CalendarTimes(client.documents("calendars"))
    version = version_of(job, at)
    zone = ZoneInfo(job.schedules[fire.schedule].timezone)
    return JobAudit(f"{job.namespace}/{job.name}", [version], calendars).why_excluded(
        version, at, zone
    )
