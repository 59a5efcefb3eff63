"""Attempts on virtual time: what they are given, and how they end."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from rota.client.given_times import GivenDuration, duration_of
from rota.core.model.attempt import RESULT_BYTES_MAX, Ending, Order, Outcome
from rota.core.timing.instants import Duration, Instant, format_duration, later, to_datetime

Json = Any  # Any: JSON has values of many types.

OUTCOMES: Mapping[str, Outcome] = {
    "success": Outcome.SUCCEEDED,
    "failed": Outcome.FAILED,
    "timed_out": Outcome.TIMED_OUT,
    "lost": Outcome.LOST,
}
"""The outcomes with which an attempt can end by itself, in the words of the API."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptStart:
    """An attempt that begins.

    Attributes:
        job: The full name of the job.
        execution_id: The execution.
        task: The task, or the step of a loop, such as ``load[3]``.
        number: The number of the attempt, from 1.
        at: When it begins.
        fire_time: When its execution was due.
        argv: Its program and arguments, with templates rendered; empty for none.
        shell: Its line for the shell; empty for none.
        env: Its variables, ``ROTA_PARAMETERS`` among them.
        parameters: Its parameters; None for none.
        results: The results of the tasks that its task needs, by name.
    """

    job: str
    execution_id: str
    task: str
    number: int
    at: datetime
    fire_time: datetime
    argv: tuple[str, ...]
    shell: str
    env: Mapping[str, str]
    parameters: Json
    results: Mapping[str, Json]


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptEnd:
    """How an attempt ends.

    Attributes:
        outcome: ``success``, ``failed``, ``timed_out`` or ``lost``.
        duration: The time that it takes; None for that of the scheduler.
        result: Its result, as JSON has it; None for none.
        exit_code: Its exit code; None for 0 after a success and 1 after a failure.
        reason: The reason, for people.

    Raises:
        ValueError: The outcome, the duration or the result is invalid.
    """

    outcome: str = "success"
    duration: GivenDuration | None = None
    result: Json = None
    exit_code: int | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        if self.outcome not in OUTCOMES:
            known = ", ".join(OUTCOMES)
            raise ValueError(f"{self.outcome!r} is not the outcome of an attempt; give {known}")
        if self.duration is not None:
            duration_of(self.duration)
        if self.result is not None and self.outcome != "success":
            raise ValueError(f"an attempt that ends {self.outcome!r} has no result; leave it out")
        size = len(_encoded(self.result))
        if size > RESULT_BYTES_MAX:
            raise ValueError(f"the result has {size} bytes; at most {RESULT_BYTES_MAX} are kept")

    def ending(self, order: Order, at: Instant, usual: Duration) -> Ending:
        """Return the end of the attempt of *order*, which begins at *at*.

        An attempt that would take longer than the timeout of its task is timed out.
        """
        duration = usual if self.duration is None else duration_of(self.duration)
        outcome, timeout = OUTCOMES[self.outcome], order.work.timeout
        is_at_timeout = outcome is Outcome.TIMED_OUT and self.duration is None
        if timeout and (duration > timeout or is_at_timeout):
            return timed_out(order, at)
        return Ending(
            outcome=outcome,
            started_at=at,
            finished_at=later(at, duration),
            exit_code=self._exit_code(outcome),
            reason=self.reason,
            result=_encoded(self.result),
        )

    def _exit_code(self, outcome: Outcome) -> int:
        if outcome not in (Outcome.SUCCEEDED, Outcome.FAILED):
            return -1
        usual = 0 if outcome is Outcome.SUCCEEDED else 1
        return usual if self.exit_code is None else self.exit_code


def timed_out(order: Order, at: Instant) -> Ending:
    """Return the end of an attempt that began at *at*, at the timeout of its task."""
    timeout = order.work.timeout
    return Ending(
        outcome=Outcome.TIMED_OUT,
        started_at=at,
        finished_at=later(at, timeout),
        reason=f"took longer than its timeout of {format_duration(timeout)}",
    )


Behaviour = Callable[[AttemptStart], AttemptEnd | None]
"""Returns how an attempt ends; None for a success after the duration of the scheduler."""


def start_of(order: Order, at: Instant) -> AttemptStart:
    """Return the attempt of *order*, which begins at *at*."""
    env = dict(order.work.env)
    parameters = env.get("ROTA_PARAMETERS", "")
    return AttemptStart(
        job=order.job,
        execution_id=order.key.execution_id,
        task=order.key.task,
        number=order.key.number,
        at=to_datetime(at),
        fire_time=to_datetime(order.fire_at),
        argv=order.work.argv,
        shell=order.work.shell,
        env=env,
        parameters=msgspec.json.decode(parameters) if parameters else None,
        results=msgspec.json.decode(order.results) if order.results else {},
    )


def _encoded(result: Json) -> bytes:
    if result is None:
        return b""
    try:
        return msgspec.json.encode(result)
    except TypeError as error:
        raise ValueError(f"the result cannot be written as JSON: {error}") from error
