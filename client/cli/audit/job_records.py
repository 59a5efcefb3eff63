"""What a cluster has recorded about a job, read for the audit page by page."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from rota.client.cli.audit.job_audit import Version
from rota.core.timing.instants import (
    MICROSECOND,
    Duration,
    Instant,
    format_instant,
    later,
    parse_duration,
    parse_instant,
)
from rota.wire.documents import JobView, LedgerEntryView

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client

MADE = ("job.created", "job.replaced")
"""The changes that make versions."""
NONE = Duration(0)
LOOK_BACK_MAX = 500
"""The most entries before a range that are searched for one that reaches into it."""


def versions_of(client: "Client", job: JobView, since: Instant) -> tuple[list[Version], str]:
    """Return the versions that decided fire times of a job from *since* on, oldest first.

    The second result is why earlier ones are left out; empty if none are.
    """
    from rota.client.errors import NotAllowed

    found = [version_of(job, parse_instant(job.updated_at))]
    if job.version == 1 or found[0].begin <= since:
        return found, ""
    begins = {job.version: found[0].begin}
    try:
        for change in client.changes(of=job.job_id):
            if change.action in MADE and change.after is not None:
                begins[change.after] = parse_instant(change.at)
                if begins[change.after] <= since:
                    break
    except NotAllowed:
        return found, "versions before it are in the record of changes, which needs the verb audit"
    for number in range(job.version - 1, 0, -1):
        if found[0].begin <= since:
            break
        view = _view_of(client, job.job_id, number)
        if view is None or number not in begins:
            return found, f"version {number} is no longer stored"
        found.insert(0, version_of(view, begins[number]))
    return found, ""


def entries_of(
    client: "Client", job_id: str, schedule_count: int, since: Instant, until: Instant
) -> Iterator[LedgerEntryView]:
    """Yield the entries with fire times in ``[since, until)``, in order.

    Among the entries before *since*, only the latest ones of each schedule can reach into the
    range.
    """
    crossing: list[LedgerEntryView] = []
    seen = set[int]()
    earlier = client.ledger(
        job_id, until=format_instant(since), newest_first=True, limit=LOOK_BACK_MAX
    )
    for entry in earlier:
        seen.add(entry.schedule)
        if parse_instant(entry.until) >= since:
            crossing.insert(0, entry)
        elif len(seen) >= schedule_count:
            break
    within = client.ledger(job_id, since=format_instant(since), until=format_instant(until))
    return chain(crossing, within)


def calendar_deletions(client: "Client", names: Sequence[str]) -> dict[str, Instant]:
    """Return when calendars were last changed that do not exist now, by name."""
    from rota.client.errors import NotFound

    found = dict[str, Instant]()
    for name in names:
        try:
            changes = client.document_changes("calendars", name)
        except NotFound:
            continue
        if changes:
            found[name] = parse_instant(changes[0].at)
    return found


def last_of(entry: LedgerEntryView) -> Instant:
    """Return the first instant after an entry."""
    return later(parse_instant(entry.until), MICROSECOND)


def version_of(view: JobView, begin: Instant) -> Version:
    """Return the version in a document, which was saved at *begin*."""
    definition: dict[str, Any] = view.definition or {}  # Any: JSON of the node.
    own = _own_fields(definition)
    return Version(
        number=view.version,
        begin=begin,
        schedules=view.schedules,
        only=definition.get("onlyCalendars", []),
        unless=definition.get("exceptCalendars", []),
        defers=definition.get("onExcluded", "skip") != "skip",
        jitter=max((parse_duration(str(each.get("jitter") or "0s")) for each in own), default=NONE),
        limited=[number for number, each in enumerate(own) if each.get("maxExecutions")],
    )


def _own_fields(definition: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the schedules in a definition as objects; empty ones for those that are a text."""
    given = definition.get("schedules", [])
    return [each if isinstance(each, dict) else {} for each in given]


def _view_of(client: "Client", job_id: str, version: int) -> JobView | None:
    from rota.client.errors import NotFound

    try:
        return client.job(job_id, version=version)
    except NotFound:
        return None
