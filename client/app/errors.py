"""Errors of apps, their tasks and their handles."""

import re

from rota.core.errors import RotaError
from rota.core.model.ids import task_of_step
from rota.wire.documents import ExecutionView, TaskView


class InvalidTask(RotaError):
    """A function cannot be a task, or a setting of a task is invalid."""

    code = "invalid_task"


class InvalidFlow(RotaError):
    """A flow is defined in a way that cannot run, or a part of it is used as a value."""

    code = "invalid_flow"


class FlowNotDeployed(RotaError):
    """The nodes do not have the job of a flow."""

    code = "flow_not_deployed"


class ModuleNotImported(RotaError):
    """The module of an app raised an exception when it was imported."""

    code = "module_not_imported"


class NothingScheduled(RotaError):
    """No task of an app has a schedule, and it has no flow."""

    code = "nothing_scheduled"


class InvalidArgument(RotaError):
    """An argument does not fit the function, or JSON cannot express it; nothing was sent."""

    code = "invalid_argument"


class WrongResult(RotaError):
    """A function returned what is not of its annotated type."""

    code = "wrong_result"


class CallCancelled(RotaError):
    """A call was cancelled before it was due: it has no execution, and no result."""

    code = "call_cancelled"


class TaskFailed(RotaError):
    """The execution of a task failed or was cancelled; the message has the reason.

    Attributes:
        execution: The execution, with its attempts.

    Args:
        name: What failed.
        execution: The execution.
        task: The task of it that failed; None for the whole execution.
    """

    code = "task_failed"

    def __init__(self, name: str, execution: ExecutionView, task: TaskView | None = None) -> None:
        status = task.status if task else execution.status
        reason = (task.reason if task else reason_of(execution)) or "no reason is recorded"
        super().__init__(f"{name}: {status}: {reason} (execution {execution.execution_id})")
        self.execution = execution


_FIRST_FAILURE = re.compile(r"(?:task )?(\S+) failed")


def reason_of(execution: ExecutionView) -> str:
    """Return the reason of an execution; that of another task if a tolerated failure is named.

    A node records the first failure, also if it is that of an item which its loop may lose.
    """
    tasks, named = execution.tasks or {}, _FIRST_FAILURE.match(execution.reason)
    loop = tasks.get(task_of_step(named[1])) if named else None
    if named is None or loop is None or loop.status == "failed" or execution.status != "failed":
        return execution.reason
    failed = [
        (name, task)
        for name, task in tasks.items()
        if task.status == "failed" and name == task_of_step(name)
    ]
    if not failed:
        return execution.reason
    # Failures that are allowed are among them; what comes after them has made the flow fail.
    name, task = failed[-1]
    return f"task {name} failed: {task.reason}" if task.reason else f"{name} failed"
