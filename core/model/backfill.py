"""Backfills: executions of a job for fire times of the past.

A backfill has its own list of times, made when it starts, and runs one execution for each, at most
`Backfill.parallel` at a time. It never changes the next fire times of the job.
"""

from enum import Enum

import msgspec

from rota.core.model.author import Author
from rota.core.model.checked_fields import CheckedInstant, CheckedJobId, Count
from rota.core.timing.instants import Instant

TIMES_MAX = 10_000
"""The most fire times of one backfill."""
PARALLEL_MAX = 100
KEPT_MAX = 20
"""The number of newest backfills of a job that are kept when they have ended."""
PRIORITY = -360
"""What is added to the priority of tasks: a live task takes precedence for an hour of waiting."""


class BackfillStatus(Enum):
    """The state of a backfill."""

    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    CANCELLED = "cancelled"


ACTIVE = (BackfillStatus.RUNNING, BackfillStatus.PAUSED)


class Reprocess(Enum):
    """The fire times that run, by the newest execution for each."""

    MISSING = "missing"
    """Those without an execution."""
    FAILED = "failed"
    """Also those whose newest execution failed or was cancelled."""
    ALL = "all"


class FireOrder(Enum):
    """The order of the executions."""

    OLDEST_FIRST = "oldest"
    NEWEST_FIRST = "newest"


class Backfill(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A backfill of a job, and its progress.

    Attributes:
        id: Its id: 16 hexadecimal digits.
        job_id: The job.
        since: The first fire time that belongs to it.
        until: The end of its range; fire times are earlier.
        parallel: The most unfinished executions.
        parameters: Parameters as JSON, in place of those of the job; empty for these.
        author: The caller who started it.
        total: The number of its fire times.
        begun: The number of executions that have begun.
        open: The number of these that have not ended.
        failed: The number of these that failed or were cancelled.
        finished_at: When it ended; 0 before that.
    """

    id: str
    job_id: CheckedJobId
    since: CheckedInstant
    until: CheckedInstant
    reprocess: Reprocess
    order: FireOrder
    parallel: Count
    total: Count
    created_at: CheckedInstant
    parameters: str = ""
    author: Author | None = None
    status: BackfillStatus = BackfillStatus.RUNNING
    begun: Count = 0
    open: Count = 0
    failed: Count = 0
    finished_at: CheckedInstant = Instant(0)


class BackfillTimes(msgspec.Struct, frozen=True, array_like=True):
    """The fire times of a backfill, in the order in which they run; written once."""

    times: tuple[CheckedInstant, ...]


def backfill_key(job_id: str, backfill_id: str) -> str:
    """Return the key of the records of a backfill; those of one job are adjacent."""
    return f"{job_id}/{backfill_id}"
