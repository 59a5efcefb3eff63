"""Outcomes of the newest executions and fire times of a job."""

import pytest

from rota.core.model.execution import ExecutionEnd, ExecutionStatus, Origin
from rota.core.model.ids import JobId, fire_execution_id
from rota.core.model.ledger import FireOutcome, LedgerEntry
from rota.core.timing.instants import SECOND, Instant, format_instant
from rota.node.api.documents.recent_outcomes import RECENT, End, Entry, recent_view
from rota.storage.history import UnreadableEntry, UnreadableExecution

JOB = JobId("3f2a9c0011223344")
STATUSES = {
    "s": ExecutionStatus.SUCCESS,
    "f": ExecutionStatus.FAILED,
    "c": ExecutionStatus.CANCELLED,
}
OUTCOMES = {
    "f": FireOutcome.FIRED,
    "s": FireOutcome.SKIPPED,
    "m": FireOutcome.MISSED,
    "c": FireOutcome.COALESCED,
    "p": FireOutcome.PAUSED,
}


def ends(pattern: str) -> list[End]:
    """Return ends, newest first: success, failed, cancelled, or ``?`` for an unreadable one."""
    return [_end(sign, Instant((100 - place) * SECOND)) for place, sign in enumerate(pattern)]


def _end(sign: str, fire_at: Instant) -> End:
    execution_id = fire_execution_id(JOB, fire_at, 0)
    if sign == "?":
        return UnreadableExecution(execution_id, "damaged")
    return ExecutionEnd(
        id=execution_id,
        job_id=JOB,
        job_name="default/job",
        job_version=1,
        status=STATUSES[sign],
        origin=Origin.SCHEDULE,
        fire_at=fire_at,
        queued_at=fire_at,
        open_count=0,
        finished_at=Instant(fire_at + SECOND // 2),
    )


def entries(pattern: str, *, count: int = 1) -> list[Entry]:
    """Return ledger entries of *count* fire times each, newest first; ``?`` is unreadable."""
    return [_entry(sign, count) for sign in pattern]


def _entry(sign: str, count: int) -> Entry:
    if sign == "?":
        return UnreadableEntry(0, Instant(0), "damaged")
    return LedgerEntry(
        job_id=JOB,
        schedule=0,
        fire_at=Instant(0),
        until=Instant(0),
        count=count,
        outcome=OUTCOMES[sign],
        recorded_at=Instant(0),
    )


def test_executions_are_counted_by_status() -> None:
    view = recent_view(ends("sffc?s"), [])

    assert view.counts == {"success": 2, "failed": 2, "cancelled": 1, "broken": 1}


def test_a_job_without_history_has_no_outcomes() -> None:
    view = recent_view([], [])

    assert view.counts == {"success": 0, "failed": 0, "cancelled": 0, "broken": 0}
    assert view.last_success is None
    assert (view.failure_streak, view.skip_streak) == (0, 0)


def test_the_last_success_is_the_newest_with_the_instant_of_its_end() -> None:
    found = ends("?fcss")

    last = recent_view(found, []).last_success

    assert last is not None
    assert last.execution_id == found[3].id
    assert last.finished_at == format_instant(Instant(97 * SECOND + SECOND // 2))


@pytest.mark.parametrize(
    ("pattern", "streak"),
    [("s", 0), ("sff", 0), ("ffs", 2), ("cfcf?fsf", 3), ("ff", 2), ("cc", 0)],
)
def test_a_failure_streak_ends_with_a_success(pattern: str, streak: int) -> None:
    assert recent_view(ends(pattern), []).failure_streak == streak


@pytest.mark.parametrize(
    ("pattern", "streak"),
    [("f", 0), ("fss", 0), ("smf", 2), ("s?ms", 3), ("sc", 1), ("sp", 1), ("pss", 0)],
)
def test_a_skip_streak_ends_with_any_other_outcome(pattern: str, streak: int) -> None:
    assert recent_view([], entries(pattern)).skip_streak == streak


def test_a_skip_streak_counts_fire_times_up_to_the_limit() -> None:
    assert recent_view([], entries("mmf", count=7)).skip_streak == 14
    assert recent_view([], entries("m", count=30_000)).skip_streak == RECENT
