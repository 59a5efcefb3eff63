"""Conversion of the records of the core to documents of the API."""

from collections.abc import Collection, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from rota.core.model.attempt import Attempt, Outcome, Raised
from rota.core.model.execution import (
    FINAL_EXECUTION_STATES,
    FINAL_TASK_STATES,
    Caller,
    Execution,
    ExecutionStatus,
    LoopState,
    Task,
    TaskStatus,
)
from rota.core.model.ids import JobId
from rota.core.model.job import Job, JobPlan, JobSpec, Pause, TaskSpec
from rota.core.model.job_state import StateEntry
from rota.core.model.ledger import LedgerEntry
from rota.core.model.sizes import format_size
from rota.core.model.work import ResourceLimits, Sandbox, SecretNames
from rota.core.state.shard_state import State
from rota.core.timing.instants import (
    LATEST_INSTANT,
    MILLISECOND,
    SECOND,
    Instant,
    format_duration,
    format_instant,
)
from rota.core.vocabulary.changes import StandInExecution
from rota.core.vocabulary.facts import Facts
from rota.node.api.documents.broken_records import (
    broken_entry,
    broken_execution,
    broken_job,
    complete_or_broken,
    unreadable,
    unreadable_entry,
    unreadable_execution,
)
from rota.node.api.documents.change_views import author_view
from rota.node.api.documents.job_definitions import definition_of
from rota.node.webhooks.hook_retries import HookRetry
from rota.storage.history import UnreadableEntry, UnreadableExecution
from rota.wire.bodies.flow_bodies import shown_flow
from rota.wire.bodies.schedule_bodies import shown_rule
from rota.wire.bodies.task_bodies import bind_text
from rota.wire.documents import (
    AttemptView,
    DuplicateView,
    ErrorView,
    ExecutionView,
    HookRetryView,
    JobView,
    Json,
    LastExecutionView,
    LedgerEntryView,
    LimitsView,
    ParentView,
    SandboxView,
    ScheduleView,
    SecretsView,
    StateView,
    StepsView,
    TaskSpecView,
    TaskView,
)
from rota.wire.statuses import SUCCESS

JOB_STATUSES = ("scheduled", "manual", "waiting", "running", "paused", "finished", "broken")


def with_pause(job: Job, pauses: Mapping[str, Pause]) -> Job:
    """Return *job* with the pause of its namespace, if it has none of its own.

    Args:
        job: The job.
        pauses: The pauses of namespaces, by namespace.
    """
    pause = pauses.get(job.spec.namespace) if job.pause is None else None
    if pause is None:
        return job
    why = f": {pause.reason}" if pause.reason else " is paused"
    return replace(job, pause=replace(pause, reason=f"namespace {job.spec.namespace}{why}"))


def view_of(state: State, job: Job, facts: Facts, *, is_complete: bool = False) -> JobView:
    """Return the document of a job of *state*, with its definition if *is_complete*.

    By *facts* its namespace may be paused, and calendars exclude fire times.

    A job that cannot be shown has the status ``broken``, so that a list is complete and the job can
    be deleted.
    """
    newest = next(reversed(state.live.get(job.id, {})), None)
    latest = state.executions[newest] if newest is not None else None
    tasks = state.tasks[newest].values() if newest is not None else ()
    job = with_pause(job, facts.pauses)
    status = status_of(state, job)

    def view() -> JobView:
        plan = facts.starting(job, state.plans[job.id])
        return job_view(job, plan, latest, tasks, status=status, is_complete=is_complete)

    return complete_or_broken(
        view,
        lambda why: broken_job(job, why),
    )


def status_of(state: State, job: Job) -> str:
    """Return the status of a job of *state*, one of `JOB_STATUSES`."""
    plan, live = state.plans[job.id], state.live.get(job.id, ())
    if any(at is not None and at > LATEST_INSTANT for at in plan.next_fires):
        return "broken"
    if job.pause is not None:
        return "paused"
    if any(state.executions[each].status is not ExecutionStatus.QUEUED for each in live):
        return "running"
    if live:
        return "waiting"
    return _idle_status(job.spec, plan)


def _idle_status(spec: JobSpec, plan: JobPlan) -> str:
    if spec.upstreams or any(at is not None for at in plan.next_fires):
        return "scheduled"
    return "finished" if spec.schedules else "manual"


def job_view(
    job: Job,
    plan: JobPlan,
    latest: Execution | None,
    tasks: Collection[Task],
    *,
    status: str,
    is_complete: bool = False,
) -> JobView:
    """Return the document of a job.

    Args:
        job: The job.
        plan: Its next fire times.
        latest: Its newest unfinished execution.
        tasks: The tasks of *latest*.
        status: One of `JOB_STATUSES`.
        is_complete: Whether to include its definition.
    """
    spec, pause = job.spec, job.pause
    next_fires = [at for at in plan.next_fires if at is not None]
    return JobView(
        job_id=job.id,
        name=spec.name,
        namespace=spec.namespace,
        status=status,
        version=job.version,
        description=spec.description,
        schedules=[
            ScheduleView(**shown_rule(schedule), next_fire_at=_instant(at))
            for schedule, at in zip(spec.schedules, plan.next_fires, strict=True)
        ],
        tasks=[_task_spec_view(task) for task in spec.tasks],
        dependencies=list(spec.dependencies),
        events=[each.event for each in spec.triggers],
        misfire=spec.misfire.value,
        grace=format_duration(spec.grace),
        overlap=spec.overlap.value,
        consistency=spec.consistency.value,
        priority=spec.priority,
        start_deadline=format_duration(spec.start_deadline),
        execution_timeout=format_duration(spec.execution_timeout),
        labels=dict(spec.labels),
        created_at=format_instant(job.created_at),
        updated_at=format_instant(job.updated_at),
        next_fire_at=_instant(min(next_fires, default=None)),
        type=spec.job_type or None,
        execution_id=latest.id if latest else None,
        started_at=_instant(latest.started_at) if latest else None,
        progress=_progress(latest, tasks) if latest else None,
        paused_at=_instant(pause.at) if pause else None,
        paused_until=_instant(pause.until) if pause and pause.until else None,
        paused_by=pause.by if pause else "",
        pause_reason=pause.reason if pause else "",
        definition=msgspec.to_builtins(definition_of(spec)) if is_complete else None,
        broken=unreadable(spec) if is_complete else "",
    )


def execution_view(
    execution: Execution | UnreadableExecution,
    tasks: Mapping[str, Task] | None = None,
    duplicates: Iterable[StandInExecution] | None = None,
) -> ExecutionView:
    """Return the document of an execution, with its tasks and its runs on stand-ins if given."""
    if isinstance(execution, UnreadableExecution):
        return unreadable_execution(execution)
    return complete_or_broken(
        lambda: _execution_view(execution, tasks, duplicates),
        lambda why: broken_execution(execution, why),
    )


def _execution_view(
    execution: Execution,
    tasks: Mapping[str, Task] | None,
    duplicates: Iterable[StandInExecution] | None,
) -> ExecutionView:
    return ExecutionView(
        execution_id=execution.id,
        job_id=execution.job_id,
        job=execution.job_name,
        job_version=execution.job_version,
        status=execution.status.value,
        trigger=execution.origin.value,
        fire_time=format_instant(execution.fire_at),
        queued_at=format_instant(execution.queued_at),
        started_at=_instant(execution.started_at),
        finished_at=_instant(execution.finished_at),
        lateness_ms=_lateness_ms(execution),
        progress=_progress(execution, tasks.values() if tasks is not None else ()),
        reason=_reason(execution),
        tasks={name: _task_view(task) for name, task in tasks.items()}
        if tasks is not None
        else None,
        traceparent=execution.traceparent,
        stand_in=execution.stand_in or None,
        rerun_of=execution.rerun_of or None,
        expires_at=_instant(execution.expires_at),
        triggered_by=author_view(execution.triggered_by, has_address=False)
        if execution.triggered_by
        else None,
        parent=_parent_view(execution.caller) if execution.caller else None,
        backfill_id=execution.backfill or None,
        interval_start=_instant(execution.interval_start),
        deferred_to=_instant(execution.due_at if execution.deferred_by else Instant(0)),
        interval_end=_instant(execution.fire_at if execution.interval_start else Instant(0)),
        possible_duplicates=list(map(_duplicate_view, duplicates))
        if duplicates is not None
        else None,
    )


def _parent_view(caller: Caller) -> ParentView:
    return ParentView(job=caller.job, execution_id=caller.execution_id, task=caller.task)


def _duplicate_view(duplicate: StandInExecution) -> DuplicateView:
    return DuplicateView(
        node_id=duplicate.node_id,
        status=duplicate.execution.status.value,
        started_at=_instant(duplicate.execution.started_at),
        finished_at=_instant(duplicate.execution.finished_at),
        tasks={task.name: _task_view(task) for task in duplicate.tasks},
    )


def result_of(task: Task) -> Json:
    """Return the result of the last attempt of a task; None without one."""
    ending = task.attempts[-1].ending if task.attempts else None
    return msgspec.Raw(ending.result) if ending is not None and ending.result else None


def last_execution_view(execution: Execution | UnreadableExecution) -> LastExecutionView:
    """Return the outcome of a finished execution."""
    if isinstance(execution, UnreadableExecution):
        return LastExecutionView(execution_id=execution.id, status="broken", reason=execution.why)
    return LastExecutionView(
        execution_id=execution.id,
        status=execution.status.value,
        fire_time=format_instant(execution.fire_at),
        started_at=_instant(execution.started_at),
        finished_at=_instant(execution.finished_at),
        reason=execution.reason,
    )


def hook_retry_view(retry: HookRetry) -> HookRetryView:
    """Return the document of a hook whose webhooks are sent again."""
    return HookRetryView(
        event=retry.event.value,
        receiver=retry.target,
        waiting=retry.waiting,
        reason=retry.reason,
        next_at=format_instant(retry.next_at),
    )


def ledger_entry_view(
    entry: LedgerEntry | UnreadableEntry, job_id: JobId, job: str | None
) -> LedgerEntryView:
    """Return the document of a ledger entry; *job* is its full name, None for a deleted job."""
    if isinstance(entry, UnreadableEntry):
        view = unreadable_entry(entry)
    else:
        view = complete_or_broken(
            lambda: _ledger_entry_view(entry), lambda why: broken_entry(entry, why)
        )
    return replace(view, job_id=job_id, job=job)


def _ledger_entry_view(entry: LedgerEntry) -> LedgerEntryView:
    return LedgerEntryView(
        fire_time=format_instant(entry.fire_at),
        until=format_instant(entry.until),
        count=entry.count,
        schedule=entry.schedule,
        outcome=entry.outcome.value,
        execution_id=entry.execution_id or None,
        reason=entry.reason,
        recorded_at=format_instant(entry.recorded_at),
    )


def _task_spec_view(task: TaskSpec) -> TaskSpecView:
    work = task.work
    return TaskSpecView(
        name=task.name,
        needs=list(task.needs),
        trigger_rule=task.rule.value,
        type=work.executor,
        command=work.shell or list(work.argv) or None,
        retries=task.retry.limit,
        timeout=format_duration(work.timeout),
        python=work.call.function if work.call else None,
        container=work.image.name if work.image else None,
        sandbox=_sandbox_view(work.sandbox) if work.sandbox != Sandbox() else None,
        limits=_limits_view(work.limits) if work.limits != ResourceLimits() else None,
        secrets=_secrets_view(work.secrets) if work.secrets else None,
        user=work.user or None,
        identity=work.has_identity,
        **shown_flow(task),
    )


def _secrets_view(secrets: SecretNames) -> SecretsView:
    return SecretsView(env=dict(secrets.env), files=dict(secrets.files))


def _sandbox_view(sandbox: Sandbox) -> SandboxView:
    return SandboxView(
        profile=sandbox.profile,
        network=sandbox.has_network,
        binds=[bind_text(bind) for bind in sandbox.binds],
    )


def _limits_view(limits: ResourceLimits) -> LimitsView:
    return LimitsView(
        cpu=limits.cpu or None,
        memory=format_size(limits.memory) if limits.memory else None,
        pids=limits.pids or None,
    )


def _task_view(task: Task) -> TaskView:
    return TaskView(
        status=task.status.value,
        attempts=[_attempt_view(attempt) for attempt in task.attempts],
        reason=task.reason,
        retry_at=_instant(task.retry_at),
        progress=task.attempts[-1].percent if task.status is TaskStatus.RUNNING else None,
        kept_from=task.kept_from or None,
        item=msgspec.Raw(task.item.encode()) if task.item else None,
        steps=_steps_view(task.loop) if task.loop else None,
        result=msgspec.Raw(task.result) if task.result else None,
        answered_by=author_view(task.answered_by, has_address=False) if task.answered_by else None,
        child_execution_id=task.called or None,
    )


def _steps_view(loop: LoopState) -> StepsView:
    return StepsView(
        total=loop.most,
        begun=loop.begun,
        open=loop.open,
        failed=loop.failed,
        skipped=loop.skipped,
    )


def _attempt_view(attempt: Attempt) -> AttemptView:
    ending = attempt.ending
    if ending is None:
        return AttemptView(
            number=attempt.number,
            node_id=attempt.node_id,
            token=str(attempt.token),
            started_at=format_instant(attempt.placed_at),
            progress=attempt.percent,
        )
    raised, usage = ending.raised, ending.usage
    return AttemptView(
        number=attempt.number,
        node_id=attempt.node_id,
        token=str(attempt.token),
        started_at=format_instant(ending.started_at),
        finished_at=format_instant(ending.finished_at),
        outcome=_outcome_word(ending.outcome),
        exit_code=ending.exit_code if ending.exit_code >= 0 else None,
        signal=ending.signal or None,
        reason=ending.reason,
        output_tail=ending.output.decode(errors="replace"),
        output_bytes=ending.output_bytes,
        progress=attempt.percent,
        # It was checked to be JSON when it was recorded.
        result=msgspec.Raw(ending.result) if ending.result else None,
        error=_error_view(raised) if raised else None,
        cpu_seconds=usage.cpu / SECOND if usage else None,
        memory_peak_bytes=usage.memory_peak or None if usage else None,
        out_of_memory=ending.is_out_of_memory,
        unenforced=list(ending.unenforced),
        left_running=ending.left_running,
    )


def _outcome_word(outcome: Outcome) -> str:
    """Return the word for an outcome; a success has the same word as for executions and tasks."""
    return SUCCESS if outcome is Outcome.SUCCEEDED else outcome.value


def _error_view(raised: Raised) -> ErrorView:
    return ErrorView(type=raised.type, message=raised.message, traceback=raised.traceback)


def _reason(execution: Execution) -> str:
    if execution.reason or not execution.hold.value:
        return execution.reason
    return f"waits for {execution.hold.value}"


def _progress(execution: Execution, tasks: Collection[Task]) -> int:
    """Return the progress of an execution in percent; all tasks have the same weight."""
    if execution.status in FINAL_EXECUTION_STATES:
        return 100
    return sum(_percent(task) for task in tasks) // len(tasks) if tasks else 0


def _percent(task: Task) -> int:
    if task.status in FINAL_TASK_STATES:
        return 100
    is_running = task.status is TaskStatus.RUNNING
    return (task.attempts[-1].percent or 0) if is_running else 0


def _lateness_ms(execution: Execution) -> float | None:
    if not execution.started_at:
        return None
    return (execution.started_at - execution.due_at) / MILLISECOND


def _instant(instant: Instant | None) -> str | None:
    return format_instant(instant) if instant else None


def state_view(entry: StateEntry) -> StateView:
    """Return the document of a value that the executions of a job share."""
    author = entry.author
    return StateView(
        key=entry.key,
        value=msgspec.Raw(entry.value),
        revision=entry.revision,
        changed_at=format_instant(entry.changed_at),
        changed_by=author_view(author, has_address=False) if author else None,
        execution_id=entry.holder or None,
        task=entry.holding_task or None,
    )
