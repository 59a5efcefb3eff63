"""Tasks of a Python program: functions that are called on nodes, with typed results.

    >>> import rota
    >>> app = rota.App("billing")

`rota.App` is the entry; the other names are for annotations and for ``except``.
"""

from rota.client.app.app import App
from rota.client.app.errors import (
    CallCancelled,
    FlowNotDeployed,
    InvalidArgument,
    InvalidFlow,
    InvalidTask,
    TaskFailed,
    WrongResult,
)
from rota.client.app.flows import Flow, Results
from rota.client.app.graphs import Call
from rota.client.app.handles import Group, Handle
from rota.client.app.tasks import Task

__all__ = [
    "App",
    "Call",
    "CallCancelled",
    "Flow",
    "FlowNotDeployed",
    "Group",
    "Handle",
    "InvalidArgument",
    "InvalidFlow",
    "InvalidTask",
    "Results",
    "Task",
    "TaskFailed",
    "WrongResult",
]
