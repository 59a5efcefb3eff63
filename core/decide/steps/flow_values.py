"""The values that expressions and templates of a step may name, and its work with these values.

params      the parameters of the execution: the trigger's, else the job's, else the task's
results     the result of each needed task by name, null if it has none
states      the status of each needed task by name
item        the item of a ``foreach``
index       the number of the item, from 0, or of the round, from 1
last        in a ``repeat``, the result of the round before; in ``until``, of the round itself
execution   id, job, trigger, fireTime and queuedAt of the execution; if it has an interval,
            intervalStart and intervalEnd
"""

from functools import lru_cache

import msgspec
from msgspec.structs import replace

from rota.core.decide.steps.step import spec_of
from rota.core.model.execution import Execution, Task
from rota.core.model.expressions import (
    Names,
    Value,
    has_template,
    rendered,
    rendered_json,
    rendered_line,
)
from rota.core.model.flow import Foreach, Repeat, texts_of
from rota.core.model.ids import ExecutionId, item_name, round_name
from rota.core.model.job import TaskSpec
from rota.core.model.work import Work
from rota.core.state.draft import Draft
from rota.core.timing.instants import format_instant


def names_of(draft: Draft, execution: Execution, task: Task, spec: TaskSpec, text: str) -> Names:
    """Return the values that *text*, an expression or template of a step, may name.

    Results are decoded only if the text names them: they may have 8 MiB.
    """
    names: dict[str, Value] = {
        "params": _decoded((execution.parameters or spec.work.parameters or "{}").encode()),
        "states": {name: _task(draft, execution.id, name).status.value for name in spec.needs},
        "execution": _execution_names(execution),
    }
    if "results" in text:
        results = {name: result_of(draft, execution, name) for name in spec.needs}
        names["results"] = {name: _decoded(value or b"null") for name, value in results.items()}
    if task.index >= 0:
        names["index"] = task.index
        names["last" if isinstance(spec.loop, Repeat) else "item"] = _decoded(task.item.encode())
    return names


def _execution_names(execution: Execution) -> dict[str, Value]:
    names: dict[str, Value] = {
        "id": execution.id,
        "job": execution.job_name,
        "trigger": execution.origin.value,
        "fireTime": format_instant(execution.fire_at),
        "queuedAt": format_instant(execution.queued_at),
    }
    if execution.interval_start:
        names["intervalStart"] = format_instant(execution.interval_start)
        names["intervalEnd"] = format_instant(execution.fire_at)
    return names


def results_of(draft: Draft, execution: Execution, needs: tuple[str, ...]) -> bytes:
    """Return the results of tasks as a JSON object; null for a task without one.

    The results are JSON already, so none is parsed.
    """
    results = ((name, result_of(draft, execution, name) or b"null") for name in needs)
    return b"{%s}" % b",".join(b'"%s":%s' % (name.encode(), value) for name, value in results)


def result_of(draft: Draft, execution: Execution, name: str) -> bytes:
    """Return the result of a task as JSON; empty for none.

    The result of a ``foreach`` is the list of those of its steps, in the order of the items, with
    null for none; that of a ``repeat`` is that of its last round.
    """
    task = _task(draft, execution.id, name)
    if task.loop is None or not task.loop.begun:
        return task.own_result
    if isinstance(spec_of(draft, execution, name).loop, Foreach):
        steps = (_task(draft, execution.id, item_name(name, n)) for n in range(task.loop.begun))
        return b"[%s]" % b",".join(step.own_result or b"null" for step in steps)
    return _task(draft, execution.id, round_name(name, task.loop.begun)).own_result


def work_of(draft: Draft, execution: Execution, task: Task, spec: TaskSpec) -> Work:
    """Return the work of a step, with its templates rendered, and variables of its execution.

    Parameters of the execution (its trigger's, or the job's) take precedence over the task's.

    Raises:
        ExpressionError: A template has no value.
    """
    work = _rendered(draft, execution, task, spec) if spec.is_templated else spec.work
    parameters = execution.parameters or work.parameters
    variables = {"ROTA_PARAMETERS": parameters, "TRACEPARENT": execution.traceparent}
    if task.index >= 0:
        variables["ROTA_INDEX"] = str(task.index)
        variables["ROTA_ITEM"] = task.item
    added = tuple((name, value) for name, value in variables.items() if value)
    if not added:
        return work
    return replace(work, parameters=parameters, env=(*work.env, *added))


def _rendered(draft: Draft, execution: Execution, task: Task, spec: TaskSpec) -> Work:
    work = spec.work
    call = work.call
    texts = "\n".join(each.text for each in texts_of(work))
    names = names_of(draft, execution, task, spec, texts)
    if call is not None and call.arguments:
        call = replace(call, arguments=rendered_json(call.arguments, names))
    return replace(
        work,
        argv=tuple(_of(each, names) for each in work.argv),
        shell=rendered_line(work.shell, names) if has_template(work.shell) else work.shell,
        env=tuple((name, _of(value, names)) for name, value in work.env),
        stdin=_of(work.stdin, names),
        parameters=rendered_json(work.parameters, names) if work.parameters else "",
        call=call,
    )


def _of(text: str, names: Names) -> str:
    return rendered(text, names) if has_template(text) else text


def _task(draft: Draft, execution_id: ExecutionId, name: str) -> Task:
    task = draft.task(execution_id, name)
    assert task is not None, name
    return task


@lru_cache(maxsize=32)
def _decoded(value: bytes) -> Value:
    """Return the value of JSON, which nothing changes; the steps of a loop use the same results."""
    return msgspec.json.decode(value)
