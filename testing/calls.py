"""Calls of the Python functions of tasks in this process, as a worker of a node makes them."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import msgspec

from rota.core.model.attempt import Ending, Order, Outcome, Raised, Report
from rota.core.timing.instants import Duration, Instant, later
from rota.executor.launch.spawn import variables_of
from rota.executor.python.worker import Context, call_here
from rota.testing.attempts import Json, timed_out


def call(order: Order, at: Instant, duration: Duration, report: Callable[[Report], None]) -> Ending:
    """Call the function of *order*, and return the end of its attempt.

    The call takes no virtual time; its attempt ends after *duration*, or at its timeout.

    Args:
        order: An order whose work is a Python function.
        at: When the attempt begins.
        duration: How long it takes.
        report: Receives the progress and the checkpoints of the function.
    """
    assert order.work.call is not None, order.key
    variables = {**dict(order.work.env), **variables_of(order)}
    message = {
        "variables": variables,
        "arguments": order.work.call.arguments,
        "checkpoint": order.checkpoint.decode(),
        "results": order.results.decode(),
    }
    with _environment(variables):
        ended = call_here(order.work.call.function, message, _Reports(report), run=_result_of)
    if 0 < order.work.timeout < duration:
        return timed_out(order, at)
    exit_code, raised = ended.get("exit_code", 0), ended.get("raised")
    return Ending(
        outcome=Outcome.FAILED if exit_code else Outcome.SUCCEEDED,
        started_at=at,
        finished_at=later(at, duration),
        exit_code=exit_code,
        reason=ended.get("reason", ""),
        result=ended.get("result", "").encode(),
        raised=msgspec.convert(raised, Raised) if raised else None,
    )


class _Reports:
    """Passes on what a function reports by its context."""

    def __init__(self, report: Callable[[Report], None]) -> None:
        self._report = report

    def send(self, message: dict[str, Json], *, of: Context | None = None) -> None:
        """Pass on a message."""
        del of
        checkpoint = message.get("checkpoint")
        encoded = None if checkpoint is None else checkpoint.encode()
        self._report(Report(percent=message.get("percent"), checkpoint=encoded))


def _result_of(coroutine: Coroutine[Any, Any, Json]) -> Json:
    """Return the result of a coroutine; a thread runs it, since the test may have a loop itself."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


@contextmanager
def _environment(variables: Mapping[str, str]) -> Generator[None]:
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            if name in before:
                os.environ[name] = before[name]
            else:
                os.environ.pop(name, None)
