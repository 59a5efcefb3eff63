"""Python functions in the suites: an executor for them, and calls of `called`."""

import json
import os
import select
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from contract.executor.executor_host import (
    Host,
    HostedExecutor,
    MakeExecutor,
    Scenario,
    now,
    run_scenario,
    store_id_of,
)
from rota.core.model.attempt import AttemptKey, Ending, Outcome, Report
from rota.core.model.ids import NodeId
from rota.core.model.work import Call, Work
from rota.core.timing.instants import MILLISECOND, Duration
from rota.executor.python.executor import PythonExecutor
from rota.executor.python.pool import Bounds

T = TypeVar("T")
Json = Any  # Any: results of several types.

CALLED = str(Path(__file__).parent / "called")

BOUNDS = Bounds(ready_max=2)
ONE = Bounds(ready_max=1, workers_max=1)


def ignore(key: AttemptKey, report: Report) -> None:
    """Drop a report."""


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
    """The same work as of the other kinds of the suite."""

    many = 200

    def ends(self, *, exit_code: int = 0, output: str = "") -> Work:
        """Return work that writes *output* and ends with *exit_code*."""
        return call("suite:end", exit_code, output)

    def lasts(self, *, timeout_ms: int = 0, output: str = "") -> Work:
        """Return work that writes *output* and would take a minute."""
        return call("suite:last", output, timeout_ms=timeout_ms)

    def is_bad(self) -> Work:
        """Return work that cannot start."""
        return call("no_such_module:function")


class Bench:
    """A Python executor in a folder of its own, on one kind of loop.

    Attributes:
        reports: Reports of attempts, in order.
    """

    def __init__(self, loop: str, directory: Path) -> None:
        self.directory = directory
        self.reports: list[Report] = []
        self._loop = loop

    def run(self, scenario: Scenario[T], *, bounds: Bounds = BOUNDS) -> T:
        """Return what *scenario* returns, after closing the executor."""
        make = make_python_executor(
            self.directory, reported=lambda _, report: self.reports.append(report), bounds=bounds
        )
        return run_scenario(self._loop, make, scenario)

    def ending_of(self, work: Work) -> Ending:
        """Return how an attempt at *work* ends."""
        return self.endings_of(work)[0]

    def endings_of(self, *works: Work, bounds: Bounds = BOUNDS) -> list[Ending]:
        """Return how attempts at *works* end, one after the other in one executor."""

        async def scenario(host: Host) -> list[Ending]:
            return [await host.run(work) for work in works]

        return self.run(scenario, bounds=bounds)

    def results_of(self, *works: Work, bounds: Bounds = BOUNDS) -> list[Json]:
        """Return the results of attempts at *works*, one after the other in one executor."""
        endings = self.endings_of(*works, bounds=bounds)
        for ending in endings:
            assert ending.outcome is Outcome.SUCCEEDED, ending
        return [json.loads(ending.result or b"null") for ending in endings]

    def stopped(self, work: Work, *, grace: Duration | None = None) -> Ending:
        """Return how an attempt at *work*, which says that it is up, ends when it is stopped."""

        async def scenario(host: Host) -> Ending:
            key = host.launch(work)
            await host.output(key, containing=b"up")
            host.executor.stop(key, grace=grace)
            return await host.ending(key)

        return self.run(scenario)

    def is_swept(self) -> bool:
        """Return True if no private folder is left, after waiting for their removal."""
        folders = self.directory / "python" / "work"
        for _ in range(2_000):
            if not list(folders.iterdir()):
                return True
            select.select([], [], [], 0.005)
        return False
