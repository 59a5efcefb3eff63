"""The record of what users change: one row in the history for each change, and its expiry.

A request that changes nothing has no row. A trigger has none either: the execution that it creates
has its author, and is kept as long as the history. Rows of changes are kept much longer, and
clusters trigger thousands of executions for each change of a job.
"""

from msgspec.structs import replace

from rota.core.decide.recount_fires import COUNTED_AGAIN
from rota.core.model.author import Author
from rota.core.model.execution import Execution
from rota.core.model.job import Job
from rota.core.state.draft import Draft
from rota.core.vocabulary.change_chain import Action, UserChange, change_key, sealed
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.commands import (
    AnswerTask,
    BackfillAction,
    Cancel,
    ControlBackfill,
    DeleteJob,
    ForgetChanges,
    PauseJob,
    Rerun,
    ResumeJob,
    SaveJob,
    StartBackfill,
)
from rota.core.vocabulary.decision import JobSaved, Reply, Triggered


def saved(draft: Draft, command: SaveJob, reply: Reply) -> UserChange | None:
    """Return the creation or the replacement of a job; None if it is as before."""
    assert isinstance(reply, JobSaved), reply
    job = draft.job(reply.job_id)
    assert job is not None, reply
    if reply.is_new:
        return _of_job(draft, Action.JOB_CREATED, command.author, job, before=0)
    before = draft.state.jobs[job.id].version
    if before == job.version:
        return None
    return _of_job(draft, Action.JOB_REPLACED, command.author, job, before=before)


def deleted(draft: Draft, command: DeleteJob, reply: Reply) -> UserChange:
    """Return the deletion of a job."""
    del reply
    job = draft.state.jobs[command.job_id]
    return _of_job(draft, Action.JOB_DELETED, command.author, job, before=job.version, after=0)


def paused(draft: Draft, command: PauseJob, reply: Reply) -> UserChange | None:
    """Return the pause of a job; None if it was paused, and has the same end."""
    del reply
    job = draft.state.jobs[command.job_id]
    if draft.job(job.id) == job:
        return None
    return _of_job(draft, Action.JOB_PAUSED, command.author, job, detail=command.reason)


def resumed(draft: Draft, command: ResumeJob, reply: Reply) -> UserChange | None:
    """Return the end of the pause of a job, or that its schedules count from now; else None."""
    del reply
    job = draft.state.jobs[command.job_id]
    if job.pause is not None:
        return _of_job(draft, Action.JOB_RESUMED, command.author, job)
    if draft.plan(job.id) == draft.state.plans[job.id]:
        return None
    return _of_job(draft, Action.JOB_RESUMED, command.author, job, detail=COUNTED_AGAIN)


def cancelled(draft: Draft, command: Cancel, reply: Reply) -> UserChange | None:
    """Return the cancellation of an execution; None if that changed nothing."""
    del reply
    execution = draft.state.executions[command.execution_id]
    after = draft.execution(execution.id)
    if after == execution:
        return None
    return _of_execution(draft, Action.EXECUTION_CANCELLED, command.author, execution)


def answered(draft: Draft, command: AnswerTask, reply: Reply) -> UserChange:
    """Return the answer of a person to a task that waited for it."""
    del reply
    action = Action.TASK_APPROVED if command.is_approved else Action.TASK_REJECTED
    execution = draft.state.executions[command.execution_id]
    return _of_execution(draft, action, command.author, execution, detail=command.task)


def backfill_started(draft: Draft, command: StartBackfill, reply: Reply) -> UserChange | None:
    """Return the start of a backfill; None for a repetition."""
    del reply
    backfill = command.backfill
    if backfill.id in draft.state.backfills.get(backfill.job_id, {}):
        return None
    job = draft.state.jobs[backfill.job_id]
    return _of_job(draft, Action.BACKFILL_STARTED, command.author, job, detail=backfill.id)


def backfill_changed(draft: Draft, command: ControlBackfill, reply: Reply) -> UserChange | None:
    """Return the pause, the resumption or the cancellation of a backfill; None for no change."""
    del reply
    before = draft.state.backfills[command.job_id][command.backfill_id]
    if draft.backfills.of(command.job_id)[before.id].status is before.status:
        return None
    job = draft.state.jobs[command.job_id]
    return _of_job(draft, _BACKFILL[command.action], command.author, job, detail=before.id)


_BACKFILL = {
    BackfillAction.PAUSE: Action.BACKFILL_PAUSED,
    BackfillAction.RESUME: Action.BACKFILL_RESUMED,
    BackfillAction.CANCEL: Action.BACKFILL_CANCELLED,
}


def rerun(draft: Draft, command: Rerun, reply: Reply) -> UserChange:
    """Return the rerun of an execution."""
    assert isinstance(reply, Triggered), reply
    execution = draft.execution(reply.execution_id)
    version = execution.job_version if execution else command.past.job_version
    return UserChange(
        number=draft.state.chain.last + 1,
        at=draft.now,
        action=Action.EXECUTION_RERUN,
        author=command.author,
        job=command.past.job_name,
        job_id=command.past.job_id,
        execution_id=reply.execution_id,
        before=command.past.job_version,
        after=version,
        detail=command.past.id,
    )


def record(draft: Draft, change: UserChange) -> None:
    """Add *change* to the chain of the shard."""
    row, chain = sealed(draft.state.chain, change)
    draft.put(Table.USER_CHANGE, change_key(change.at, change.number), row)
    draft.put(Table.CHANGE_CHAIN, "", chain)


def forget_changes(draft: Draft, command: ForgetChanges) -> None:
    """Delete the oldest changes; the chain then begins at the hash of the newest of them."""
    chain = draft.state.chain
    if chain.first <= command.last <= chain.last:
        chain = replace(chain, first=command.last + 1, anchor=command.hash)
        draft.put(Table.CHANGE_CHAIN, "", chain)
        for key in command.keys:
            draft.drop(Table.USER_CHANGE, key)


def _of_execution(
    draft: Draft,
    action: Action,
    author: Author | None,
    execution: Execution,
    *,
    detail: str = "",
) -> UserChange:
    """Return a change of *execution*, whose definition stays the same."""
    return UserChange(
        number=draft.state.chain.last + 1,
        at=draft.now,
        action=action,
        author=author,
        job=execution.job_name,
        job_id=execution.job_id,
        execution_id=execution.id,
        before=execution.job_version,
        after=execution.job_version,
        detail=detail,
    )


def _of_job(
    draft: Draft,
    action: Action,
    author: Author | None,
    job: Job,
    *,
    before: int | None = None,
    after: int | None = None,
    detail: str = "",
) -> UserChange:
    """Return a change of *job*; both versions are that of *job* unless they are given."""
    return UserChange(
        number=draft.state.chain.last + 1,
        at=draft.now,
        action=action,
        author=author,
        job=job.spec.full_name,
        job_id=job.id,
        before=job.version if before is None else before,
        after=job.version if after is None else after,
        detail=detail,
    )
