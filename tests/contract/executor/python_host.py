"""How the suites ask for Python functions: an executor of them, and calls of `called`."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contract.executor.executor_host import HostedExecutor, MakeExecutor, now, store_id_of
from rota.core.model.attempt import AttemptKey, Call, Report, Work
from rota.core.model.ids import NodeId
from rota.core.timing.instants import MILLISECOND, Duration
from rota.executor.python.executor import PythonExecutor
from rota.executor.python.pool import Bounds

CALLED = str(Path(__file__).parent / "called")

BOUNDS = Bounds(ready_max=2)


def ignore(key: AttemptKey, report: Report) -> None:
    """Take a report that nobody asked for."""


def make_python_executor(
    directory: Path,
    *,
    reported: Callable[[AttemptKey, Report], None] = ignore,
    bounds: Bounds = BOUNDS,
    **options: Any,
) -> MakeExecutor:
    """Return a maker whose executor marks its workers with *directory*.

    Any: options of `PythonExecutor`, of several types.
    """
    return lambda ended: PythonExecutor(
        directory,
        node_id=NodeId("node-a"),
        store_id=store_id_of(directory),
        ended=ended,
        reported=reported,
        now=now,
        environ={"PATH": os.environ["PATH"], "HOME": "/home/someone", "NODE_SECRET": "x"},
        bounds=bounds,
        **options,
    )


def make_hosted_python_executor(directory: Path) -> MakeExecutor:
    """Return a maker whose executor calls functions in a warden, which ends with it."""
    return lambda ended: HostedExecutor("python", directory, ended)


def call(function: str, *args: object, timeout_ms: int = 0, **kwargs: object) -> Work:
    """Return work that calls a function of `called`, with the node's own interpreter."""
    return Work(
        executor="python",
        call=Call(
            function=function,
            arguments=json.dumps({"args": args, "kwargs": kwargs}),
            path=(CALLED,),
        ),
        timeout=Duration(timeout_ms * MILLISECOND),
    )


class PythonKind:
    """Asks for the same things as the other kinds of the suite."""

    many = 200

    def ends(self, *, exit_code: int = 0, output: str = "") -> Work:
        """Return work that writes *output* and ends with *exit_code*."""
        return call("suite:end", exit_code, output)

    def lasts(self, *, timeout_ms: int = 0, output: str = "") -> Work:
        """Return work that writes *output* and would take a minute."""
        return call("suite:last", output, timeout_ms=timeout_ms)

    def is_bad(self) -> Work:
        """Return work that cannot even begin."""
        return call("no_such_module:function")
