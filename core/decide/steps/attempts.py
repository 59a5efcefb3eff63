"""Steps that are attempts: slots, starts, ends, retries and losses."""

from itertools import takewhile

from msgspec.structs import replace

from rota.core.decide.steps.flow_values import results_of, work_of
from rota.core.decide.steps.step import (
    begin_running,
    close,
    fail,
    graph_of,
    is_stopped,
    priority_of,
    set_wake_timer,
    spec_of,
    unfinished,
)
from rota.core.errors import Kind, Refused
from rota.core.model.attempt import (
    RESULTS_BYTES_MAX,
    Attempt,
    AttemptKey,
    Ending,
    Outcome,
    Token,
)
from rota.core.model.execution import Execution, Origin, Task, TaskStatus
from rota.core.model.expressions import ExpressionError
from rota.core.model.ids import ExecutionId
from rota.core.model.job import TaskSpec
from rota.core.model.recorded_endings import recordable, with_ending
from rota.core.model.retry import causes_of, delay_after_losses, next_attempt_at
from rota.core.model.work import Selector
from rota.core.state.draft import Draft
from rota.core.timing.instants import Duration, Instant, later
from rota.core.vocabulary.commands import FinishAttempt, LoseSession, StartTask
from rota.core.vocabulary.effects import WaitForSlot

_LOSSES = (Outcome.LOST, Outcome.CANCELLED)
LOSSES_MAX = 100
"""The number of lost attempts with which a task fails: it probably crashes its nodes."""
SKIPPING = "rota.client.task_functions.Skip"
"""The exception with which a Python function skips its task."""


def start(draft: Draft, execution_id: ExecutionId, task: Task) -> None:
    """Start an attempt if a slot that suits it is free; otherwise the task waits, ready (R35).

    If the execution is not due yet, the effects are postponed until it is.
    """
    execution = unfinished(draft, execution_id)
    first, spec = draft.effect_count, spec_of(draft, execution, task.name)
    if draft.free_slots > 0 and draft.situation.slots.matches(spec.selector):
        _start_attempt(draft, execution, task, spec)
    else:
        _wait(draft, execution, task, spec)
    if execution.origin is Origin.SCHEDULE and execution.due_at > draft.wall:
        draft.postpone_effects(first, execution)


def start_task(draft: Draft, command: StartTask) -> None:
    """Start a task that waits for a slot; a task that is no longer ready is not changed."""
    task = draft.task(command.execution_id, command.task)
    if task is not None and task.status is TaskStatus.READY:
        start(draft, command.execution_id, task)


def finish_attempt(draft: Draft, command: FinishAttempt) -> None:
    """Record the end of an attempt, and end or retry its task.

    Raises:
        Refused: Code ``stale_attempt``: the token is not that of the task's running attempt. The
            report may be dropped (PROTOCOL R40).
    """
    task = running_task(draft, command.attempt, command.token)
    execution_id = command.attempt.execution_id
    execution = unfinished(draft, execution_id)
    room = RESULTS_BYTES_MAX - execution.result_bytes
    _end_attempt(draft, execution_id, task, recordable(command.ending, room=room))


def running_task(draft: Draft, key: AttemptKey, token: Token) -> Task:
    """Return the task whose running attempt is *key* under *token*.

    Raises:
        Refused: Code ``stale_attempt``: there is no such task, or this is not its running attempt.
    """
    task = draft.task(key.execution_id, key.task)
    attempt = task.attempts[-1] if task is not None and task.attempts else None
    if (
        task is None
        or attempt is None
        or attempt.ending
        or (attempt.number, attempt.token) != (key.number, token)
    ):
        raise Refused(
            Kind.CONFLICT,
            "stale_attempt",
            f"attempt {key} with token {token} is not running here; its report is dropped",
        )
    return task


def lose_session(draft: Draft, command: LoseSession) -> None:
    """Record every attempt of a node's ended session as lost, and restart its tasks."""
    lost = [
        (execution_id, task)
        for execution_id, tasks in draft.state.tasks.items()
        for task in tasks.values()
        if task.status is TaskStatus.RUNNING
        and task.attempts[-1].node_id == command.node_id
        and task.attempts[-1].session == command.session
    ]
    ending = Ending(
        outcome=Outcome.LOST,
        started_at=Instant(0),
        finished_at=draft.now,
        reason=f"node {command.node_id} ended while the attempt ran",
    )
    for execution_id, task in lost:
        lost_ending = replace(ending, started_at=task.attempts[-1].placed_at)
        _end_attempt(draft, execution_id, task, lost_ending)


def _wait(draft: Draft, execution: Execution, task: Task, spec: TaskSpec) -> None:
    # A task that was offered a slot and could not take it keeps its position in the queue.
    since = task.ready_at or max(draft.now, execution.due_at)
    is_matching = draft.situation.slots.matches(spec.selector)
    ready = replace(
        task,
        status=TaskStatus.READY,
        retry_at=Instant(0),
        ready_at=since,
        reason="" if is_matching else _missing_labels(spec.selector),
    )
    draft.put_task(execution.id, ready)
    if task.status is not TaskStatus.READY:
        draft.publish_task(execution, ready)
    priority = priority_of(execution, graph_of(draft, execution).spec)
    draft.add(WaitForSlot(execution.id, task.name, since, priority, spec.selector))


def _start_attempt(draft: Draft, execution: Execution, task: Task, spec: TaskSpec) -> None:
    execution = begin_running(draft, execution)
    slots, at = draft.situation.slots, max(draft.now, execution.due_at)
    attempt = Attempt(
        number=len(task.attempts) + 1,
        token=draft.situation.position,
        node_id=slots.node_id,
        session=slots.session,
        placed_at=at,
    )
    running = replace(
        task,
        status=TaskStatus.RUNNING,
        attempts=(*task.attempts, attempt),
        retry_at=Instant(0),
        ready_at=Instant(0),
        reason="",
    )
    try:
        work = work_of(draft, execution, task, spec)
    except ExpressionError as error:
        fail(draft, execution.id, replace(running, attempts=task.attempts), str(error))
        return
    draft.put_task(execution.id, running)
    draft.publish_task(execution, running)
    results = results_of(draft, execution, spec.needs) if spec.needs else b""
    draft.launch(execution, running, work, results)


def _missing_labels(selector: Selector) -> str:
    return f"waits for a node with {', '.join(f'{name}={value}' for name, value in selector)}"


def _end_attempt(draft: Draft, execution_id: ExecutionId, task: Task, ending: Ending) -> None:
    execution = unfinished(draft, execution_id)
    attempt = task.attempts[-1]
    is_first = attempt.placed_at == execution.started_at and attempt.number == 1
    if ending.outcome is Outcome.LOST:
        # A report of a loss does not have the real start of the attempt.
        ending = replace(ending, started_at=attempt.placed_at)
    elif attempt.placed_at <= ending.started_at < execution.started_at:
        is_first = True
    if is_first:
        # The first attempt's report has the real start of the execution; until then the instant at
        # which its slot was taken is recorded. If several attempts start first, any may end first.
        execution = replace(execution, started_at=ending.started_at)
        draft.put_execution(execution)
    if ending.result:
        result_bytes = execution.result_bytes + len(ending.result)
        execution = replace(execution, result_bytes=result_bytes)
        draft.put_execution(execution)
    spec = spec_of(draft, execution, task.name)
    is_over = is_stopped(execution, spec)
    if ending.outcome is Outcome.CANCELLED and execution.has_expired and is_over:
        why = f"the execution {execution.reason}"
        ending = replace(ending, reason=f"{ending.reason}: {why}" if ending.reason else why)
    ended = replace(task, attempts=with_ending(task.attempts, ending))
    match ending.outcome:
        case Outcome.SUCCEEDED:
            close(draft, execution_id, replace(ended, status=TaskStatus.SUCCESS))
        case Outcome.FAILED if _is_skip(spec, ending):
            reason = f"skipped itself: {_why_skipped(ending)}"
            close(draft, execution_id, replace(ended, status=TaskStatus.SKIPPED, reason=reason))
        case Outcome.CANCELLED if is_over:
            close(
                draft, execution_id, replace(ended, status=TaskStatus.CANCELLED, reason="stopped")
            )
        case Outcome.FAILED | Outcome.TIMED_OUT:
            _retry_or_fail(draft, execution, ended, ending)
        case Outcome.LOST | Outcome.CANCELLED:
            # The attempt was stopped but the execution not cancelled: not a failure, like a loss.
            _start_again(draft, execution, replace(ended, losses=ended.losses + 1))


def _is_skip(spec: TaskSpec, ending: Ending) -> bool:
    """Return True if the program, or the function, ended in the way that skips its task."""
    is_raised = ending.raised is not None and ending.raised.type == SKIPPING
    return is_raised or ending.exit_code in spec.skip_exit_codes


def _why_skipped(ending: Ending) -> str:
    is_raised = ending.raised is not None and ending.raised.type == SKIPPING
    return ending.raised.message if ending.raised and is_raised else ending.reason


def _retry_or_fail(draft: Draft, execution: Execution, task: Task, ending: Ending) -> None:
    failed = replace(task, failures=task.failures + 1)
    spec = spec_of(draft, execution, task.name)
    retry_at = (
        None
        if ending.is_permanent
        else next_attempt_at(
            spec.retry,
            failed.failures,
            exit_code=ending.exit_code,
            raised=ending.raised,
            causes=causes_of(ending),
            elapsed=Duration(draft.now - task.attempts[0].placed_at),
            ended_at=draft.now,
            entropy=draft.situation.entropy,
        )
    )
    if is_stopped(execution, spec):
        close(draft, execution.id, replace(failed, status=TaskStatus.CANCELLED))
    elif retry_at is None:
        close(
            draft,
            execution.id,
            replace(failed, status=TaskStatus.FAILED, reason=ending.reason),
        )
    else:
        _back_off(draft, execution, failed, retry_at, ending.reason)


def _start_again(draft: Draft, execution: Execution, task: Task) -> None:
    """Restart a task after a lost attempt, which never counts as one of the user's retries.

    The delay is derived from the record and stored in it, so another primary sets the same timer.
    """
    if is_stopped(execution, spec_of(draft, execution, task.name)):
        close(draft, execution.id, replace(task, status=TaskStatus.CANCELLED))
    elif task.losses >= LOSSES_MAX:
        reason = f"{task.losses} of its attempts were lost"
        close(draft, execution.id, replace(task, status=TaskStatus.FAILED, reason=reason))
    elif delay := delay_after_losses(_losses_in_a_row(task)):
        _back_off(draft, execution, task, later(draft.now, delay), "lost several times in a row")
    else:
        start(draft, execution.id, task)


def _losses_in_a_row(task: Task) -> int:
    """Return the number of last attempts in a row that were lost, or stopped without a request."""
    lost = takewhile(
        lambda attempt: attempt.ending and attempt.ending.outcome in _LOSSES,
        reversed(task.attempts),
    )
    return sum(1 for _ in lost)


def _back_off(
    draft: Draft, execution: Execution, task: Task, retry_at: Instant, reason: str
) -> None:
    backing_off = replace(task, status=TaskStatus.BACKING_OFF, retry_at=retry_at, reason="")
    draft.put_task(execution.id, backing_off)
    draft.publish_task(execution, backing_off, reason)
    set_wake_timer(draft, execution.id, backing_off)
