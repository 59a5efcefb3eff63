"""What a job's unfinished executions mean to the next one.

Decided inside the shard, in the entry that makes the execution, so it cannot race.
"""

import msgspec

from rota.core.model.execution import Hold
from rota.core.model.ids import ExecutionId
from rota.core.model.job import Job, Overlap
from rota.core.state.draft import Draft


class Admission(msgspec.Struct, frozen=True):
    """Whether an execution may be made now.

    Attributes:
        hold: What it has to wait for.
        blocked_by: The execution because of which it may not be made at all.
    """

    hold: Hold = Hold.NONE
    blocked_by: ExecutionId | None = None


def admit(draft: Draft, job: Job) -> Admission:
    """Apply the overlap policy of *job* to one more execution."""
    if job.spec.overlap is Overlap.ALLOW:
        return Admission()
    live = list(draft.live_of(job.id))
    if not live:
        return Admission()
    if job.spec.overlap is Overlap.SKIP:
        return Admission(blocked_by=live[0].id)
    waiting = next((one for one in live if one.hold is not Hold.NONE), None)
    return Admission(blocked_by=waiting.id) if waiting else Admission(hold=Hold.OVERLAP)


def must_queue(draft: Draft, job: Job) -> bool:
    """Tell whether an execution of *job* that waited for something else has to wait for another."""
    return job.spec.overlap is Overlap.QUEUE_ONE and any(
        one.hold is Hold.NONE for one in draft.live_of(job.id)
    )
