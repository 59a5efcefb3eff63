"""Fires of jobs by a stand-in, and their reconciliation (docs/explanation/available.md).

On the fallback shard, `FollowJob` sets a job to the definition and plan in the node's copy of the
real shard; the job then fires like any other.

On the primary, afterwards, `ReconcileFires` has the outcomes that the stand-in decided for fire
times, and `ReconcileExecution` has one execution that ended on the stand-in.

    an entry from the plan's next fire on      goes into the ledger; the next fire moves past it
    an entry before the next fire              the fire time has an outcome here: no change
    an execution of an entry in the ledger     becomes the execution's record
    any other execution                        is recorded as a possible duplicate

The next fire is the first fire time without an outcome, so reconciliation never reads the history.
"""

from itertools import zip_longest

from msgspec.structs import replace

from rota.core.decide.advance_execution import notify_dependents
from rota.core.decide.fire import SLICE, advance, count_begun, set_fire_timer
from rota.core.decide.run_hooks import note_end, note_missed
from rota.core.decide.save_job import keep_version
from rota.core.model.execution import Execution, ExecutionStatus, task_key
from rota.core.model.ids import ExecutionId, NodeId, instant_of
from rota.core.model.job import Job, JobPlan
from rota.core.model.ledger import FireOutcome, LedgerEntry, ledger_key
from rota.core.state.draft import Draft
from rota.core.timing.instants import MICROSECOND, Duration, Instant
from rota.core.timing.schedule import Schedule, fire_times, next_fire
from rota.core.vocabulary.changes import (
    LastReceived,
    Name,
    Pointer,
    StandInExecution,
    StandInRun,
    Table,
    past_key,
)
from rota.core.vocabulary.commands import FollowJob, ReconcileExecution, ReconcileFires
from rota.core.vocabulary.effects import JobEvent, PublishJob


def follow_job(draft: Draft, command: FollowJob) -> None:
    """Let this fallback shard fire a job; fire times that it has decided before stay decided."""
    job = _without_hooks(command.job)
    existing, own = draft.job(job.id), draft.plan(job.id)
    if existing is not None and existing.version != job.version:
        keep_version(draft, existing)
    plan = replace(command.plan, starts=())
    if own is not None:
        plan = replace(plan, next_fires=_next_undecided(job, plan, own))
    if existing is not None and own is not None and existing.version == job.version:
        begun = tuple(map(max, zip_longest(plan.begun, own.begun, fillvalue=0)))
        plan = replace(plan, begun=begun)
    draft.put(Table.JOB, job.id, job)
    draft.put(Table.NAME, job.spec.full_name, Name(job.id))
    draft.put(Table.PLAN, job.id, plan)
    set_fire_timer(draft, job.id, plan)


def _without_hooks(job: Job) -> Job:
    """Return *job* without hooks, which its shard runs when the executions are reconciled."""
    return replace(job, spec=replace(job.spec, hooks=(), late_after=Duration(0)))


def _next_undecided(job: Job, plan: JobPlan, own: JobPlan) -> tuple[Instant | None, ...]:
    """Return the next fires of *plan*, moved past the fire times that *own* has decided."""
    next_fires = list(plan.next_fires)
    for number, (theirs, ours) in enumerate(zip(plan.next_fires, own.next_fires, strict=False)):
        if ours is None:
            next_fires[number] = None
        elif theirs is not None and theirs < ours:
            next_fires[number] = next_fire(job.spec.schedules[number], _before(ours))
    return tuple(next_fires)


def reconcile_fires(draft: Draft, command: ReconcileFires) -> None:
    """Record a stand-in's outcomes for fire times that have no outcome yet.

    All are ignored if the job has another version by now: the fire times due under the old version
    have their outcomes (`save_job`). Fire times in the future are ignored too: the wall clock of a
    stand-in that was cut off may have been wrong, and the job would not fire until that date.
    """
    job, plan = draft.job(command.job_id), draft.plan(command.job_id)
    if job is None or plan is None or job.version != command.version:
        return
    for entry in command.entries:
        _reconcile_entry(draft, job, entry, command.node_id)
    reconciled = draft.plan(job.id)
    if reconciled is not None and reconciled != plan:
        set_fire_timer(draft, job.id, reconciled)


def _reconcile_entry(draft: Draft, job: Job, entry: LedgerEntry, node_id: NodeId) -> None:
    plan, number = draft.plan(job.id), entry.schedule
    due = plan.next_fires[number] if plan is not None and number < len(plan.next_fires) else None
    undecided = None if due is None else _from(entry, due, job.spec.schedules[number])
    if undecided is not None and undecided.until <= draft.wall:
        _record_fires(draft, job, undecided, node_id)
        if undecided.outcome is FireOutcome.FIRED:
            count_begun(draft, job, number)
        advance(draft, job, number, undecided.until)


def _from(entry: LedgerEntry, due: Instant, schedule: Schedule) -> LedgerEntry | None:
    """Return the part of *entry* from *due* on; None if it ends before *due* or leaves a gap."""
    if entry.fire_at == due:
        return entry
    if not entry.fire_at < due <= entry.until:
        return None
    times = fire_times(schedule, _before(due), entry.until, SLICE)
    return replace(entry, fire_at=times[0], count=len(times))


def _record_fires(draft: Draft, job: Job, entry: LedgerEntry, node_id: NodeId) -> None:
    reason = f"{entry.reason}; " if entry.reason else ""
    recorded = replace(entry, reason=f"{reason}decided by the stand-in {node_id}")
    key = ledger_key(entry.job_id, entry.fire_at, entry.schedule)
    draft.put(Table.LEDGER, key, recorded)
    _put_by_age(draft, entry.fire_at, Pointer(Table.LEDGER, key))
    draft.publish_fires(job.spec.full_name, recorded)
    if entry.outcome is FireOutcome.MISSED:
        note_missed(draft, job, recorded)
    if entry.outcome is FireOutcome.FIRED:
        draft.put(Table.STAND_IN, entry.execution_id, StandInRun(node_id))
        # If the execution is never reported, this record expires with the history.
        _put_by_age(draft, entry.fire_at, Pointer(Table.STAND_IN, entry.execution_id))


def reconciliation_order(execution: Execution) -> str:
    """Return the sort key of an ended execution among those of its fallback shard.

    No two decisions of a shard have the same instant, and shard time never goes back. So the order
    is that in which the executions ended, across restarts too.
    """
    return f"{execution.finished_at:014x}/{execution.id}"


def reconcile_execution(draft: Draft, command: ReconcileExecution) -> None:
    """Record an execution that ended on a stand-in; a repetition changes nothing."""
    ended, prefix = command.ended, f"{command.fallback_copy}/"
    key = f"stand-in/{ended.node_id}"
    position = f"{prefix}{reconciliation_order(ended.execution)}"
    newest = draft.state.received.get(key, "")
    if newest.startswith(prefix) and position <= newest:
        return
    draft.put(Table.RECEIVED, key, LastReceived(position))
    if draft.state.stand_ins.get(ended.execution.id) == ended.node_id:
        _record_execution(draft, ended)
    else:
        _record_duplicate(draft, ended)


def _record_execution(draft: Draft, ended: StandInExecution) -> None:
    past = replace(ended.execution, stand_in=ended.node_id)
    draft.drop(Table.STAND_IN, past.id)
    draft.put(Table.PAST_EXECUTION, past.id, past)
    for task in ended.tasks:
        draft.put(Table.PAST_TASK, task_key(past.id, task.name), task)
    _put_by_age(draft, instant_of(past.id), Pointer(Table.PAST_EXECUTION, past.id))
    draft.publish_execution(past)
    if past.status is ExecutionStatus.SUCCESS:
        notify_dependents(draft, past)
    note_end(draft, past)


def _record_duplicate(draft: Draft, ended: StandInExecution) -> None:
    execution = ended.execution
    key = duplicate_key(execution.id, ended.node_id)
    draft.put(Table.DUPLICATE, key, ended)
    _put_by_age(draft, instant_of(execution.id), Pointer(Table.DUPLICATE, key))
    event = PublishJob(
        at=draft.now,
        job_id=execution.job_id,
        job=execution.job_name,
        event=JobEvent.POSSIBLE_DUPLICATE,
        detail=f"{execution.id} ran on {ended.node_id} too: {execution.status.value}",
    )
    draft.add(event)


def duplicate_key(execution_id: ExecutionId, node_id: NodeId) -> str:
    """Return the key of an execution on a stand-in that is a possible duplicate."""
    return f"{execution_id}/{node_id}"


def _put_by_age(draft: Draft, at: Instant, pointer: Pointer) -> None:
    draft.put(Table.PAST, past_key(at, pointer), pointer)


def _before(instant: Instant) -> Instant:
    return Instant(instant - MICROSECOND)
