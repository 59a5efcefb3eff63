"""Executions and their tasks, with the tables of their state transitions.

`EXECUTION_MOVES` and `TASK_MOVES` list the allowed transitions and their reasons. Any other
transition fails an assertion in the draft of a decision. `make docs` generates
docs/reference/states.md from the tables. A state without successors is final (PROTOCOL I14).
"""

from collections.abc import Iterable, Mapping
from enum import Enum

import msgspec

from rota.core.model.attempt import Attempt
from rota.core.model.author import Author
from rota.core.model.checked_fields import (
    CheckedDuration,
    CheckedExecutionId,
    CheckedFullName,
    CheckedInstant,
    CheckedName,
    Count,
)
from rota.core.model.ids import ExecutionId, JobId, NodeId
from rota.core.model.trigger_rules import UpstreamState
from rota.core.timing.instants import Duration, Instant, later


class ExecutionStatus(Enum):
    """The state of an execution, in the API's words."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    CANCELLED = "cancelled"


class TaskStatus(Enum):
    """The state of one task of an execution."""

    BLOCKED = "blocked"
    READY = "ready"
    RUNNING = "running"
    BACKING_OFF = "backing_off"
    WAITING = "waiting"
    SUCCESS = "success"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


_E, _T = ExecutionStatus, TaskStatus

EXECUTION_MOVES: Mapping[ExecutionStatus, Mapping[ExecutionStatus, str]] = {
    _E.QUEUED: {
        _E.RUNNING: "its first attempt starts",
        _E.CANCELLED: "a user cancels the execution",
        _E.FAILED: "its start deadline passes before its first attempt starts",
    },
    _E.RUNNING: {
        _E.SUCCESS: "all tasks have ended and none has failed",
        _E.FAILED: "all tasks have ended, and one has failed or its timeout has stopped them",
        _E.CANCELLED: "a user has cancelled the execution, and its last attempt has ended",
    },
    _E.SUCCESS: {},
    _E.FAILED: {},
    _E.CANCELLED: {},
}
"""For each state, the states that may follow it, with the reason of each transition."""

TASK_MOVES: Mapping[TaskStatus, Mapping[TaskStatus, str]] = {
    _T.BLOCKED: {
        _T.READY: "its trigger rule is met and no slot is free",
        _T.RUNNING: "its trigger rule is met and a slot is free",
        _T.WAITING: "its trigger rule is met; it waits for steps, a time, an event, a person or "
        "another job",
        _T.BACKING_OFF: "it is a further round of a loop, after a delay",
        _T.SUCCESS: "it is a loop over no items, has chosen the tasks that follow, or its event "
        "was posted before",
        _T.FAILED: "its condition, its items or its templates have no value",
        _T.SKIPPED: "its trigger rule can no longer be met, its condition is false, or a switch "
        "chose others",
        _T.CANCELLED: "its execution is cancelled",
    },
    _T.READY: {
        _T.RUNNING: "a slot is free",
        _T.FAILED: "its templates have no value",
        _T.CANCELLED: "its execution is cancelled",
    },
    _T.RUNNING: {
        _T.SUCCESS: "its attempt succeeded",
        _T.FAILED: "its attempt failed and no retry is left, or 100 of its attempts were lost",
        _T.CANCELLED: "its execution is cancelled and its attempt ended without success",
        _T.BACKING_OFF: "its attempt failed, or several in a row were lost",
        _T.READY: "its attempt was lost and no slot is free",
        _T.RUNNING: "its attempt was lost and the next one starts at once",
        _T.SKIPPED: "its attempt asked for it",
    },
    _T.BACKING_OFF: {
        _T.WAITING: "the delay before a round of a loop is over; it waits for a time, an event, "
        "a person or another job",
        _T.READY: "the delay is over and no slot is free",
        _T.RUNNING: "the delay is over and a slot is free",
        _T.SUCCESS: "the delay before a round of a loop is over, and its event was posted before",
        _T.FAILED: "its templates have no value",
        _T.CANCELLED: "its execution is cancelled",
    },
    _T.WAITING: {
        _T.SUCCESS: "its items have ended, the time or the event has come, a person approved, or "
        "the other job succeeded",
        _T.FAILED: "too many of its items failed, a person rejected or did not answer in time, the "
        "event did not come in time, or the other job failed or cannot run",
        _T.SKIPPED: "all of its items were skipped, a person rejected, or the event did not come",
        _T.CANCELLED: "its execution is cancelled",
    },
    _T.SUCCESS: {},
    _T.FAILED: {},
    _T.SKIPPED: {},
    _T.CANCELLED: {},
}
"""For each state, the states that may follow it, with the reason of each transition.

A task that needs no other starts with its execution: its trigger rule is met from the start.
"""

FINAL_TASK_STATES = frozenset(status for status, moves in TASK_MOVES.items() if not moves)
FINAL_EXECUTION_STATES = frozenset(status for status, moves in EXECUTION_MOVES.items() if not moves)

STANDINGS: Mapping[TaskStatus, UpstreamState] = {
    _T.BLOCKED: UpstreamState.OPEN,
    _T.READY: UpstreamState.OPEN,
    _T.RUNNING: UpstreamState.OPEN,
    _T.BACKING_OFF: UpstreamState.OPEN,
    _T.WAITING: UpstreamState.OPEN,
    _T.SUCCESS: UpstreamState.SUCCESS,
    _T.FAILED: UpstreamState.FAILED,
    _T.SKIPPED: UpstreamState.SKIPPED,
    _T.CANCELLED: UpstreamState.CANCELLED,
}

UPSTREAM_FAILED = "upstream_failed"
"""The reason of a task that is skipped because a needed task failed."""


UPSTREAM_SKIPPED = "upstream_skipped"
"""The reason of a task that is skipped because a needed task was skipped."""


class Origin(Enum):
    """The cause of an execution; the field ``trigger`` of the API."""

    SCHEDULE = "schedule"
    MANUAL = "manual"
    DEPENDENCIES = "dependencies"
    HOOK = "hook"
    TASK = "task"
    BACKFILL = "backfill"
    EVENT = "event"


class Hold(Enum):
    """The condition, other than a free slot, that a queued execution waits for."""

    NONE = ""
    OVERLAP = "overlap"
    DEPENDENCIES = "dependencies"


class ExecutionEnd(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The state and the times of an execution: the first fields of its record.

    A read of many executions decodes no other fields, because the parameters may have 120 kB.

    Attributes:
        fire_at: The time for which it works: the fire time of its schedule, the time that a trigger
            gave, else the instant of the request; a rerun has that of the execution that it runs
            again.
        queued_at: When it was created; for a trigger or a rerun, the instant of the request.
        open_count: The number of tasks that are not in a final state.
        started_at: When the first attempt began to run; 0 before that.
        finished_at: When the execution ended; 0 before that.
    """

    id: ExecutionId
    job_id: JobId
    job_name: str
    job_version: Count
    status: ExecutionStatus
    origin: Origin
    fire_at: CheckedInstant
    queued_at: CheckedInstant
    open_count: Count
    started_at: CheckedInstant = Instant(0)
    finished_at: CheckedInstant = Instant(0)

    @property
    def due_at(self) -> Instant:
        """When it was to start: its fire time, or the instant of the request for it."""
        return self.fire_at if self.origin is Origin.SCHEDULE else self.queued_at


class Caller(msgspec.Struct, frozen=True, array_like=True):
    """The step of another execution that waits for one.

    Attributes:
        job: The full name of its job.
        execution_id: Its execution.
        task: Its name.
    """

    job: CheckedFullName
    execution_id: CheckedExecutionId
    task: CheckedName


class Execution(ExecutionEnd, frozen=True, kw_only=True, array_like=True):
    """One execution of a whole job; its tasks have separate records.

    Attributes:
        failed_count: The number of tasks that failed.
        cancelled_at: When its cancellation was requested or its deadline passed; 0 before that.
        reason: The reason for its end, if that is not obvious.
        traceparent: The trace (W3C) of the request that created it; empty if there is none.
        result_bytes: The total size of the results of its tasks, in bytes.
        stand_in: The stand-in that ran it; empty if its shard's primary ran it.
        rerun_of: The finished execution that it runs again; empty if it is not a rerun.
        expires_at: The deadline for its start or, once it has started, for its end; 0 for none.
        has_expired: Whether it fails, as it was stopped at *cancelled_at*: its deadline had passed,
            one of its tasks had failed, or its chain has more than `LINKS_MAX` links.
        late_at: The instant from which the execution is late if it has not ended; 0 if it cannot
            become late, or if its hooks for lateness have run.
        triggered_by: The caller whose request created it; None if there was no such request.
        links: The number of executions before it in its chain, each of which started the next.
        has_begun_teardown: Whether all tasks that are no teardowns have ended, and the teardowns
            have begun.
        has_lost_teardown: Whether it was stopped together with its teardowns.
        caller: The step that waits for its end; None for none.
        backfill: The id of its backfill; empty for none.
        interval_start: The begin of its interval, which ends at *fire_at*; 0 if it has none.
        deferred_by: The time by which its fire was deferred, by jitter or a calendar.
        concurrency_key: The value of its job's concurrency key (`rota.core.decide.overlap`); empty
            for none.
    """

    failed_count: Count = 0
    cancelled_at: CheckedInstant = Instant(0)
    hold: Hold = Hold.NONE
    reason: str = ""
    parameters: str = ""
    traceparent: str = ""
    result_bytes: Count = 0
    stand_in: NodeId = NodeId("")
    rerun_of: ExecutionId = ExecutionId("")
    expires_at: CheckedInstant = Instant(0)
    has_expired: bool = False
    late_at: CheckedInstant = Instant(0)
    triggered_by: Author | None = None
    links: Count = 0
    has_begun_teardown: bool = False
    has_lost_teardown: bool = False
    caller: Caller | None = None
    backfill: str = ""
    interval_start: CheckedInstant = Instant(0)
    concurrency_key: str = ""
    deferred_by: CheckedDuration = Duration(0)

    @property
    def due_at(self) -> Instant:
        """When it was to start: its fire time, if that was not deferred, or that of the request."""
        return later(super().due_at, self.deferred_by)


LINKS_MAX = 1_000
"""The most links in a chain of executions each of which began because the one before it succeeded.

A circle of two jobs with short commands runs a few seconds until then.
"""


class LoopState(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The numbers of steps of a loop.

    Attributes:
        most: The number of items, or the largest number of rounds.
        begun: The number of steps that exist.
        open: The number of steps that have not ended.
        failed: The number of steps that failed.
        skipped: The number of steps that were skipped.
    """

    most: Count
    begun: Count = 0
    open: Count = 0
    failed: Count = 0
    skipped: Count = 0


class Task(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One task of one execution, or one step of a loop, which is a record of its own.

    The steps of the task ``load`` are ``load[0]``, ``load[1]``, ... for the items of a ``foreach``,
    and ``load#1``, ``load#2``, ... for the rounds of a ``repeat``.

    Attributes:
        attempts: The attempts, oldest first.
        failures: The number of attempts that failed or timed out, which the retry policy limits.
        losses: The number of attempts that were lost.
        retry_at: When the next attempt is due, while the task is backing off.
        reason: The reason for its state, if that is not obvious.
        ready_at: When the task began to wait for a slot, while it is ready.
        position: Its position in the job's definition, from 0.
        kept_from: In a rerun, the earlier execution in which the task ran and whose attempts are
            listed here; empty if the task runs in this execution.
        index: The number of the item, from 0, or of the round, from 1; -1 if it is no step.
        item: The item, or the result of the round before, as JSON; empty if it is no step.
        loop: The numbers of steps of a loop that waits or has ended; None for other tasks.
        result: The result of a task without attempts, as JSON; empty for none.
        answered_by: The person who approved or rejected, or who posted the event; None for none.
        called: The execution of another job that it waits for, or waited for; empty for none.
        is_failure_allowed: Whether it failed, which its definition allows.
    """

    name: CheckedName
    status: TaskStatus
    attempts: tuple[Attempt, ...] = ()
    failures: Count = 0
    losses: Count = 0
    retry_at: Instant = Instant(0)
    reason: str = ""
    ready_at: Instant = Instant(0)
    position: Count = 0
    kept_from: ExecutionId = ExecutionId("")
    index: int = -1
    item: str = ""
    loop: LoopState | None = None
    result: bytes = b""
    answered_by: Author | None = None
    called: ExecutionId = ExecutionId("")
    is_failure_allowed: bool = False

    @property
    def own_result(self) -> bytes:
        """The result as JSON; empty for none, and for a loop, whose steps have the results."""
        ending = self.attempts[-1].ending if self.attempts else None
        return ending.result if ending else self.result


def standing(task: Task) -> UpstreamState:
    """Return the state of *task* for the trigger rules of the tasks that need it."""
    if task.status is TaskStatus.SKIPPED and task.reason == UPSTREAM_FAILED:
        return UpstreamState.UPSTREAM_FAILED
    if task.is_failure_allowed:
        return UpstreamState.SUCCESS
    return STANDINGS[task.status]


def check_execution_move(before: Execution, after: Execution) -> None:
    """Assert that the state of *after* is that of *before*, or may follow it."""
    if after.status is not before.status:
        assert after.status in EXECUTION_MOVES[before.status], (before, after)


def check_task_move(before: Task, after: Task) -> None:
    """Assert that the state of *after* is that of *before*, or may follow it."""
    if after.status is not before.status:
        assert after.status in TASK_MOVES[before.status], (before, after)


def check_attempts(before: Task, after: Task) -> None:
    """Assert that the attempts of *after* may follow those of *before*.

    Attempts start one at a time, each after the end of the one before; an attempt that has ended
    stays ended; a task runs exactly while its last attempt has not ended.
    """
    if not after.attempts:
        assert not before.attempts, (before, after)
        assert after.status is not TaskStatus.RUNNING, (before, after)
        return
    added = len(after.attempts) - len(before.attempts)
    is_open = [attempt.ending is None for attempt in after.attempts[-2:]]
    assert added in (0, 1), (before, after)
    assert not any(is_open[:-1]), (before, after)
    assert any(is_open[-1:]) == (after.status is TaskStatus.RUNNING), (before, after)
    if before.attempts and before.attempts[-1].ending is not None and added == 0:
        assert not is_open[-1], (before, after)


def in_place(tasks: Iterable[Task]) -> dict[str, Task]:
    """Return the tasks of an execution by name, in the order of the job's definition.

    The steps of a loop follow its task, in the order of their numbers.
    """
    return {task.name: task for task in sorted(tasks, key=lambda task: (task.position, task.index))}


def task_key(execution_id: ExecutionId, task: str) -> str:
    """Return the key of a task's record; the keys of one execution are adjacent."""
    return f"{execution_id}/{task}"
