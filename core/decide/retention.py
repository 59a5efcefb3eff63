"""Deletion of old history, a page at a time."""

from rota.core.decide.fire import first_fire
from rota.core.decide.save_job import delete_job
from rota.core.model.execution import task_key
from rota.core.model.ids import ExecutionId, JobId, instant_of, job_of, schedule_of
from rota.core.model.ledger import ledger_key
from rota.core.state.draft import Draft
from rota.core.vocabulary.changes import Table, past_key
from rota.core.vocabulary.commands import DeleteJob, Forget, Past


def forget(draft: Draft, command: Forget) -> None:
    """Delete the records that *command* names, with the ledger entries of their fires.

    A one-off job is deleted with its history. The records that *command* keeps are deleted too if
    their job no longer exists or is a one-off job.
    """
    for past in command.pasts:
        _delete(draft, past)
    for past in command.kept:
        job = draft.job(_job_of(past))
        if job is None or job.spec.is_one_off:
            _delete(draft, past)
        else:
            _keep(draft, past)


def _delete(draft: Draft, past: Past) -> None:
    _delete_one_off(draft, _job_of(past))
    pointer = past.pointer
    draft.drop(Table.PAST, past_key(past.instant, pointer))
    draft.drop(Table(pointer.table), pointer.key)
    if pointer.table == Table.PAST_EXECUTION:
        _forget_execution(draft, ExecutionId(pointer.key), past.tasks)


def _keep(draft: Draft, past: Past) -> None:
    """Date a record to this decision, so that it is examined again after a retention period."""
    draft.drop(Table.PAST, past_key(past.instant, past.pointer))
    draft.put(Table.PAST, past_key(draft.now, past.pointer), past.pointer)


def _job_of(past: Past) -> JobId:
    """Return the job that a record of the history belongs to."""
    return JobId(past.pointer.key.partition("-")[0].partition("/")[0])


def _delete_one_off(draft: Draft, job_id: JobId) -> None:
    """Delete a one-off job whose history expires, unless it still fires or runs."""
    job, plan = draft.job(job_id), draft.plan(job_id)
    if job is None or plan is None or not job.spec.is_one_off:
        return
    if first_fire(plan) is None and not any(draft.live_of(job_id)):
        delete_job(draft, DeleteJob(job_id=job_id))


def _forget_execution(draft: Draft, execution_id: ExecutionId, tasks: tuple[str, ...]) -> None:
    for task in tasks:
        draft.drop(Table.PAST_TASK, task_key(execution_id, task))
    # The nonce of a triggered execution is not a schedule's number, so no other entry is deleted.
    key = ledger_key(job_of(execution_id), instant_of(execution_id), schedule_of(execution_id))
    draft.drop(Table.LEDGER, key)
