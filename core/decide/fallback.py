"""What stand-ins decide and what becomes of it (docs/explanation/available.md).

On the side: a job is followed as its shard's copy has it, and fires like any other.

At the primary, afterwards: a *claim* settles which fire times have an outcome already, an *account*
tells of one execution that has ended.

    claim: entries from the plan's next fire on    the ledger's, and the next fire moves behind them
           entries before that                     have an outcome here: nothing changes
    account of a claimed execution                 its record
            of any other                           a possible duplicate, kept beside it

The next fire is the first without an outcome, so nothing of this needs the history.
"""

from msgspec.structs import replace

from rota.core.decide.advance_execution import tell_dependents
from rota.core.decide.fire import SLICE, set_fire_timer
from rota.core.decide.save_job import keep_version
from rota.core.model.execution import Execution, ExecutionStatus, task_key
from rota.core.model.ids import ExecutionId, NodeId, instant_of
from rota.core.model.job import Job, JobPlan
from rota.core.model.ledger import FireOutcome, LedgerEntry, ledger_key
from rota.core.state.draft import Draft
from rota.core.timing.instants import MICROSECOND, Instant
from rota.core.timing.schedule import Schedule, fire_times, next_fire
from rota.core.vocabulary.changes import Account, Claimed, Mark, Name, Pointer, Table, past_key
from rota.core.vocabulary.commands import Claim, FollowJob, TakeAccount
from rota.core.vocabulary.effects import JobEvent, PublishJob


def follow_job(draft: Draft, command: FollowJob) -> None:
    """Fire a job on this side from now on; what the side has fired before it does not repeat."""
    job = command.job
    standing, own = draft.job(job.id), draft.plan(job.id)
    if standing is not None and standing.version != job.version:
        keep_version(draft, standing)
    plan = JobPlan(next_fires=command.plan.next_fires)
    if own is not None:
        plan = replace(plan, next_fires=_beyond(job, plan, own))
    draft.put(Table.JOB, job.id, job)
    draft.put(Table.NAME, job.spec.full_name, Name(job.id))
    draft.put(Table.PLAN, job.id, plan)
    set_fire_timer(draft, job.id, plan)


def _beyond(job: Job, plan: JobPlan, own: JobPlan) -> tuple[Instant | None, ...]:
    """Return the next fires of *plan* that come after all that *own* has decided."""
    next_fires = list(plan.next_fires)
    for number, (theirs, ours) in enumerate(zip(plan.next_fires, own.next_fires, strict=False)):
        if ours is None:
            next_fires[number] = None
        elif theirs is not None and theirs < ours:
            next_fires[number] = next_fire(job.spec.schedules[number], _before(ours))
    return tuple(next_fires)


def take_claim(draft: Draft, command: Claim) -> None:
    """Make a stand-in's outcomes the ledger's, of the fire times that have none yet.

    A claim of another version is not taken: what was due under that has its outcomes (`save_job`).
    Nor is what is still to come here: a stand-in that was cut off may have had a wrong calendar and
    not have known, and its fires must not silence the job until that day.
    """
    job, plan = draft.job(command.job_id), draft.plan(command.job_id)
    if job is None or plan is None or job.version != command.version:
        return
    next_fires = list(plan.next_fires)
    for number, schedule in enumerate(job.spec.schedules):
        entries = [entry for entry in command.entries if entry.schedule == number]
        for entry in entries:
            due = next_fires[number]
            rest = None if due is None else _from(entry, due, schedule)
            if rest is not None and rest.until <= draft.now:
                _adopt(draft, rest, command.node_id)
                next_fires[number] = next_fire(schedule, rest.until)
    if tuple(next_fires) != plan.next_fires:
        fresh = replace(plan, next_fires=tuple(next_fires))
        draft.put(Table.PLAN, job.id, fresh)
        set_fire_timer(draft, job.id, fresh)


def _from(entry: LedgerEntry, due: Instant, schedule: Schedule) -> LedgerEntry | None:
    """Return what *entry* says from *due* on, if it begins there or before; else there is a gap."""
    if entry.fire_at == due:
        return entry
    if not entry.fire_at < due <= entry.until:
        return None
    times = fire_times(schedule, _before(due), entry.until, SLICE)
    return replace(entry, fire_at=times[0], count=len(times))


def _adopt(draft: Draft, entry: LedgerEntry, node_id: NodeId) -> None:
    reason = f"{entry.reason}; " if entry.reason else ""
    adopted = replace(entry, reason=f"{reason}decided by {node_id}, which stood in")
    key = ledger_key(entry.job_id, entry.fire_at, entry.schedule)
    draft.put(Table.LEDGER, key, adopted)
    _put_by_age(draft, entry.fire_at, Pointer(Table.LEDGER, key))
    if entry.outcome is FireOutcome.FIRED:
        draft.put(Table.CLAIM, entry.execution_id, Claimed(node_id))
        # An account that never comes must not be waited for longer than history is kept.
        _put_by_age(draft, entry.fire_at, Pointer(Table.CLAIM, entry.execution_id))


def place_of(execution: Execution) -> str:
    """Return the place of an account among those of its side.

    No two decisions of a side share an instant, and its time never goes back: what ends later comes
    later, across restarts too.
    """
    return f"{execution.finished_at:014x}/{execution.id}"


def take_account(draft: Draft, command: TakeAccount) -> None:
    """Record how an execution went that a stand-in ran; one told before changes nothing."""
    account = command.account
    key, place = f"stand-in/{account.node_id}", f"{command.side}/{place_of(account.execution)}"
    newest = draft.state.received.get(key, "")
    if newest.startswith(f"{command.side}/") and place <= newest:
        return
    draft.put(Table.RECEIVED, key, Mark(place))
    if draft.state.claims.get(account.execution.id) == account.node_id:
        _record(draft, account)
    else:
        _mark_double(draft, account)


def _record(draft: Draft, account: Account) -> None:
    past = replace(account.execution, stand_in=account.node_id)
    draft.drop(Table.CLAIM, past.id)
    draft.put(Table.PAST_EXECUTION, past.id, past)
    for task in account.tasks:
        draft.put(Table.PAST_TASK, task_key(past.id, task.name), task)
    _put_by_age(draft, instant_of(past.id), Pointer(Table.PAST_EXECUTION, past.id))
    draft.publish_execution(past)
    if past.status is ExecutionStatus.SUCCESS:
        tell_dependents(draft, past)


def _mark_double(draft: Draft, account: Account) -> None:
    execution = account.execution
    key = double_key(execution.id, account.node_id)
    draft.put(Table.DOUBLE, key, account)
    _put_by_age(draft, instant_of(execution.id), Pointer(Table.DOUBLE, key))
    event = PublishJob(
        at=draft.now,
        job_id=execution.job_id,
        job=execution.job_name,
        event=JobEvent.POSSIBLE_DUPLICATE,
        detail=f"{execution.id} ran on {account.node_id} too: {execution.status.value}",
    )
    draft.add(event)


def double_key(execution_id: ExecutionId, node_id: NodeId) -> str:
    """Return the key of a stand-in's account of an execution that is not its own."""
    return f"{execution_id}/{node_id}"


def _put_by_age(draft: Draft, at: Instant, pointer: Pointer) -> None:
    draft.put(Table.PAST, past_key(at, pointer), pointer)


def _before(instant: Instant) -> Instant:
    return Instant(instant - MICROSECOND)
