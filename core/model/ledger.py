"""The fire ledger: for every expected fire time, exactly one recorded outcome (PROTOCOL R33, I11).

An entry usually has one fire time. After an outage, consecutive fire times of one schedule with the
same outcome share one entry with their number, so that a year of seconds takes thousands of entries
instead of thirty million.
"""

from enum import Enum

import msgspec

from rota.core.model.checked_fields import CheckedInstant, Count
from rota.core.model.ids import ExecutionId, JobId
from rota.core.timing.instants import Instant


class FireOutcome(Enum):
    """The outcome of a fire time."""

    FIRED = "fired"
    """An execution was created: `LedgerEntry.execution_id`."""
    SKIPPED = "skipped"
    """The overlap policy forbade an execution, because of `LedgerEntry.execution_id`."""
    MISSED = "missed"
    """The fire time was noticed after its grace under the misfire policy ``skip``, or the disk was
    full."""
    COALESCED = "coalesced"
    """The fire time was noticed after its grace, and `LedgerEntry.execution_id` covers it."""
    PAUSED = "paused"
    """The job was paused."""
    EXCLUDED = "excluded"
    """A calendar of the job, or a blackout, has no executions then."""


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The outcome of *count* consecutive fire times of one schedule.

    Attributes:
        schedule: The schedule's number in the job, from 0.
        fire_at: The first fire time.
        until: The last fire time; equal to *fire_at* if *count* is 1.
        recorded_at: The shard time of the decision.
        execution_id: See `FireOutcome`; empty for ``missed``, ``paused`` and ``excluded``.
        reason: A sentence for users; empty for ``fired``, unless a stand-in made the decision.
    """

    job_id: JobId
    schedule: Count
    fire_at: CheckedInstant
    until: CheckedInstant
    count: Count
    outcome: FireOutcome
    recorded_at: CheckedInstant
    execution_id: ExecutionId = ExecutionId("")
    reason: str = ""


def ledger_key(job_id: JobId, fire_at: Instant, schedule: int) -> str:
    """Return the key of the entry that begins at *fire_at*; a job's entries are in time order."""
    return f"{job_id}/{fire_at:014x}/{schedule:04x}"
