"""What has happened to jobs on virtual time: executions, tasks, attempts and fire times."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from rota.core.model.attempt import Attempt, Outcome
from rota.core.model.execution import Execution, Task, in_place
from rota.core.model.ledger import LedgerEntry
from rota.core.timing.instants import Instant, to_datetime
from rota.testing.attempts import Json
from rota.wire.statuses import SUCCESS


@dataclass(frozen=True, kw_only=True, slots=True)
class PastAttempt:
    """An attempt, which may still run.

    Attributes:
        number: Its number, from 1.
        started_at: When it began.
        finished_at: When it ended; None while it runs.
        outcome: ``success``, ``failed``, ``timed_out``, ``cancelled`` or ``lost``; None while it
            runs.
        exit_code: Its exit code; None if it has none.
        reason: The reason of its outcome, for people.
        error: The qualified name of the exception that its Python function raised; empty for none.
    """

    number: int
    started_at: datetime
    finished_at: datetime | None
    outcome: str | None
    exit_code: int | None
    reason: str
    error: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PastTask:
    """A task of an execution, or a step of a loop.

    Attributes:
        name: Its name; ``load[3]`` for a step.
        status: ``blocked``, ``ready``, ``running``, ``backing_off``, ``waiting``, ``success``,
            ``failed``, ``skipped`` or ``cancelled``.
        reason: The reason of its status, for people.
        attempts: Its attempts, oldest first.
        result: Its result; None for none, and for a loop, whose steps have the results.
    """

    name: str
    status: str
    reason: str
    attempts: tuple[PastAttempt, ...]
    result: Json


@dataclass(frozen=True, kw_only=True, slots=True)
class PastExecution:
    """An execution, which may not have ended.

    Attributes:
        execution_id: Its id.
        job: The full name of its job.
        status: ``queued``, ``running``, ``success``, ``failed`` or ``cancelled``.
        trigger: ``schedule``, ``manual``, ``dependencies``, ``hook`` or ``task``.
        fire_time: When it was due; for a trigger, when it was requested.
        queued_at: When it was created.
        started_at: When its first attempt began; None before that.
        finished_at: When it ended; None before that.
        reason: The reason of its status, for people.
        parameters: Its parameters; None for those of its job.
        tasks: Its tasks by name, in the order of their definition.
    """

    execution_id: str
    job: str
    status: str
    trigger: str
    fire_time: datetime
    queued_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    reason: str
    parameters: Json
    tasks: Mapping[str, PastTask]


@dataclass(frozen=True, kw_only=True, slots=True)
class PastFire:
    """The outcome of one fire time of a schedule, or of several in a row.

    Attributes:
        fire_time: The first fire time.
        until: The last one.
        count: Their number.
        outcome: ``fired``, ``skipped``, ``missed``, ``coalesced``, ``paused`` or ``excluded``.
        reason: The reason, for people; empty for ``fired``.
        execution_id: The execution that began, or because of which none began; empty for none.
    """

    fire_time: datetime
    until: datetime
    count: int
    outcome: str
    reason: str
    execution_id: str


def past_execution(execution: Execution, tasks: Iterable[Task]) -> PastExecution:
    """Return an execution and its tasks as tests see them."""
    return PastExecution(
        execution_id=execution.id,
        job=execution.job_name,
        status=execution.status.value,
        trigger=execution.origin.value,
        fire_time=to_datetime(execution.fire_at),
        queued_at=to_datetime(execution.queued_at),
        started_at=_moment(execution.started_at),
        finished_at=_moment(execution.finished_at),
        reason=execution.reason,
        parameters=_decoded(execution.parameters),
        tasks={name: _past_task(task) for name, task in in_place(tasks).items()},
    )


def past_fire(entry: LedgerEntry) -> PastFire:
    """Return an entry of the ledger as tests see it."""
    return PastFire(
        fire_time=to_datetime(entry.fire_at),
        until=to_datetime(entry.until),
        count=entry.count,
        outcome=entry.outcome.value,
        reason=entry.reason,
        execution_id=entry.execution_id,
    )


def _past_task(task: Task) -> PastTask:
    return PastTask(
        name=task.name,
        status=task.status.value,
        reason=task.reason,
        attempts=tuple(map(_past_attempt, task.attempts)),
        result=_decoded(task.own_result),
    )


def _past_attempt(attempt: Attempt) -> PastAttempt:
    ending = attempt.ending
    if ending is None:
        return PastAttempt(
            number=attempt.number,
            started_at=to_datetime(attempt.placed_at),
            finished_at=None,
            outcome=None,
            exit_code=None,
            reason="",
            error="",
        )
    return PastAttempt(
        number=attempt.number,
        started_at=to_datetime(ending.started_at),
        finished_at=to_datetime(ending.finished_at),
        outcome=_word(ending.outcome),
        exit_code=None if ending.exit_code < 0 else ending.exit_code,
        reason=ending.reason,
        error=ending.raised.type if ending.raised else "",
    )


def _word(outcome: Outcome) -> str:
    return SUCCESS if outcome is Outcome.SUCCEEDED else outcome.value


def _moment(instant: Instant) -> datetime | None:
    return to_datetime(instant) if instant else None


def _decoded(text: str | bytes) -> Json:
    return msgspec.json.decode(text) if text else None
