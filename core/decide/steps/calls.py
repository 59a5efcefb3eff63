"""Steps that run another job: the step waits, without a slot, until that execution has ended.

    caller's shard                      shard of the called job
    start_call      -- Called   ->      an execution begins, or cannot
    note_answer     <- Answered --      report_call: it has begun, cannot begin, or has ended
    abandon_call    -- Recalled ->      it is cancelled

Messages go through the outbox, so none is lost when a node ends, and a repetition changes nothing.
"""

import msgspec
from msgspec.structs import replace

from rota.core.decide.outbox import has_room, send_message
from rota.core.decide.steps.flow_values import names_of, results_of
from rota.core.decide.steps.step import (
    begin_running,
    close_with,
    fail,
    graph_of,
    spec_of,
    unfinished,
    wait,
)
from rota.core.model.execution import Execution, ExecutionStatus, Task, TaskStatus
from rota.core.model.expressions import ExpressionError, rendered_json
from rota.core.model.flow import CALL_BYTES_MAX, RunJob
from rota.core.model.hook import REASON_MAX
from rota.core.model.ids import ExecutionId
from rota.core.state.draft import Draft
from rota.core.vocabulary.changes import Answered, Called, Recalled

_encode = msgspec.json.Encoder().encode


def start_call(draft: Draft, execution_id: ExecutionId, task: Task) -> None:
    """Ask for an execution of another job, and wait for its end."""
    execution = begin_running(draft, unfinished(draft, execution_id))
    spec = spec_of(draft, execution, task.name)
    call = spec.wait
    assert isinstance(call, RunJob), spec
    try:
        names = names_of(draft, execution, task, spec, call.parameters)
        parameters = rendered_json(call.parameters, names) if call.parameters else ""
    except ExpressionError as error:
        fail(draft, execution_id, task, f"parameters of {call.job}: {error}")
        return
    if len(parameters.encode()) > CALL_BYTES_MAX:
        size = f"{len(parameters.encode()):,} bytes as JSON; at most {CALL_BYTES_MAX:,} are allowed"
        fail(draft, execution_id, task, f"the parameters of {call.job} have {size}")
        return
    if not has_room(draft, execution.job_name, call.job):
        fail(draft, execution_id, task, f"too many messages wait for {call.job}")
        return
    message = Called(
        upstream=execution.job_name,
        dependent=call.job,
        execution_id=execution.id,
        task=task.name,
        parameters=parameters,
        links=execution.links + 1,
    )
    send_message(draft, call.job, message)
    wait(draft, execution, replace(task, reason=f"waits for an execution of {call.job}"))


def abandon_call(draft: Draft, execution_id: ExecutionId, task: Task) -> None:
    """Cancel the execution that a step waits for, because the step is cancelled."""
    execution = unfinished(draft, execution_id)
    call = spec_of(draft, execution, task.name).wait
    assert isinstance(call, RunJob), task
    message = Recalled(
        upstream=execution.job_name,
        dependent=call.job,
        execution_id=execution.id,
        task=task.name,
    )
    send_message(draft, call.job, message)


def note_answer(draft: Draft, message: Answered) -> None:
    """Continue with the step that waits for an execution that has begun or ended."""
    execution = draft.execution(message.execution_id)
    task = draft.task(message.execution_id, message.task) if execution else None
    if execution is None or task is None or task.status is not TaskStatus.WAITING:
        return
    if not isinstance(spec_of(draft, execution, task.name).wait, RunJob) or task.loop:
        return
    task = replace(task, called=message.called)
    if message.status in (ExecutionStatus.QUEUED, ExecutionStatus.RUNNING):
        waiting = replace(task, reason=f"waits for execution {message.called}")
        draft.put_task(execution.id, waiting)
        draft.publish_task(execution, waiting)
        return
    is_success = message.status is ExecutionStatus.SUCCESS
    status = TaskStatus.SUCCESS if is_success else TaskStatus.FAILED
    ended = replace(task, status=status, reason=message.reason)
    close_with(draft, execution.id, ended, message.result)


def report_call(draft: Draft, called: Execution) -> None:
    """Tell the step that waits for *called* that it has begun or, with the results, ended.

    The outbox has always room: a step that waits gets at most two answers.
    """
    caller = called.caller
    assert caller is not None, called
    result, reason = _result(draft, called) if called.finished_at else (b"", "")
    if called.status is ExecutionStatus.FAILED:
        reason = f"execution {called.id} failed: {called.reason}"
    elif called.status is ExecutionStatus.CANCELLED:
        reason = f"execution {called.id} was cancelled"
    message = Answered(
        upstream=caller.job,
        dependent=called.job_name,
        execution_id=caller.execution_id,
        task=caller.task,
        called=called.id,
        status=called.status,
        reason=reason[:REASON_MAX],
        result=result,
    )
    send_message(draft, caller.job, message)


def refuse_call(draft: Draft, message: Called, why: str) -> None:
    """Tell a step that the job that it wants to run cannot run."""
    refusal = Answered(
        upstream=message.upstream,
        dependent=message.dependent,
        execution_id=message.execution_id,
        task=message.task,
        status=ExecutionStatus.FAILED,
        reason=f"{message.dependent} cannot run: {why}"[:REASON_MAX],
    )
    send_message(draft, message.upstream, refusal)


def _result(draft: Draft, called: Execution) -> tuple[bytes, str]:
    """Return the result of a step that ran *called*, and what is to be said about it.

    It has the results of the last tasks of *called*, which no task needs, by their names.
    """
    graph = graph_of(draft, called)
    needed = {name for spec in graph.spec.tasks if not spec.is_teardown for name in spec.needs}
    last = (spec.name for spec in graph.spec.tasks if not spec.is_teardown)
    results = results_of(draft, called, tuple(name for name in last if name not in needed))
    reason = ""
    if len(results) > CALL_BYTES_MAX:
        reason = (
            f"its results have {len(results):,} bytes as JSON and are left out; at most "
            f"{CALL_BYTES_MAX:,} are passed on: store the data elsewhere, and pass its location"
        )
        results = b"null"
    fields = {"executionId": called.id, "status": called.status.value}
    return _encode({**fields, "results": msgspec.Raw(results)}), reason
