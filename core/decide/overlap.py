"""Overlap policies: whether a job's unfinished executions permit another one.

The policy is applied inside the shard, in the entry that creates the execution, so it cannot race.
A schedule may have a policy of its own, which then applies to its fires; the unfinished executions
that it looks at are those of the whole job. All other executions have the policy of the job.
No fire is skipped because of a backfill: it waits for the end of the backfill's execution.

If the job has a concurrency key, the policy applies among the executions that have the same value
of it. Requests whose parameters give no value are refused. A fire is not lost for that: without a
value, it shares the key with all others without one.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from rota.core.model.concurrency_key import key_of
from rota.core.model.execution import Execution, Hold
from rota.core.model.expressions import ExpressionError
from rota.core.model.ids import ExecutionId, schedule_of
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


def concurrency_key(job: Job, parameters: str) -> str:
    """Return the concurrency key of an execution of *job*; empty for none.

    Args:
        job: The job.
        parameters: The parameters of the execution as JSON; empty for those of the job.
    """
    if not job.spec.concurrency_key:
        return ""
    try:
        return key_of(job.spec.concurrency_key, parameters or job.spec.parameters)
    except ExpressionError:
        return ""


def problem_of_key(job: Job, parameters: str) -> str:
    """Return why *parameters* give no concurrency key, which *job* needs; empty if they do."""
    if job.spec.concurrency_key:
        try:
            key_of(job.spec.concurrency_key, parameters or job.spec.parameters)
        except ExpressionError as error:
            return f"concurrencyKey: {error}"
    return ""


def admit(draft: Draft, job: Job, parameters: str, number: int | None = None) -> Admission:
    """Return the verdict of the overlap policy of *job* on one more execution with *parameters*.

    *number* is that of its schedule, which may have a policy of its own; None for no schedule.
    """
    overlap = job.spec.overlap if number is None else job.spec.overlap_of(number)
    if overlap is Overlap.ALLOW:
        return Admission()
    live = list(_alike(draft, job, concurrency_key(job, parameters)))
    begun = [one for one in live if one.hold is not Hold.DEPENDENCIES]
    waiting = tuple(one.id for one in begun if one.hold is Hold.OVERLAP)
    most = job.spec.max_parallel
    match overlap:  # Without a default, so that type checkers find a missing policy.
        case Overlap.SKIP:
            return _skip(live, most)
        case Overlap.QUEUE_ONE:
            return _queue_one(live, most)
        case Overlap.QUEUE_LATEST:
            return _behind(begun, most, displaces=_of_policy(job, waiting, number))
        case Overlap.QUEUE_ALL:
            is_full = len(waiting) >= QUEUED_MAX
            return Admission(blocked_by=begun[0].id) if is_full else _behind(begun, most)
        case Overlap.CANCEL_RUNNING:
            own = [one.id for one in begun if not one.backfill]
            return _behind(begun, most, displaces=tuple(own[: len(own) - most + 1]))


def _of_policy(
    job: Job, waiting: Sequence[ExecutionId], number: int | None
) -> tuple[ExecutionId, ...]:
    """Return those of *waiting* in whose place a fire may come: with the job's policy, all."""
    if number is None or job.spec.policy_of(number).overlap is None:
        return tuple(waiting)
    return tuple(each for each in waiting if schedule_of(each) == number)


def _skip(live: Sequence[Execution], most: int) -> Admission:
    """Return the verdict of ``skip``: behind executions of a backfill, one waits."""
    own = [one for one in live if not one.backfill]
    return Admission(blocked_by=own[0].id) if len(own) >= most else _behind(live, most)


def _behind(
    live: Sequence[Execution], most: int, displaces: tuple[ExecutionId, ...] = ()
) -> Admission:
    """Return the verdict that an execution waits until fewer than *most* of *live* are left."""
    return Admission(hold=Hold.OVERLAP, displaces=displaces) if len(live) >= most else Admission()


def _queue_one(live: Sequence[Execution], most: int) -> Admission:
    waiting = next((one for one in live if one.hold is not Hold.NONE), None)
    return Admission(blocked_by=waiting.id) if waiting else _behind(live, most)


def _alike(draft: Draft, job: Job, key: str) -> Iterator[Execution]:
    """Yield the unfinished executions of *job* with the concurrency key, oldest first."""
    return (one for one in draft.live_of(job.id, key) if one.concurrency_key == key)


def is_full(draft: Draft, job: Job, parameters: str) -> bool:
    """Return True if no further execution of *job* with *parameters* may begin to run now."""
    alike = _alike(draft, job, concurrency_key(job, parameters))
    return any(islice(alike, job.spec.max_parallel - 1, None))


def is_busy(draft: Draft, job: Job, key: str) -> bool:
    """Return True if as many executions of *job* with *key* run as its overlap policy allows."""
    running = (one for one in _alike(draft, job, key) if one.hold is Hold.NONE)
    return any(islice(running, job.spec.max_parallel - 1, None))


def next_waiting(draft: Draft, job: Job, key: str) -> Execution | None:
    """Return the oldest execution of *job* with *key* that waits for another one; None for none."""
    return next((one for one in _alike(draft, job, key) if one.hold is Hold.OVERLAP), None)


def must_queue(draft: Draft, job: Job, held: Execution) -> bool:
    """Return True if the held execution of *job* has to wait for a running one."""
    overlap = job.spec.overlap_of(schedule_of(held.id))
    may_queue = overlap not in (Overlap.ALLOW, Overlap.SKIP)
    return may_queue and is_busy(draft, job, held.concurrency_key)
