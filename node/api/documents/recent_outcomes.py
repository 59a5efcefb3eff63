"""The outcomes of the newest executions and fire times of a job, counted."""

from collections.abc import Iterable, Sequence

from rota.core.model.execution import ExecutionEnd, ExecutionStatus
from rota.core.model.ledger import FireOutcome, LedgerEntry
from rota.core.timing.instants import format_instant
from rota.storage.history import UnreadableEntry, UnreadableExecution
from rota.wire.documents import LastSuccessView, RecentView

RECENT = 100
"""The most executions, and the most fire times, that are counted, to limit the cost of a read."""

End = ExecutionEnd | UnreadableExecution
Entry = LedgerEntry | UnreadableEntry

_COUNTED = (ExecutionStatus.SUCCESS, ExecutionStatus.FAILED, ExecutionStatus.CANCELLED)
_NOT_RUN = (FireOutcome.SKIPPED, FireOutcome.MISSED)


def recent_view(ends: Sequence[End], entries: Iterable[Entry]) -> RecentView:
    """Return the outcomes of executions and of ledger entries, both newest first."""
    readable = [end for end in ends if isinstance(end, ExecutionEnd)]
    counts = {status.value: sum(end.status is status for end in readable) for status in _COUNTED}
    successes = (end for end in readable if end.status is ExecutionStatus.SUCCESS)
    return RecentView(
        counts={**counts, "broken": len(ends) - len(readable)},
        last_success=next(map(_last_success, successes), None),
        failure_streak=_failure_streak(readable),
        skip_streak=_skip_streak(entries),
    )


def _last_success(end: ExecutionEnd) -> LastSuccessView:
    return LastSuccessView(execution_id=end.id, finished_at=format_instant(end.finished_at))


def _failure_streak(ends: Iterable[ExecutionEnd]) -> int:
    streak = 0
    for end in ends:
        if end.status is ExecutionStatus.SUCCESS:
            break
        streak += end.status is ExecutionStatus.FAILED
    return streak


def _skip_streak(entries: Iterable[Entry]) -> int:
    streak = 0
    for entry in entries:
        if isinstance(entry, UnreadableEntry):
            continue
        if entry.outcome not in _NOT_RUN:
            break
        streak += entry.count
    return min(streak, RECENT)  # One entry may have thousands of fire times.
