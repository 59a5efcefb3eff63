"""Steps that are loops: a task whose items or rounds are steps of their own.

The task itself waits until its last step has ended, so that the rules of the tasks that need it
see one task, and none of them is decided before the number of items is known. The list of items is
recorded once, as the checkpoint of the task, and the number with the task; steps are made one by
one as others end, so an entry of the journal never holds more than the steps that run at a time.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import cast

import msgspec
from msgspec.structs import replace

from rota.core.decide.steps.flow_values import names_of
from rota.core.decide.steps.step import (
    begin_running,
    close,
    fail,
    set_wake_timer,
    spec_of,
    unfinished,
    wait,
)
from rota.core.model.execution import Execution, LoopState, Task, TaskStatus
from rota.core.model.expressions import ExpressionError, Value, evaluate, text_of
from rota.core.model.flow import ITEMS_MAX, MATRIX_BYTES_MAX, Foreach, Repeat
from rota.core.model.flow_checks import problem_of_items, too_many_items
from rota.core.model.ids import ExecutionId, item_name, round_name, task_of_step
from rota.core.model.job import TaskSpec
from rota.core.quoting import shortened
from rota.core.state.draft import Draft
from rota.core.timing.instants import later


def start_foreach(draft: Draft, execution_id: ExecutionId, task: Task) -> None:
    """Record the items of a loop, and begin the first steps."""
    execution = begin_running(draft, unfinished(draft, execution_id))
    spec = spec_of(draft, execution, task.name)
    loop = spec.loop
    assert isinstance(loop, Foreach), spec
    try:
        items = loop.items or _evaluated(draft, execution, task, spec, loop)
        count = len(_listed(items))
    except ExpressionError as error:
        fail(draft, execution_id, task, f"foreach: {error}")
        return
    if not count:
        status = TaskStatus.SKIPPED if loop.is_skipped_if_empty else TaskStatus.SUCCESS
        ended = replace(task, status=status, reason="it has no items", result=b"[]")
        close(draft, execution_id, ended)
        return
    draft.put_checkpoint(execution_id, task.name, items.encode())
    wait(draft, execution, replace(task, loop=LoopState(most=count)), detail=f"{count:,} items")
    _begin_steps(draft, execution_id, task.name, min(count, loop.max_parallel))


def start_repeat(draft: Draft, execution_id: ExecutionId, task: Task) -> None:
    """Begin the first round of a loop."""
    execution = begin_running(draft, unfinished(draft, execution_id))
    loop = spec_of(draft, execution, task.name).loop
    assert isinstance(loop, Repeat), task
    wait(draft, execution, replace(task, loop=LoopState(most=loop.limit)))
    _begin_steps(draft, execution_id, task.name, 1)


def note_end(draft: Draft, execution_id: ExecutionId, step: Task) -> None:
    """Continue the loop of a step that has ended: with further steps, or with its end."""
    task = draft.task(execution_id, task_of_step(step.name))
    assert task is not None, step
    if task.status is not TaskStatus.WAITING:
        return  # The execution was cancelled.
    assert task.loop is not None, task
    counted = replace(
        task.loop,
        open=task.loop.open - 1,
        failed=task.loop.failed + (step.status is TaskStatus.FAILED),
        skipped=task.loop.skipped + (step.status is TaskStatus.SKIPPED),
    )
    task = replace(task, loop=counted)
    draft.put_task(execution_id, task)
    spec = spec_of(draft, unfinished(draft, execution_id), task.name)
    match spec.loop:
        case Foreach():
            _continue(draft, execution_id, task, spec.loop)
        case Repeat():
            _continue_rounds(draft, execution_id, task, step, spec)
        case None:
            raise AssertionError(f"{task} has steps without a loop")


def _continue(draft: Draft, execution_id: ExecutionId, task: Task, loop: Foreach) -> None:
    state = task.loop
    assert state is not None, task
    has_failed = state.failed > loop.tolerated
    if state.begun < state.most and not has_failed:
        _begin_steps(draft, execution_id, task.name, 1)
    elif state.open:
        return
    elif has_failed:
        fail(draft, execution_id, task, f"{state.failed:,} of its {state.begun:,} steps failed")
    elif state.skipped == state.begun:
        reason = "all of its steps were skipped"
        close(draft, execution_id, replace(task, status=TaskStatus.SKIPPED, reason=reason))
    else:
        close(draft, execution_id, replace(task, status=TaskStatus.SUCCESS))


def _continue_rounds(
    draft: Draft, execution_id: ExecutionId, task: Task, step: Task, spec: TaskSpec
) -> None:
    state, loop = task.loop, spec.loop
    assert state is not None, task
    assert isinstance(loop, Repeat), spec
    if step.status is not TaskStatus.SUCCESS:
        status = TaskStatus.SKIPPED if step.status is TaskStatus.SKIPPED else TaskStatus.FAILED
        reason = f"its round {step.index} {status.value}"
        close(draft, execution_id, replace(task, status=status, reason=reason))
        return
    ended = replace(step, item=(step.own_result or b"null").decode())
    execution = unfinished(draft, execution_id)
    try:
        is_done = bool(evaluate(loop.until, names_of(draft, execution, ended, spec, loop.until)))
    except ExpressionError as error:
        fail(draft, execution_id, task, f"until: {error}")
        return
    if is_done:
        close(draft, execution_id, replace(task, status=TaskStatus.SUCCESS))
    elif state.begun == state.most:
        reason = f"its condition was not true after {state.begun:,} rounds"
        fail(draft, execution_id, task, reason)
    else:
        _begin_steps(draft, execution_id, task.name, 1)


def _begin_steps(draft: Draft, execution_id: ExecutionId, name: str, count: int) -> None:
    """Make the next *count* steps of a loop, and let them start."""
    task = draft.task(execution_id, name)
    assert task is not None, name
    assert task.loop is not None, task
    execution = unfinished(draft, execution_id)
    loop = spec_of(draft, execution, name).loop
    first = task.loop.begun
    for number in range(first, first + count):
        if isinstance(loop, Repeat):
            step = _round(draft, execution, task, number + 1)
        else:
            step = _item(draft, execution_id, task, number)
        draft.put_task(execution_id, step)
        if isinstance(loop, Repeat) and number and loop.delay:
            later_step = replace(
                step, status=TaskStatus.BACKING_OFF, retry_at=later(draft.now, loop.delay)
            )
            draft.put_task(execution_id, later_step)
            set_wake_timer(draft, execution_id, later_step)
        else:
            draft.begun.append((execution_id, step))
    state = replace(task.loop, begun=first + count, open=task.loop.open + count)
    draft.put_task(execution_id, replace(task, loop=state))
    draft.put_execution(replace(execution, open_count=execution.open_count + count))


def _item(draft: Draft, execution_id: ExecutionId, task: Task, index: int) -> Task:
    item = bytes(_items(draft.checkpoint(execution_id, task.name))[index]).decode()
    name = item_name(task.name, index)
    return _step(task, name, index, item)


def _round(draft: Draft, execution: Execution, task: Task, number: int) -> Task:
    before = draft.task(execution.id, round_name(task.name, number - 1)) if number > 1 else None
    last = (before.own_result if before else b"") or b"null"
    return _step(task, round_name(task.name, number), number, last.decode())


def _step(task: Task, name: str, index: int, item: str) -> Task:
    return Task(
        name=name, status=TaskStatus.BLOCKED, position=task.position, index=index, item=item
    )


def _evaluated(
    draft: Draft, execution: Execution, task: Task, spec: TaskSpec, loop: Foreach
) -> str:
    """Return the items of a loop as a JSON list.

    Raises:
        ExpressionError: An expression has no value, its value is not a list, or there are too many
            items.
    """
    if loop.matrix:
        axes = msgspec.json.decode(loop.matrix, type=dict[str, str | list[Value]])
        values: list[list[Value]] = [
            _list_of(draft, execution, task, spec, each) if isinstance(each, str) else each
            for each in axes.values()
        ]
        if (count := prod(map(len, values))) > ITEMS_MAX:
            raise ExpressionError(too_many_items(count))
        if count and sum(_size_of(each) * count // len(each) for each in values) > MATRIX_BYTES_MAX:
            raise ExpressionError(f"its items have more than {MATRIX_BYTES_MAX:,} bytes as JSON")
        items = [dict(zip(axes, each, strict=True)) for each in product(*values)]
        return msgspec.json.encode(items).decode()
    found = _list_of(draft, execution, task, spec, loop.expression)
    return msgspec.json.encode(found).decode()


def _list_of(
    draft: Draft, execution: Execution, task: Task, spec: TaskSpec, expression: str
) -> list[Value]:
    value = evaluate(expression, names_of(draft, execution, task, spec, expression))
    if not isinstance(value, list | tuple):
        raise ExpressionError(f"{expression} is not a list: {shortened(text_of(value))}")
    return list(cast("Sequence[Value]", value))


def _size_of(value: Value) -> int:
    return len(msgspec.json.encode(value))


def _listed(items: str) -> tuple[msgspec.Raw, ...]:
    """Return the items of a JSON list.

    Raises:
        ExpressionError: There are too many, or one is too long.
    """
    found = _items(items.encode())
    if problem := problem_of_items(found):
        raise ExpressionError(problem)
    return found


@lru_cache(maxsize=16)
def _items(items: bytes) -> tuple[msgspec.Raw, ...]:
    """Return the items of a JSON list, of which the end of each step uses one."""
    return tuple(msgspec.json.decode(items, type=list[msgspec.Raw]))
