"""Progress of an execution, from the start of its first task to its end."""

from collections import deque
from itertools import takewhile

import msgspec
from msgspec.structs import replace

from rota.core.decide.outbox import has_room, send_message
from rota.core.decide.run_hooks import late_at_of, late_timer, note_end
from rota.core.errors import Kind, Refused
from rota.core.model.attempt import RESULTS_BYTES_MAX, Attempt, AttemptKey, Ending, Outcome, Token
from rota.core.model.author import Author
from rota.core.model.dag import TriggerVerdict, census_of, verdict
from rota.core.model.execution import (
    FINAL_TASK_STATES,
    UPSTREAM_FAILED,
    UPSTREAM_SKIPPED,
    Execution,
    ExecutionStatus,
    Hold,
    Origin,
    Task,
    TaskStatus,
    standing,
    task_key,
)
from rota.core.model.ids import ExecutionId, instant_of
from rota.core.model.job import Job, JobSpec, TaskSpec
from rota.core.model.recorded_endings import recordable, with_ending
from rota.core.model.retry import delay_after_losses, next_attempt_at
from rota.core.model.work import Selector, Work
from rota.core.state.draft import Draft
from rota.core.state.shard_state import Graph, version_key
from rota.core.timing.instants import Instant, later
from rota.core.vocabulary.changes import Pointer, Succeeded, Table, past_key
from rota.core.vocabulary.commands import Expire, FinishAttempt, LoseSession, StartTask, Wake
from rota.core.vocabulary.effects import SetTimer, Timescale, WaitForSlot

_LOSSES = (Outcome.LOST, Outcome.CANCELLED)
LOSSES_MAX = 100
"""The number of lost attempts with which a task fails: it probably crashes its nodes."""


class Birth(msgspec.Struct, frozen=True):
    """The properties of a new execution."""

    id: ExecutionId
    origin: Origin
    fire_at: Instant
    hold: Hold = Hold.NONE
    parameters: str = ""
    traceparent: str = ""
    triggered_by: Author | None = None


def begin_execution(draft: Draft, job: Job, birth: Birth) -> None:
    """Create an execution of *job*; unless it is held, start its first tasks."""
    execution = Execution(
        id=birth.id,
        job_id=job.id,
        job_name=job.spec.full_name,
        job_version=job.version,
        status=ExecutionStatus.QUEUED,
        origin=birth.origin,
        fire_at=birth.fire_at,
        queued_at=draft.now,
        open_count=len(job.spec.tasks),
        hold=birth.hold,
        parameters=birth.parameters or job.spec.parameters,
        traceparent=birth.traceparent,
        expires_at=start_deadline_of(draft, job.spec, birth.fire_at),
        late_at=late_at_of(job, birth.origin, birth.fire_at),
        triggered_by=birth.triggered_by,
    )
    draft.put_execution(execution)
    draft.publish_execution(execution)
    for position, spec in enumerate(job.spec.tasks):
        draft.put_task(
            execution.id, Task(name=spec.name, status=TaskStatus.BLOCKED, position=position)
        )
    enter(draft, execution)


def enter(draft: Draft, execution: Execution) -> None:
    """Start the first tasks of a new execution unless it is held, and set its timers."""
    if execution.late_at:
        draft.add(late_timer(execution))
    if execution.hold is Hold.NONE:
        start_first_tasks(draft, execution)
    if execution.expires_at:
        current = draft.execution(execution.id)
        assert current is not None, execution.id
        if current.status is ExecutionStatus.QUEUED:
            draft.add(expiry_timer(current))


def start_deadline_of(draft: Draft, spec: JobSpec, fire_at: Instant) -> Instant:
    """Return the instant by which an execution that is created now has to start; 0 for none."""
    if not spec.start_deadline:
        return Instant(0)
    return later(max(draft.now, fire_at), spec.start_deadline)


def expiry_timer(execution: Execution) -> SetTimer:
    """Return the timer of the deadline of *execution*."""
    expire = Expire(execution_id=execution.id, deadline=execution.expires_at)
    return SetTimer(execution.expires_at, expire, Timescale.ELAPSED)


def release_execution(draft: Draft, execution: Execution) -> None:
    """Start a held execution."""
    free = replace(execution, hold=Hold.NONE)
    draft.put_execution(free)
    start_first_tasks(draft, free)


def start_task(draft: Draft, command: StartTask) -> None:
    """Start a task that waits for a slot; a task that is no longer ready is not changed."""
    task = draft.task(command.execution_id, command.task)
    if task is not None and task.status is TaskStatus.READY:
        _start(draft, command.execution_id, task)


def wake_task(draft: Draft, command: Wake) -> None:
    """Start the next attempt of a task whose delay is over."""
    task = draft.task(command.execution_id, command.task)
    if task is None or task.status is not TaskStatus.BACKING_OFF:
        return
    # A timer may fire twice; the second time the task may be in the delay after its next failure.
    if command.number == len(task.attempts) + 1:
        _start(draft, command.execution_id, task)


def finish_attempt(draft: Draft, command: FinishAttempt) -> None:
    """Record the end of an attempt, and end or retry its task.

    Raises:
        Refused: Code ``stale_attempt``: the token is not that of the task's running attempt. The
            report may be dropped (PROTOCOL R40).
    """
    task = running_task(draft, command.attempt, command.token)
    execution_id = command.attempt.execution_id
    execution = draft.execution(execution_id)
    assert execution is not None, execution_id
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


# -- attempts -------------------------------------------------------------------------------------


def start_first_tasks(draft: Draft, execution: Execution) -> None:
    """Start the tasks of an execution that do not have to wait for another task."""
    for name, spec in _graph(draft, execution).tasks.items():
        if not spec.needs or execution.rerun_of:
            task = draft.task(execution.id, name)
            assert task is not None, name
            if task.status is TaskStatus.BLOCKED and _may_start(draft, execution, spec):
                _start(draft, execution.id, task)


def _may_start(draft: Draft, execution: Execution, spec: TaskSpec) -> bool:
    """Return True if a task may start, given the states of the tasks that it needs.

    In a rerun, these may be kept from an earlier execution.
    """
    if not spec.needs:
        return True
    needed = (draft.task(execution.id, name) for name in spec.needs)
    census = census_of(standing(task) for task in needed if task is not None)
    return verdict(spec.rule, census) is TriggerVerdict.START


def _start(draft: Draft, execution_id: ExecutionId, task: Task) -> None:
    """Start an attempt if a slot that suits it is free; otherwise the task waits, ready (R35).

    If the execution is not due yet, the effects are postponed until it is.
    """
    execution = draft.execution(execution_id)
    assert execution is not None, execution_id
    first, spec = draft.effect_count, _graph(draft, execution).tasks[task.name]
    if draft.free_slots > 0 and draft.situation.slots.matches(spec.selector):
        _start_attempt(draft, execution, task, spec)
    else:
        _wait(draft, execution, task, spec)
    if execution.fire_at > draft.now:
        draft.postpone_effects(first, execution)


def _wait(draft: Draft, execution: Execution, task: Task, spec: TaskSpec) -> None:
    # A task that was offered a slot and could not take it keeps its position in the queue.
    since = task.ready_at or max(draft.now, execution.fire_at)
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
    priority = _graph(draft, execution).spec.priority
    draft.add(WaitForSlot(execution.id, task.name, since, priority, spec.selector))


def _start_attempt(draft: Draft, execution: Execution, task: Task, spec: TaskSpec) -> None:
    slots, at = draft.situation.slots, max(draft.now, execution.fire_at)
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
    draft.put_task(execution.id, running)
    if execution.status is ExecutionStatus.QUEUED:
        timeout = _graph(draft, execution).spec.execution_timeout
        execution = replace(
            execution,
            status=ExecutionStatus.RUNNING,
            started_at=at,
            expires_at=later(at, timeout) if timeout else Instant(0),
        )
        draft.put_execution(execution)
        if timeout:
            draft.add(expiry_timer(execution))
        draft.publish_execution(execution)
    draft.publish_task(execution, running)
    results = _results_of(draft, execution.id, spec.needs) if spec.needs else b""
    draft.launch(execution, running, _work(spec, execution), results)


def _missing_labels(selector: Selector) -> str:
    return f"waits for a node with {', '.join(f'{name}={value}' for name, value in selector)}"


def _work(spec: TaskSpec, execution: Execution) -> Work:
    """Return the task's work, with parameters and trace added to its environment.

    Parameters of the execution (its trigger's, or the job's) take precedence over the task's.
    """
    parameters = execution.parameters or spec.work.parameters
    variables = {"ROTA_PARAMETERS": parameters, "TRACEPARENT": execution.traceparent}
    added = tuple((name, value) for name, value in variables.items() if value)
    if not added:
        return spec.work
    return replace(spec.work, parameters=parameters, env=(*spec.work.env, *added))


def _results_of(draft: Draft, execution_id: ExecutionId, needs: tuple[str, ...]) -> bytes:
    """Return the results of tasks as a JSON object; null for a task without one.

    The results are JSON already, so none is parsed.
    """
    members: list[bytes] = []
    for name in needs:
        task = draft.task(execution_id, name)
        assert task is not None, name
        ending = task.attempts[-1].ending if task.attempts else None
        result = ending.result if ending else b""
        members.append(b'"%s":%s' % (name.encode(), result or b"null"))
    return b"{%s}" % b",".join(members)


def _end_attempt(draft: Draft, execution_id: ExecutionId, task: Task, ending: Ending) -> None:
    execution = draft.execution(execution_id)
    assert execution is not None, execution_id
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
    if ending.outcome is Outcome.CANCELLED and execution.has_expired:
        why = f"the execution {execution.reason}"
        ending = replace(ending, reason=f"{ending.reason}: {why}" if ending.reason else why)
    ended = replace(task, attempts=with_ending(task.attempts, ending))
    match ending.outcome:
        case Outcome.SUCCEEDED:
            _end_task(draft, execution_id, replace(ended, status=TaskStatus.SUCCESS))
        case Outcome.CANCELLED if execution.cancelled_at:
            _end_task(
                draft, execution_id, replace(ended, status=TaskStatus.CANCELLED, reason="stopped")
            )
        case Outcome.FAILED | Outcome.TIMED_OUT:
            _retry_or_fail(draft, execution, ended, ending)
        case Outcome.LOST | Outcome.CANCELLED:
            # The attempt was stopped but the execution not cancelled: not a failure, like a loss.
            _start_again(draft, execution, replace(ended, losses=ended.losses + 1))


def _retry_or_fail(draft: Draft, execution: Execution, task: Task, ending: Ending) -> None:
    failed = replace(task, failures=task.failures + 1)
    retry_at = (
        None
        if ending.is_permanent
        else next_attempt_at(
            _graph(draft, execution).tasks[task.name].retry,
            failed.failures,
            exit_code=ending.exit_code,
            raised=ending.raised,
            ended_at=draft.now,
            entropy=draft.situation.entropy,
        )
    )
    if execution.cancelled_at:
        _end_task(draft, execution.id, replace(failed, status=TaskStatus.CANCELLED))
    elif retry_at is None:
        _end_task(
            draft,
            execution.id,
            replace(failed, status=TaskStatus.FAILED, reason=ending.reason),
        )
    else:
        _back_off(draft, execution, failed, retry_at, ending.reason)


def wake_of(execution_id: ExecutionId, task: Task) -> Wake:
    """Return the command that starts the next attempt of a task that backs off."""
    return Wake(execution_id=execution_id, task=task.name, number=len(task.attempts) + 1)


def _start_again(draft: Draft, execution: Execution, task: Task) -> None:
    """Restart a task after a lost attempt, which never counts as one of the user's retries.

    The delay is derived from the record and stored in it, so another primary sets the same timer.
    """
    if execution.cancelled_at:
        _end_task(draft, execution.id, replace(task, status=TaskStatus.CANCELLED))
    elif task.losses >= LOSSES_MAX:
        reason = f"{task.losses} of its attempts were lost"
        _end_task(draft, execution.id, replace(task, status=TaskStatus.FAILED, reason=reason))
    elif delay := delay_after_losses(_losses_in_a_row(task)):
        _back_off(draft, execution, task, later(draft.now, delay), "lost several times in a row")
    else:
        _start(draft, execution.id, task)


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
    draft.add(SetTimer(retry_at, wake_of(execution.id, task), Timescale.ELAPSED))


# -- tasks and executions -------------------------------------------------------------------------


def _end_task(draft: Draft, execution_id: ExecutionId, task: Task) -> None:
    """Close a task, start or skip the tasks that need it, and end a complete execution."""
    execution = draft.execution(execution_id)
    assert execution is not None, execution_id
    graph = _graph(draft, execution)
    close_task(draft, execution_id, task)
    closed = deque([task])
    while closed:
        ended = closed.popleft()
        for name in graph.dependents.get(ended.name, ()):
            skipped = _apply_rule(draft, execution_id, graph.tasks[name], ended)
            if skipped is not None:
                closed.append(skipped)
    end_if_done(draft, execution_id)


def _apply_rule(
    draft: Draft, execution_id: ExecutionId, spec: TaskSpec, ended: Task
) -> Task | None:
    """Apply a blocked task's trigger rule after the end of *ended*, which it needs.

    Returns:
        The task if the rule skips it, else None.
    """
    task = draft.task(execution_id, spec.name)
    assert task is not None, spec.name
    if task.status is not TaskStatus.BLOCKED:
        return None
    result = verdict(spec.rule, draft.census_after(execution_id, spec, ended))
    if result is TriggerVerdict.START:
        _start(draft, execution_id, task)
    skipped = skipped_by(result, task)
    if skipped is not None:
        close_task(draft, execution_id, skipped)
    return skipped


def skipped_by(result: TriggerVerdict, task: Task) -> Task | None:
    """Return *task* as skipped by the verdict of its rule; None if the verdict does not skip it."""
    if result in (TriggerVerdict.WAIT, TriggerVerdict.START):
        return None
    reason = UPSTREAM_FAILED if result is TriggerVerdict.SKIP_FAILED else UPSTREAM_SKIPPED
    return replace(task, status=TaskStatus.SKIPPED, reason=reason)


def close_task(draft: Draft, execution_id: ExecutionId, task: Task) -> None:
    """Write a task in a final state."""
    execution = draft.execution(execution_id)
    assert execution is not None, execution_id
    is_failure = task.status is TaskStatus.FAILED
    reason = execution.reason
    if is_failure and not reason:
        reason = f"task {task.name} failed: {task.reason}" if task.reason else f"{task.name} failed"
    draft.put_task(execution_id, task)
    if draft.checkpoint(execution_id, task.name):
        draft.drop(Table.CHECKPOINT, task_key(execution_id, task.name))
    draft.put_execution(
        replace(
            execution,
            open_count=execution.open_count - 1,
            failed_count=execution.failed_count + is_failure,
            reason=reason,
        )
    )
    draft.publish_task(execution, task)


def end_if_done(draft: Draft, execution_id: ExecutionId) -> None:
    """End an execution all of whose tasks are in a final state."""
    execution = draft.execution(execution_id)
    assert execution is not None, execution_id
    if execution.open_count:
        return
    if execution.cancelled_at and not execution.has_expired:
        status = ExecutionStatus.CANCELLED
    elif execution.has_expired or execution.failed_count:
        status = ExecutionStatus.FAILED
    else:
        status = ExecutionStatus.SUCCESS
    # An execution that was decided ahead and cancelled before it was due starts at its fire time.
    past = replace(execution, status=status, finished_at=max(draft.now, execution.started_at))
    _move_to_history(draft, past)
    draft.publish_execution(past)
    _drop_unused_version(draft, past)
    if status is ExecutionStatus.SUCCESS:
        notify_dependents(draft, past)
    note_end(draft, past)
    _release_next(draft, past)


def _move_to_history(draft: Draft, past: Execution) -> None:
    draft.finish_execution(past)
    for name in _graph(draft, past).tasks:
        task = draft.task(past.id, name)
        assert task is not None, name
        assert task.status in FINAL_TASK_STATES, (past.status, task)
        key = task_key(past.id, name)
        draft.drop(Table.TASK, key)
        draft.put(Table.PAST_TASK, key, task)
    pointer = Pointer(Table.PAST_EXECUTION, past.id)
    draft.put(Table.PAST, past_key(instant_of(past.id), pointer), pointer)


def _drop_unused_version(draft: Draft, past: Execution) -> None:
    job = draft.job(past.job_id)
    if job is not None and job.version == past.job_version:
        return
    if not any(other.job_version == past.job_version for other in draft.live_of(past.job_id)):
        draft.drop(Table.VERSION, version_key(past.job_id, past.job_version))


def notify_dependents(draft: Draft, past: Execution) -> None:
    """Send the success of *past* to the jobs that depend on its job."""
    index = draft.situation.position.index
    for dependent in draft.state.dependents.get(past.job_name, ()):
        if has_room(draft, past.job_name, dependent):
            message = Succeeded(upstream=past.job_name, dependent=dependent, index=index)
            send_message(draft, dependent, message)


def _release_next(draft: Draft, past: Execution) -> None:
    """Release the execution that waits for this one (overlap ``queue_one``)."""
    for waiting in draft.live_of(past.job_id):
        if waiting.hold is not Hold.OVERLAP:
            return
        release_execution(draft, waiting)
        return


def _graph(draft: Draft, execution: Execution) -> Graph:
    return draft.graph(execution.job_id, execution.job_version)
