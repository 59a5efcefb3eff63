"""Progress of an execution, from the start of its first task to its end."""

import msgspec
from msgspec.structs import replace

from rota.core.decide.outbox import has_room, send_message
from rota.core.decide.overlap import Admission, concurrency_key, is_busy, next_waiting
from rota.core.decide.run_hooks import late_at_of, late_timer, note_end
from rota.core.decide.steps import calls, loops
from rota.core.decide.steps.flow_values import names_of
from rota.core.decide.steps.kinds import kind_of
from rota.core.decide.steps.step import (
    begin_running,
    close,
    expiry_timer,
    fail,
    failure_text,
    graph_of,
    spec_of,
    unfinished,
)
from rota.core.decide.stop_execution import cancel, fail_fast
from rota.core.model.author import Author
from rota.core.model.execution import (
    FINAL_TASK_STATES,
    LINKS_MAX,
    UPSTREAM_FAILED,
    UPSTREAM_SKIPPED,
    Caller,
    Execution,
    ExecutionStatus,
    Hold,
    Origin,
    Task,
    TaskStatus,
    standing,
    task_key,
)
from rota.core.model.expressions import ExpressionError, evaluate
from rota.core.model.ids import ExecutionId, instant_of, task_of_step, trigger_execution_id
from rota.core.model.job import Job, JobSpec, TaskSpec
from rota.core.model.trigger_rules import (
    TriggerRule,
    TriggerVerdict,
    UpstreamState,
    census_of,
    verdict,
)
from rota.core.quoting import shortened
from rota.core.state.draft import Draft
from rota.core.state.shard_state import version_key
from rota.core.timing.instants import Duration, Instant, later
from rota.core.vocabulary.changes import Pointer, Succeeded, Table, past_key
from rota.core.vocabulary.commands import Wake


class Birth(msgspec.Struct, frozen=True):
    """The properties of a new execution."""

    id: ExecutionId
    origin: Origin
    fire_at: Instant
    hold: Hold = Hold.NONE
    parameters: str = ""
    traceparent: str = ""
    triggered_by: Author | None = None
    links: int = 0
    caller: Caller | None = None
    backfill: str = ""
    displaces: tuple[ExecutionId, ...] = ()
    interval_start: Instant = Instant(0)
    deferred_by: Duration = Duration(0)


def birth_now(
    draft: Draft, job: Job, origin: Origin, admission: Admission, parameters: str = ""
) -> Birth:
    """Return what an execution begins with that is due now, as it is admitted."""
    return Birth(
        id=trigger_execution_id(job.id, draft.now, draft.situation.entropy),
        origin=origin,
        fire_at=draft.now,
        hold=admission.hold,
        displaces=admission.displaces,
        parameters=parameters,
    )


def begin_link(draft: Draft, job: Job, birth: Birth) -> None:
    """Create an execution that another one started; beyond `LINKS_MAX` links, it fails at once."""
    if birth.links <= LINKS_MAX:
        begin_execution(draft, job, birth)
        return
    begin_execution(draft, job, replace(birth, hold=Hold.DEPENDENCIES))
    execution = draft.execution(birth.id)
    assert execution is not None, birth.id
    reason = (
        f"{LINKS_MAX:,} executions came before it, each of which started the next; the jobs "
        "probably depend on each other in a circle: remove one of the dependencies or hooks"
    )
    expired = replace(execution, cancelled_at=draft.now, has_expired=True, reason=reason)
    draft.put_execution(expired)
    for spec in job.spec.tasks:
        task = draft.task(birth.id, spec.name)
        assert task is not None, spec.name
        close(draft, birth.id, replace(task, status=TaskStatus.CANCELLED))


def begin_execution(draft: Draft, job: Job, birth: Birth) -> None:
    """Create an execution of *job*; unless it is held, start its first tasks."""
    displace(draft, birth.displaces, by=birth.id)
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
        triggered_by=birth.triggered_by,
        links=birth.links,
        caller=birth.caller,
        backfill=birth.backfill,
        interval_start=birth.interval_start,
        concurrency_key=concurrency_key(job, birth.parameters),
        deferred_by=birth.deferred_by,
    )
    is_by_wall_clock = execution.origin is Origin.SCHEDULE
    due_at = later(execution.due_at, draft.situation.lead if is_by_wall_clock else Duration(0))
    execution = replace(
        execution,
        expires_at=start_deadline_of(draft, job.spec, due_at),
        late_at=late_at_of(job, execution.origin, due_at),
    )
    draft.put_execution(execution)
    draft.publish_execution(execution)
    for position, spec in enumerate(job.spec.tasks):
        draft.put_task(
            execution.id, Task(name=spec.name, status=TaskStatus.BLOCKED, position=position)
        )
    enter(draft, execution)


def displace(draft: Draft, displaced: tuple[ExecutionId, ...], by: ExecutionId) -> None:
    """Cancel executions in whose place another one begins."""
    for execution_id in displaced:
        execution = draft.execution(execution_id)
        if execution is not None:
            cancel(draft, execution, f"replaced by execution {by} (overlap)")


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


def start_deadline_of(draft: Draft, spec: JobSpec, due_at: Instant) -> Instant:
    """Return the instant by which an execution that is created now has to start; 0 for none."""
    if not spec.start_deadline:
        return Instant(0)
    return later(max(draft.now, due_at), spec.start_deadline)


def release_execution(draft: Draft, execution: Execution) -> None:
    """Start a held execution."""
    free = replace(execution, hold=Hold.NONE)
    draft.put_execution(free)
    start_first_tasks(draft, free)


def wake_task(draft: Draft, command: Wake) -> None:
    """Continue with a task whose delay is over, or that waited for this time."""
    task = draft.task(command.execution_id, command.task)
    # A timer may fire twice; the second time the task may be in the delay after its next failure.
    if task is None or not task.retry_at or command.number != len(task.attempts) + 1:
        return
    kind = kind_of(spec_of(draft, unfinished(draft, command.execution_id), task.name), task)
    if task.status is TaskStatus.BACKING_OFF:
        kind.start(draft, command.execution_id, task)
    elif task.status is TaskStatus.WAITING:
        kind.wake(draft, command.execution_id, task)


# -- the graph ------------------------------------------------------------------------------------


def start_first_tasks(draft: Draft, execution: Execution) -> None:
    """Start the tasks of an execution that do not have to wait for another task."""
    for name, spec in graph_of(draft, execution).tasks.items():
        if spec.is_teardown:
            continue
        if not spec.needs or spec.rule is TriggerRule.ALWAYS or execution.rerun_of:
            task = draft.task(execution.id, name)
            assert task is not None, name
            if task.status is TaskStatus.BLOCKED and _may_start(draft, execution, spec):
                begin_step(draft, execution.id, task)
    _begin_teardowns(draft, execution.id)


def _begin_teardowns(draft: Draft, execution_id: ExecutionId) -> bool:
    """Start the teardowns of an execution, once, when all its other tasks have ended.

    Returns:
        Whether it is time for them now.
    """
    execution = unfinished(draft, execution_id)
    teardowns = graph_of(draft, execution).teardowns
    is_time = 0 < execution.open_count <= len(teardowns)
    if not is_time or execution.has_begun_teardown or execution.has_lost_teardown:
        return False
    draft.put_execution(replace(execution, has_begun_teardown=True))
    for spec in teardowns:
        task = draft.task(execution_id, spec.name)
        assert task is not None, spec.name
        if task.status is TaskStatus.BLOCKED:
            _follow_verdict(draft, execution_id, task, _verdict(draft, execution, spec))
    return True


def _may_start(draft: Draft, execution: Execution, spec: TaskSpec) -> bool:
    return _verdict(draft, execution, spec) is TriggerVerdict.START


def _verdict(draft: Draft, execution: Execution, spec: TaskSpec) -> TriggerVerdict:
    """Return the verdict of a task's rule, given the states of the tasks that it needs.

    In a rerun, these may be kept from an earlier execution.
    """
    if not spec.needs:
        return TriggerVerdict.START
    needed = (draft.task(execution.id, name) for name in spec.needs)
    return verdict(spec.rule, census_of(standing(task) for task in needed if task is not None))


def begin_step(draft: Draft, execution_id: ExecutionId, task: Task) -> None:
    """Start a blocked task whose rule is met, unless a switch or its condition forbids that.

    The condition of a task that a switch did not choose is not evaluated: it may need what only the
    chosen case has.
    """
    execution = unfinished(draft, execution_id)
    spec = spec_of(draft, execution, task.name)
    if task.index < 0 and (switch := _switch_against(draft, execution, spec)):
        begin_running(draft, execution)
        reason = f"{switch} chose others"
        close(draft, execution_id, replace(task, status=TaskStatus.SKIPPED, reason=reason))
        return
    if spec.when and task.index < 0:
        try:
            is_met = bool(evaluate(spec.when, names_of(draft, execution, task, spec, spec.when)))
        except ExpressionError as error:
            begin_running(draft, execution)
            fail(draft, execution_id, task, f"when: {error}")
            return
        if not is_met:
            begin_running(draft, execution)
            reason = f"its condition is false: {shortened(spec.when)}"
            close(draft, execution_id, replace(task, status=TaskStatus.SKIPPED, reason=reason))
            return
    kind_of(spec, task).start(draft, execution_id, task)


def _switch_against(draft: Draft, execution: Execution, spec: TaskSpec) -> str:
    """Return the switch that did not choose the task *spec* of its cases; empty for none."""
    for name in graph_of(draft, execution).switches.get(spec.name, ()):
        switch = draft.task(execution.id, name)
        assert switch is not None, name
        # The result is a list of names, which need no escapes in JSON.
        is_chosen = f'"{spec.name}"'.encode() in switch.result
        if switch.status is TaskStatus.SUCCESS and not is_chosen:
            return name
    return ""


def settle(draft: Draft) -> None:
    """Decide what follows from the steps that this draft has ended, until nothing does.

    The tasks that need an ended task start or are skipped, a loop continues, and an execution
    without open tasks ends, which may release another one.
    """
    while draft.ended or draft.begun:
        touched: dict[ExecutionId, None] = {}
        while draft.ended or draft.begun:
            if draft.begun:
                execution_id, step = draft.begun.popleft()
                # A later fire of the same decision may have displaced its execution meanwhile.
                if draft.task(execution_id, step.name) == step:
                    begin_step(draft, execution_id, step)
            else:
                execution_id, task = draft.ended.popleft()
                touched[execution_id] = None
                _follow(draft, execution_id, task)
        for execution_id in touched:
            if not _begin_teardowns(draft, execution_id):
                end_if_done(draft, execution_id)


def _follow(draft: Draft, execution_id: ExecutionId, ended: Task) -> None:
    """Apply the rules of the tasks that need an ended task; the end of a step is its loop's."""
    if ended.index >= 0:
        loops.note_end(draft, execution_id, ended)
        return
    execution = unfinished(draft, execution_id)
    graph = graph_of(draft, execution)
    is_failure = standing(ended) is UpstreamState.FAILED and not execution.has_begun_teardown
    if is_failure and graph.spec.fail_fast and not execution.cancelled_at:
        fail_fast(draft, execution, ended)
    for name in graph.dependents.get(ended.name, ()):
        _apply_rule(draft, execution_id, graph.tasks[name], ended)


def _apply_rule(draft: Draft, execution_id: ExecutionId, spec: TaskSpec, ended: Task) -> None:
    """Apply a blocked task's trigger rule after the end of *ended*, which it needs."""
    task = draft.task(execution_id, spec.name)
    assert task is not None, spec.name
    if task.status is not TaskStatus.BLOCKED:
        return
    result = verdict(spec.rule, draft.census_after(execution_id, spec, ended))
    if not spec.is_teardown or unfinished(draft, execution_id).has_begun_teardown:
        _follow_verdict(draft, execution_id, task, result)


def _follow_verdict(
    draft: Draft, execution_id: ExecutionId, task: Task, result: TriggerVerdict
) -> None:
    """Start or skip a blocked task, as its rule says, or let it wait."""
    if result is TriggerVerdict.START:
        begin_step(draft, execution_id, task)
    elif (skipped := skipped_by(result, task)) is not None:
        close(draft, execution_id, skipped)


def skipped_by(result: TriggerVerdict, task: Task) -> Task | None:
    """Return *task* as skipped by the verdict of its rule; None if the verdict does not skip it."""
    if result in (TriggerVerdict.WAIT, TriggerVerdict.START):
        return None
    reason = UPSTREAM_FAILED if result is TriggerVerdict.SKIP_FAILED else UPSTREAM_SKIPPED
    return replace(task, status=TaskStatus.SKIPPED, reason=reason)


def end_if_done(draft: Draft, execution_id: ExecutionId) -> None:
    """End an execution all of whose tasks are in a final state."""
    execution = unfinished(draft, execution_id)
    if execution.open_count:
        return
    if execution.cancelled_at and not execution.has_expired:
        status = ExecutionStatus.CANCELLED
    elif execution.has_expired:
        status = ExecutionStatus.FAILED
    elif execution.failed_count and (failed := _unhandled_failures(draft, execution)):
        status = ExecutionStatus.FAILED
        execution = replace(execution, reason=_reason_of(draft, execution, failed))
    else:
        status, execution = ExecutionStatus.SUCCESS, replace(execution, reason="")
    # An execution that was decided ahead and cancelled before it was due starts at its fire time.
    past = replace(execution, status=status, finished_at=max(draft.now, execution.started_at))
    if past.caller is not None:
        calls.report_call(draft, past)
    _move_to_history(draft, past)
    draft.publish_execution(past)
    _drop_unused_version(draft, past)
    if past.job_id in draft.state.backfills or past.backfill:
        draft.backfill_ends.append(past)
    if status is ExecutionStatus.SUCCESS and not past.backfill:
        notify_dependents(draft, past)
    note_end(draft, past)
    _release_next(draft, past)


def _unhandled_failures(draft: Draft, execution: Execution) -> list[str]:
    """Return the tasks that failed, and that no task handled, in the order of the job.

    A task with ``handlesFailure`` that succeeded has handled the failures of all tasks that it
    needs, directly or through others. Steps of loops do not count: the loop's task does.
    """
    graph = graph_of(draft, execution)
    tasks = {name: draft.task(execution.id, name) for name in graph.tasks}
    failed = {
        name for name, task in tasks.items() if task and standing(task) is UpstreamState.FAILED
    }
    handled: set[str] = set()
    above = [
        name
        for name, spec in graph.tasks.items()
        if spec.handles_failure and (task := tasks[name]) and task.status is TaskStatus.SUCCESS
    ]
    while above:
        for needed in graph.tasks[above.pop()].needs:
            if needed not in handled:
                handled.add(needed)
                above.append(needed)
    return [name for name in graph.tasks if name in failed - handled]


def _reason_of(draft: Draft, execution: Execution, failed: list[str]) -> str:
    """Return why an execution failed, of which the tasks *failed* were not handled.

    It is the first failure, unless that was handled, or one that a loop tolerates.
    """
    texts: list[str] = []
    for name in draft.task_names(execution.id):
        if task_of_step(name) in failed:
            task = draft.task(execution.id, name)
            if task is not None and task.status is TaskStatus.FAILED:
                texts.append(failure_text(task))
    return execution.reason if execution.reason in texts or not texts else texts[0]


def _move_to_history(draft: Draft, past: Execution) -> None:
    draft.finish_execution(past)
    draft.drop_events(past.id)
    for name in draft.task_names(past.id):
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
            message = Succeeded(
                upstream=past.job_name, dependent=dependent, index=index, links=past.links + 1
            )
            send_message(draft, dependent, message)


def _release_next(draft: Draft, past: Execution) -> None:
    """Release the oldest execution that waits for this one (`rota.core.decide.overlap`)."""
    job = draft.job(past.job_id)
    if job is None or is_busy(draft, job, past.concurrency_key):
        return
    waiting = next_waiting(draft, job, past.concurrency_key)
    if waiting is not None:
        release_execution(draft, waiting)
