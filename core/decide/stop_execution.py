"""Executions that end early: at a user's request, for a failed task, or because of a deadline.

Running attempts are stopped, all other tasks are cancelled at once, and the execution ends with its
last attempt. Teardowns still run, unless nothing has started or the user does not want them. An
execution expires if no attempt has started before its start deadline, or if it has not ended before
its timeout.
"""

from msgspec.structs import replace

from rota.core.decide.steps.kinds import kind_of
from rota.core.decide.steps.step import close, is_stopped, wake_of
from rota.core.errors import not_found
from rota.core.model.attempt import AttemptKey
from rota.core.model.execution import (
    FINAL_TASK_STATES,
    Execution,
    ExecutionStatus,
    Origin,
    Task,
    TaskStatus,
)
from rota.core.model.ids import instant_of, schedule_of
from rota.core.model.ledger import FireOutcome, LedgerEntry, ledger_key
from rota.core.state.draft import Draft
from rota.core.timing.instants import format_duration
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.commands import Cancel, Expire
from rota.core.vocabulary.effects import ClearTimer, Stop, Timescale


def cancel_execution(draft: Draft, command: Cancel) -> None:
    """Cancel an execution: stop running attempts, cancel other tasks; a repetition changes nothing.

    A forced cancellation also stops teardowns; it may follow one that is not.

    Raises:
        Refused: There is no such unfinished execution.
    """
    execution = draft.execution(command.execution_id)
    if execution is None:
        raise not_found("execution", command.execution_id)
    if not execution.cancelled_at:
        reason = "cancelled by request"
        cancel(draft, replace(execution, has_lost_teardown=command.is_forced), reason)
    elif command.is_forced and not execution.has_lost_teardown:
        stop(draft, replace(execution, has_lost_teardown=True))


def cancel(draft: Draft, execution: Execution, reason: str) -> None:
    """Stop an execution as cancelled, unless it is stopped already."""
    if not execution.cancelled_at:
        stop(draft, replace(execution, cancelled_at=draft.now, reason=reason))


def expire_execution(draft: Draft, command: Expire) -> None:
    """Stop an execution whose deadline has passed; it fails."""
    execution = draft.execution(command.execution_id)
    if execution is None or execution.cancelled_at or execution.expires_at != command.deadline:
        return
    spec = draft.graph(execution.job_id, execution.job_version).spec
    if execution.status is ExecutionStatus.QUEUED:
        reason = (
            f"did not start within its start deadline of {format_duration(spec.start_deadline)}"
        )
        if execution.origin is Origin.SCHEDULE:
            _record_expiry(draft, execution, f"its execution {reason}")
    else:
        reason = f"did not end within its timeout of {format_duration(spec.execution_timeout)}"
    stop(draft, replace(execution, cancelled_at=draft.now, has_expired=True, reason=reason))


def _record_expiry(draft: Draft, execution: Execution, reason: str) -> None:
    """Add *reason* to the ledger entry of the fire time of *execution*."""
    fire_at, schedule = instant_of(execution.id), schedule_of(execution.id)
    entry = LedgerEntry(
        job_id=execution.job_id,
        schedule=schedule,
        fire_at=fire_at,
        until=fire_at,
        count=1,
        outcome=FireOutcome.FIRED,
        recorded_at=execution.queued_at,
        execution_id=execution.id,
        reason=reason,
    )
    draft.put(Table.LEDGER, ledger_key(execution.job_id, fire_at, schedule), entry)


def fail_fast(draft: Draft, execution: Execution, task: Task) -> None:
    """Stop an execution whose *task* has failed; it fails."""
    reason = f"was stopped, because {task.name} failed"
    stop(draft, replace(execution, cancelled_at=draft.now, has_expired=True, reason=reason))


def stop(draft: Draft, execution: Execution) -> None:
    """Stop the running attempts of *execution*, and cancel its other tasks."""
    if execution.status is ExecutionStatus.QUEUED:
        execution = replace(execution, has_lost_teardown=True)
    draft.put_execution(execution)
    graph = draft.graph(execution.job_id, execution.job_version)
    for name in draft.task_names(execution.id):
        task = draft.task(execution.id, name)
        assert task is not None, name
        if not is_stopped(execution, graph.spec_of(name)):
            continue
        if task.status is TaskStatus.RUNNING:
            draft.add(Stop(AttemptKey(execution.id, name, task.attempts[-1].number)))
        elif task.status not in FINAL_TASK_STATES:
            if task.retry_at:
                wake = wake_of(execution.id, task)
                draft.add(ClearTimer(task.retry_at, wake, Timescale.ELAPSED))
            if task.status is TaskStatus.WAITING:
                kind_of(graph.spec_of(name), task).abandon(draft, execution.id, task)
            close(draft, execution.id, replace(task, status=TaskStatus.CANCELLED, reason=""))
