"""Overlap policies: whether a job's unfinished executions permit another one.

The policy is applied inside the shard, in the entry that creates the execution, so it cannot race.
"""

from collections.abc import Sequence

import msgspec

from rota.core.model.execution import Execution, Hold
from rota.core.model.ids import ExecutionId
from rota.core.model.job import Job, Overlap
from rota.core.state.draft import Draft


class Admission(msgspec.Struct, frozen=True):
    """The verdict of an overlap policy on a new execution.

    Attributes:
        hold: The condition that the execution has to wait for.
        blocked_by: The execution that forbids a new one; None if a new one is permitted.
    """

    hold: Hold = Hold.NONE
    blocked_by: ExecutionId | None = None


def admit(draft: Draft, job: Job) -> Admission:
    """Return the verdict of the overlap policy of *job* on one more execution."""
    match job.spec.overlap:  # Without a default, so that type checkers find a missing policy.
        case Overlap.ALLOW:
            return Admission()
        case Overlap.SKIP:
            first = next(iter(draft.live_of(job.id)), None)
            return Admission(blocked_by=first.id if first else None)
        case Overlap.QUEUE_ONE:
            return _queue_one(list(draft.live_of(job.id)))


def _queue_one(live: Sequence[Execution]) -> Admission:
    if not live:
        return Admission()
    waiting = next((one for one in live if one.hold is not Hold.NONE), None)
    return Admission(blocked_by=waiting.id) if waiting else Admission(hold=Hold.OVERLAP)


def must_queue(draft: Draft, job: Job) -> bool:
    """Return True if a held execution of *job* has to wait for a running one (``queue_one``)."""
    return job.spec.overlap is Overlap.QUEUE_ONE and any(
        one.hold is Hold.NONE for one in draft.live_of(job.id)
    )
