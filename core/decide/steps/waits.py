"""Steps without a slot: they wait for a time or for a person, or choose the tasks that follow."""

import msgspec
from msgspec.structs import replace

from rota.core.decide.steps.flow_values import names_of
from rota.core.decide.steps.step import begin_running, close, fail, spec_of, unfinished, wait
from rota.core.errors import Kind, Refused, not_found
from rota.core.model.execution import Task, TaskStatus
from rota.core.model.expressions import ExpressionError, evaluate, has_template, rendered
from rota.core.model.flow import Approval, Sleep, Switch
from rota.core.model.ids import ExecutionId
from rota.core.quoting import in_quotes, shortened
from rota.core.state.draft import Draft
from rota.core.timing.instants import Instant, format_duration, later, parse_instant
from rota.core.vocabulary.commands import AnswerTask

ANSWER_BYTES_MAX = 64 << 10
"""The largest form that a person fills in."""


def start_sleep(draft: Draft, execution_id: ExecutionId, task: Task) -> None:
    """Wait for a time, from now or, if that is later, from when the execution is due."""
    execution = begin_running(draft, unfinished(draft, execution_id))
    spec = spec_of(draft, execution, task.name)
    sleep = spec.wait
    assert isinstance(sleep, Sleep), spec
    until = later(max(draft.now, execution.due_at), sleep.duration)
    if sleep.until:
        try:
            names = names_of(draft, execution, task, spec, sleep.until)
            until = parse_instant(str(evaluate(sleep.until, names)))
        except (ExpressionError, ValueError) as error:
            fail(draft, execution_id, task, f"sleep until {sleep.until}: {error}")
            return
    wait(draft, execution, replace(task, retry_at=max(until, draft.now)), is_timed=True)


def end_sleep(draft: Draft, execution_id: ExecutionId, task: Task) -> None:
    """End a wait whose time has come."""
    close(draft, execution_id, replace(task, status=TaskStatus.SUCCESS))


def start_approval(draft: Draft, execution_id: ExecutionId, task: Task) -> None:
    """Wait for a person."""
    execution = begin_running(draft, unfinished(draft, execution_id))
    spec = spec_of(draft, execution, task.name)
    approval = spec.wait
    assert isinstance(approval, Approval), spec
    try:
        message = approval.message
        if has_template(message):
            message = rendered(message, names_of(draft, execution, task, spec, message))
    except ExpressionError as error:
        fail(draft, execution_id, task, f"approval: {error}")
        return
    reason = f"waits for approval: {message}" if message else "waits for approval"
    deadline = later(draft.now, approval.timeout) if approval.timeout else Instant(0)
    waiting = replace(task, reason=reason, retry_at=deadline)
    wait(draft, execution, waiting, is_timed=bool(deadline))


def end_approval(draft: Draft, execution_id: ExecutionId, task: Task) -> None:
    """Fail a task without an answer in time."""
    approval = spec_of(draft, unfinished(draft, execution_id), task.name).wait
    assert isinstance(approval, Approval), task
    reason = f"no answer within {format_duration(approval.timeout)}"
    fail(draft, execution_id, task, reason)


def start_switch(draft: Draft, execution_id: ExecutionId, task: Task) -> None:
    """Choose the tasks of the first case that holds; their names are the result.

    The other tasks of its cases are skipped when their rules are met, by
    `rota.core.decide.advance_execution.begin_step`.
    """
    execution = begin_running(draft, unfinished(draft, execution_id))
    spec = spec_of(draft, execution, task.name)
    switch = spec.wait
    assert isinstance(switch, Switch), spec
    chosen: tuple[str, ...] = ()
    for number, case in enumerate(switch.cases):
        try:
            names = names_of(draft, execution, task, spec, case.when)
            holds = not case.when or bool(evaluate(case.when, names))
        except ExpressionError as error:
            fail(draft, execution_id, task, f"case {number} of its switch: {error}")
            return
        if holds:
            chosen = case.to
            break
    reason = f"chose {', '.join(chosen)}" if chosen else "chose no task"
    result = msgspec.json.encode(chosen)
    close(
        draft,
        execution_id,
        replace(task, status=TaskStatus.SUCCESS, result=result, reason=shortened(reason)),
    )


def answer_task(draft: Draft, command: AnswerTask) -> None:
    """End the wait for a person with an answer.

    Raises:
        Refused: There is no such unfinished execution or task; code ``not_waiting``: the task does
            not wait for a person.
    """
    execution = draft.execution(command.execution_id)
    if execution is None:
        raise not_found("execution", command.execution_id)
    task = draft.task(execution.id, command.task)
    if task is None:
        raise not_found("task", command.task)
    approval = spec_of(draft, execution, task.name).wait
    if task.status is not TaskStatus.WAITING or not isinstance(approval, Approval) or task.loop:
        raise not_waiting(task)
    answered = replace(
        task,
        reason=f"approved: {command.reason}" if command.reason else "",
        result=command.result,
        answered_by=command.author,
    )
    if command.is_approved:
        close(draft, execution.id, replace(answered, status=TaskStatus.SUCCESS))
        return
    why = f"rejected: {command.reason}" if command.reason else "rejected"
    status = TaskStatus.SKIPPED if approval.is_skipped_if_rejected else TaskStatus.FAILED
    close(draft, execution.id, replace(answered, status=status, reason=why))


def not_waiting(task: Task) -> Refused:
    """Return the refusal of an answer to a task that does not wait for a person."""
    state = f"it is {task.status.value}"
    detail = f"the task {in_quotes(task.name)} does not wait for an approval: {state}"
    return Refused(Kind.CONFLICT, "not_waiting", detail)
