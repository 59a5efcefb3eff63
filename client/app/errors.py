"""Errors of apps, their tasks and their handles."""

from rota.core.errors import RotaError
from rota.wire.documents import ExecutionView


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


class TaskFailed(RotaError):
    """The execution of a task failed or was cancelled; the message has the reason.

    Attributes:
        execution: The execution, with its attempts.
    """

    code = "task_failed"

    def __init__(self, name: str, execution: ExecutionView) -> None:
        super().__init__(
            f"{name}: {execution.status}: {execution.reason or 'no reason is recorded'} "
            f"(execution {execution.execution_id})"
        )
        self.execution = execution
