"""What all kinds of steps share: the definition of a step, and its end."""

from msgspec.structs import replace

from rota.core.model.attempt import RESULTS_BYTES_MAX
from rota.core.model.backfill import PRIORITY
from rota.core.model.execution import Execution, ExecutionStatus, Task, TaskStatus, task_key
from rota.core.model.ids import ExecutionId
from rota.core.model.job import JobSpec, TaskSpec
from rota.core.state.draft import Draft
from rota.core.state.shard_state import Graph
from rota.core.timing.instants import Instant, later
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.commands import Expire, Wake
from rota.core.vocabulary.effects import SetTimer, Timescale


def graph_of(draft: Draft, execution: Execution) -> Graph:
    """Return the graph of the version of its job that an execution runs."""
    return draft.graph(execution.job_id, execution.job_version)


def spec_of(draft: Draft, execution: Execution, step: str) -> TaskSpec:
    """Return the definition of a task, or of the task of a step."""
    return graph_of(draft, execution).spec_of(step)


def unfinished(draft: Draft, execution_id: ExecutionId) -> Execution:
    """Return an execution that is known to be unfinished."""
    execution = draft.execution(execution_id)
    assert execution is not None, execution_id
    return execution


def begin_running(draft: Draft, execution: Execution) -> Execution:
    """Return a queued execution as running, from now or, if that is later, from when it is due."""
    if execution.status is not ExecutionStatus.QUEUED:
        return execution
    timeout = graph_of(draft, execution).spec.execution_timeout
    at = max(draft.now, execution.due_at)
    running = replace(
        execution,
        status=ExecutionStatus.RUNNING,
        started_at=at,
        expires_at=later(at, timeout) if timeout else Instant(0),
    )
    draft.put_execution(running)
    if timeout:
        draft.add(expiry_timer(running))
    draft.publish_execution(running)
    return running


def expiry_timer(execution: Execution) -> SetTimer:
    """Return the timer of the deadline of *execution*."""
    expire = Expire(execution_id=execution.id, deadline=execution.expires_at)
    return SetTimer(execution.expires_at, expire, Timescale.ELAPSED)


def wake_of(execution_id: ExecutionId, task: Task) -> Wake:
    """Return the command of the timer of a task that backs off, or that waits for a time."""
    return Wake(execution_id=execution_id, task=task.name, number=len(task.attempts) + 1)


def set_wake_timer(draft: Draft, execution_id: ExecutionId, task: Task) -> None:
    """Set the timer that wakes *task* at its ``retry_at``."""
    draft.add(SetTimer(task.retry_at, wake_of(execution_id, task), Timescale.ELAPSED))


def is_stopped(execution: Execution, spec: TaskSpec) -> bool:
    """Return True if an execution was stopped, and with it the task: a teardown still runs."""
    return bool(execution.cancelled_at) and (not spec.is_teardown or execution.has_lost_teardown)


def priority_of(execution: Execution, spec: JobSpec) -> int:
    """Return the priority with which tasks of an execution wait for slots."""
    return spec.priority + (PRIORITY if execution.backfill else 0)


def close(draft: Draft, execution_id: ExecutionId, task: Task) -> None:
    """Write a step in a final state; `rota.core.decide.advance_execution.settle` does the rest."""
    execution = unfinished(draft, execution_id)
    is_failure = task.status is TaskStatus.FAILED
    if is_failure and task.index < 0 and spec_of(draft, execution, task.name).allows_failure:
        task, is_failure = replace(task, is_failure_allowed=True), False
    reason = execution.reason
    if is_failure and not reason:
        reason = failure_text(task)
    task = replace(task, retry_at=Instant(0))
    draft.put_task(execution_id, task)
    if draft.checkpoint(execution_id, task.name):
        draft.drop(Table.CHECKPOINT, task_key(execution_id, task.name))
    draft.put_execution(
        replace(
            execution,
            open_count=execution.open_count - 1,
            failed_count=execution.failed_count + is_failure,
            reason=reason,
        )
    )
    draft.publish_task(execution, task)
    draft.ended.append((execution_id, task))


def failure_text(task: Task) -> str:
    """Return the reason of an execution that fails because of a step."""
    return f"task {task.name} failed: {task.reason}" if task.reason else f"{task.name} failed"


def fail(draft: Draft, execution_id: ExecutionId, task: Task, reason: str) -> None:
    """Close a step as failed."""
    close(draft, execution_id, replace(task, status=TaskStatus.FAILED, reason=reason))


def close_with(draft: Draft, execution_id: ExecutionId, task: Task, result: bytes) -> None:
    """Close a step without attempts with a result from elsewhere, as JSON; empty for none.

    It fails if the results of the execution have too many bytes with it.
    """
    execution = unfinished(draft, execution_id)
    result_bytes = execution.result_bytes + len(result)
    if result_bytes > RESULTS_BYTES_MAX:
        detail = f"the results of an execution have {RESULTS_BYTES_MAX:,} bytes as JSON at most"
        fail(draft, execution_id, task, detail)
        return
    draft.put_execution(replace(execution, result_bytes=result_bytes))
    close(draft, execution_id, replace(task, result=result))


def wait(
    draft: Draft, execution: Execution, task: Task, *, is_timed: bool = False, detail: str = ""
) -> None:
    """Write a task that waits without a slot; if *is_timed*, until its ``retry_at``."""
    waiting = replace(task, status=TaskStatus.WAITING)
    draft.put_task(execution.id, waiting)
    draft.publish_task(execution, waiting, detail)
    if is_timed:
        set_wake_timer(draft, execution.id, waiting)
