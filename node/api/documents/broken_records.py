"""Documents of broken records.

Another version, or a fault, may have stored a value that no document can contain, such as an
instant after the year 9999. Lists still contain all records. A broken record is shown with the
reason, and with its names and ids, which suffice to delete it. A record that cannot be decoded is
shown with its key.
"""

from collections.abc import Callable
from typing import TypeVar

from rota.core.model.execution import Execution
from rota.core.model.ids import instant_of
from rota.core.model.job import Job, JobSpec
from rota.core.model.ledger import LedgerEntry
from rota.core.timing.instants import LATEST_INSTANT, Instant, format_duration, format_instant
from rota.core.timing.schedule import fault_of
from rota.storage.history import UnreadableEntry, UnreadableExecution
from rota.wire.documents import ExecutionView, JobView, LedgerEntryView

View = TypeVar("View")


def complete_or_broken(complete: Callable[[], View], broken: Callable[[str], View]) -> View:
    """Return the document that *complete* makes; if this fails, what *broken* makes of the reason.

    Args:
        complete: Makes the complete document.
        broken: Makes the document of a broken record, given the reason.
    """
    try:
        return complete()
    except Exception as error:
        return broken(f"the record cannot be shown: {type(error).__name__}: {error}")


def broken_job(job: Job, why: str) -> JobView:
    """Return the document of a broken job."""
    return JobView(
        job_id=job.id,
        name=job.spec.name,
        namespace=job.spec.namespace,
        status="broken",
        version=job.version,
        description="",
        schedules=[],
        tasks=[],
        dependencies=[],
        misfire=job.spec.misfire.value,
        grace=format_duration(job.spec.grace),
        overlap=job.spec.overlap.value,
        labels={},
        created_at=_nearest(job.created_at),
        updated_at=_nearest(job.updated_at),
        broken="; ".join(filter(None, (why, unreadable(job.spec)))),
    )


def unreadable(spec: JobSpec) -> str:
    """Return the reasons why schedules of a job are unreadable; empty if none is."""
    return "; ".join(filter(None, map(fault_of, spec.schedules)))


def broken_execution(execution: Execution, why: str) -> ExecutionView:
    """Return the document of a broken execution."""
    return ExecutionView(
        execution_id=execution.id,
        job_id=execution.job_id,
        job=execution.job_name,
        job_version=execution.job_version,
        status=execution.status.value,
        trigger=execution.origin.value,
        fire_time=_nearest(execution.fire_at),
        queued_at=_nearest(execution.queued_at),
        started_at=_nearest(execution.started_at) if execution.started_at else None,
        finished_at=_nearest(execution.finished_at) if execution.finished_at else None,
        broken=why,
    )


def broken_entry(entry: LedgerEntry, why: str) -> LedgerEntryView:
    """Return the document of a broken ledger entry."""
    return LedgerEntryView(
        fire_time=_nearest(entry.fire_at),
        until=_nearest(entry.until),
        count=entry.count,
        schedule=entry.schedule,
        outcome=entry.outcome.value,
        execution_id=entry.execution_id or None,
        reason=entry.reason,
        recorded_at=_nearest(entry.recorded_at),
        broken=why,
    )


def unreadable_execution(execution: UnreadableExecution) -> ExecutionView:
    """Return the document of an execution whose record cannot be decoded."""
    fire_time = _nearest(instant_of(execution.id))
    return ExecutionView(
        execution_id=execution.id,
        job_id=execution.job_id,
        job="",
        job_version=0,
        status="broken",
        trigger="",
        fire_time=fire_time,
        queued_at=fire_time,
        broken=execution.why,
    )


def unreadable_entry(entry: UnreadableEntry) -> LedgerEntryView:
    """Return the document of a ledger entry whose record cannot be decoded."""
    fire_time = _nearest(entry.fire_at)
    return LedgerEntryView(
        fire_time=fire_time,
        until=fire_time,
        count=1,
        schedule=entry.schedule,
        outcome="broken",
        execution_id=None,
        reason="",
        recorded_at=fire_time,
        broken=entry.why,
    )


def _nearest(instant: Instant) -> str:
    return format_instant(Instant(min(max(instant, 0), LATEST_INSTANT)))
