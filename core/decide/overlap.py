"""Overlap policies: whether a job's unfinished executions permit another one.

The policy is applied inside the shard, in the entry that creates the execution, so it cannot race.
No fire is skipped because of a backfill: it waits for the end of the backfill's execution.
"""

from collections.abc import Sequence

import msgspec

from rota.core.model.execution import Execution, Hold
from rota.core.model.ids import ExecutionId
from rota.core.model.job import Job, Overlap
from rota.core.state.draft import Draft

QUEUED_MAX = 1_000
"""The most executions of one job that wait under ``queue_all``; further fires are skipped."""


class Admission(msgspec.Struct, frozen=True):
    """The verdict of an overlap policy on a new execution.

    Attributes:
        hold: The condition that the execution has to wait for.
        blocked_by: The execution that forbids a new one; None if a new one is permitted.
        displaces: The executions that are cancelled if the new one begins.
    """

    hold: Hold = Hold.NONE
    blocked_by: ExecutionId | None = None
    displaces: tuple[ExecutionId, ...] = ()


def admit(draft: Draft, job: Job) -> Admission:
    """Return the verdict of the overlap policy of *job* on one more execution."""
    match job.spec.overlap:  # Without a default, so that type checkers find a missing policy.
        case Overlap.ALLOW:
            return Admission()
        case Overlap.SKIP:
            return _skip(list(draft.live_of(job.id)))
        case Overlap.QUEUE_ONE:
            return _queue_one(list(draft.live_of(job.id)))
        case Overlap.QUEUE_LATEST:
            live = _begun(draft, job)
            waiting = tuple(one.id for one in live if one.hold is Hold.OVERLAP)
            return _behind(live, displaces=waiting)
        case Overlap.QUEUE_ALL:
            live = _begun(draft, job)
            is_full = len(live) > QUEUED_MAX
            return Admission(blocked_by=live[0].id) if is_full else _behind(live)
        case Overlap.CANCEL_RUNNING:
            live = _begun(draft, job)
            return _behind(live, displaces=tuple(one.id for one in live if not one.backfill))


def _begun(draft: Draft, job: Job) -> list[Execution]:
    """Return the unfinished executions of *job*, except one that waits for other jobs."""
    return [one for one in draft.live_of(job.id) if one.hold is not Hold.DEPENDENCIES]


def _skip(live: Sequence[Execution]) -> Admission:
    """Return the verdict of ``skip``: behind an execution of a backfill, one waits."""
    first = next((one for one in live if not one.backfill), None)
    if first is not None:
        return Admission(blocked_by=first.id)
    return Admission(hold=Hold.OVERLAP) if live else Admission()


def _behind(live: Sequence[Execution], displaces: tuple[ExecutionId, ...] = ()) -> Admission:
    """Return the verdict that an execution waits for the end of *live*, if there are any."""
    return Admission(hold=Hold.OVERLAP, displaces=displaces) if live else Admission()


def _queue_one(live: Sequence[Execution]) -> Admission:
    if not live:
        return Admission()
    waiting = next((one for one in live if one.hold is not Hold.NONE), None)
    return Admission(blocked_by=waiting.id) if waiting else Admission(hold=Hold.OVERLAP)


def must_queue(draft: Draft, job: Job) -> bool:
    """Return True if a held execution of *job* has to wait for a running one."""
    return job.spec.overlap not in (Overlap.ALLOW, Overlap.SKIP) and any(
        one.hold is Hold.NONE for one in draft.live_of(job.id)
    )
