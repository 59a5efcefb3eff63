"""Another run of a finished execution, in which some tasks keep their state and their results.

The command carries the finished execution, because the state has no history. These tasks run again:

    failed    the tasks that failed, were cancelled, or were skipped because another one failed
    from      a given task
    all       all tasks

and also the tasks that need one of these, directly or through others, and those that are new in the
definition. Teardowns always run again, and so do their setups (the tasks that they need), if the
teardown succeeded, so that what they made is gone, and a task that needs them runs again. The other
tasks are kept as they ended.
"""

from collections import deque
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from rota.core.decide.advance_execution import displace, enter, skipped_by, start_deadline_of
from rota.core.decide.overlap import concurrency_key
from rota.core.decide.quotas import refuse_execution_over_quota
from rota.core.decide.run_hooks import late_at_of
from rota.core.decide.trigger_job import admitted, refuse_if_full, refuse_if_paused
from rota.core.errors import Kind, Problem, Refused, invalid, not_found
from rota.core.model.execution import (
    Execution,
    ExecutionStatus,
    Origin,
    Task,
    TaskStatus,
    standing,
)
from rota.core.model.flow import Approval
from rota.core.model.ids import task_of_step, trigger_execution_id
from rota.core.model.job import Job
from rota.core.model.recorded_endings import outline
from rota.core.model.trigger_rules import UpstreamState, census_of, verdict
from rota.core.near_names import did_you_mean
from rota.core.quoting import in_quotes
from rota.core.state.draft import Draft
from rota.core.state.shard_state import Graph, graph_of
from rota.core.vocabulary.commands import Rerun, RerunScope
from rota.core.vocabulary.decision import Reply, Triggered

_UNSUCCESSFUL = (
    UpstreamState.FAILED,
    UpstreamState.UPSTREAM_FAILED,
    UpstreamState.CANCELLED,
)
TASKS_NAMED_MAX = 10
"""The most tasks that the error about an unknown task lists."""


def rerun(draft: Draft, command: Rerun) -> Reply:
    """Create an execution that runs a finished one again, even if the job is paused.

    Raises:
        Refused: There is no such job; code ``task_not_found``: the definition has no task of that
            name; code ``nothing_to_rerun``: no task would start; code ``invalid_rerun``: the first
            task to run is marked as successful; codes ``namespace_paused``, ``quota_exceeded``,
            ``overlap`` and ``too_many_executions``: as for a trigger.
    """
    job, past = draft.job(command.past.job_id), command.past
    if job is None:
        raise not_found("job", past.job_name)
    refuse_if_paused(draft, job.spec.namespace)
    refuse_if_full(draft)
    refuse_execution_over_quota(draft, job.spec.namespace)
    admission = admitted(draft, job, command.parameters or past.parameters)
    if command.definition is None or past.job_version == job.version:
        graph, version = graph_of(job.spec), job.version
    else:
        version = past.job_version
        graph = draft.put_version(job.id, version, command.definition)
    is_changed = version != past.job_version or command.parameters not in ("", past.parameters)
    tasks = _tasks(graph, command, is_changed=is_changed)
    execution = replace(_execution(draft, command, job, version, tasks), hold=admission.hold)
    displace(draft, admission.displaces, by=execution.id)
    draft.put_execution(execution)
    draft.publish_execution(execution)
    for task in tasks:
        draft.put_initial_task(execution.id, task)
    enter(draft, execution)
    return Triggered(execution.id)


def _execution(
    draft: Draft, command: Rerun, job: Job, version: int, tasks: Iterable[Task]
) -> Execution:
    """Return the new execution in its state before its first task starts."""
    past = command.past
    parameters = command.parameters or past.parameters
    statuses = [task.status for task in tasks]
    failed = sum(standing(task) is UpstreamState.FAILED for task in tasks)
    return Execution(
        id=trigger_execution_id(job.id, draft.now, draft.situation.entropy),
        job_id=job.id,
        job_name=job.spec.full_name,
        job_version=version,
        status=ExecutionStatus.QUEUED,
        origin=Origin.MANUAL,
        fire_at=past.fire_at,
        interval_start=past.interval_start,
        queued_at=draft.now,
        open_count=statuses.count(TaskStatus.BLOCKED),
        failed_count=failed,
        reason=past.reason if failed else "",
        parameters=parameters,
        concurrency_key=concurrency_key(job, parameters),
        traceparent=command.traceparent,
        result_bytes=sum(map(_result_bytes, tasks)),
        rerun_of=past.id,
        expires_at=start_deadline_of(draft, job.spec, draft.now),
        late_at=late_at_of(job, Origin.MANUAL, draft.now),
        triggered_by=command.author,
    )


def _result_bytes(task: Task) -> int:
    return len(task.own_result)


def _tasks(graph: Graph, command: Rerun, *, is_changed: bool) -> list[Task]:
    """Return the tasks of the new execution in the order of their definition.

    Raises:
        Refused: See `rerun`.
    """
    if command.first in command.marked:
        raise _contradiction(command.first)
    past = {task.name: task for task in command.tasks}
    past |= {name: _marked(graph, name, command) for name in command.marked}
    again = _again(graph, past, command, is_changed=is_changed).difference(command.marked)
    tasks: dict[str, Task] = {}
    for position, name in enumerate(graph.tasks):
        if name in again:
            tasks[name] = Task(name=name, status=TaskStatus.BLOCKED, position=position)
        else:
            tasks[name] = _kept(past[name], command.past, position)
    for name, step in past.items():
        task = tasks.get(task_of_step(name))
        if step.index >= 0 and task is not None and task.kept_from and task.loop is not None:
            tasks[name] = _kept(step, command.past, task.position)
    _skip_unreachable(graph, tasks)
    if not any(task.status is TaskStatus.BLOCKED for task in tasks.values()):
        raise Refused(Kind.CONFLICT, "nothing_to_rerun", _why_nothing(command, again))
    return list(tasks.values())


def _contradiction(name: str) -> Refused:
    detail = (
        f"the task {in_quotes(name)} cannot both run again and be marked as successful, which does "
        "not run it; omit it from markSuccess, or name another task in fromTask"
    )
    return invalid("invalid_rerun", detail, Problem("/markSuccess", detail))


def _marked(graph: Graph, name: str, command: Rerun) -> Task:
    """Return a task that a user marks as successful.

    Raises:
        Refused: The job has no such task.
    """
    if name not in graph.tasks:
        raise _no_task(command, name, list(graph.tasks))
    reason = "marked as successful"
    return Task(name=name, status=TaskStatus.SUCCESS, reason=reason, answered_by=command.author)


def _kept(task: Task, past: Execution, position: int) -> Task:
    """Return a task of *past* as part of its rerun.

    Only its last attempt is kept, which has the result. The earlier ones and the output stay with
    the execution in which it ran.
    """
    attempts = task.attempts[-1:]
    if attempts and attempts[0].ending is not None:
        attempts = (replace(attempts[0], ending=outline(attempts[0].ending)),)
    kept_from = task.kept_from or past.id
    return replace(task, attempts=attempts, kept_from=kept_from, position=position)


def _again(graph: Graph, past: Mapping[str, Task], command: Rerun, *, is_changed: bool) -> set[str]:
    """Return the names of the tasks that are to run again.

    Those are all approvals, too, if parameters or definition differ from what was approved.
    """
    if command.scope is RerunScope.ALL:
        return set(graph.tasks)
    first = {name for name in graph.tasks if name not in past}
    if command.scope is RerunScope.FAILED:
        first |= {
            name for name in graph.tasks if name in past and standing(past[name]) in _UNSUCCESSFUL
        }
    elif command.first not in graph.tasks:
        raise _no_task(command, command.first, list(graph.tasks))
    else:
        first.add(command.first)
    if is_changed:
        first |= {name for name, spec in graph.tasks.items() if isinstance(spec.wait, Approval)}
    found, queue = set(first), deque(first)
    while queue:
        for name in graph.dependents.get(queue.popleft(), ()):
            if name not in found:
                found.add(name)
                queue.append(name)
    return found | _surroundings(graph, past, found) if found else found


def _surroundings(graph: Graph, past: Mapping[str, Task], again: set[str]) -> set[str]:
    """Return the teardowns, and the setups of the tasks *again* whose teardowns succeeded."""
    if not graph.teardowns:
        return set()
    above, queue = set[str](), deque(name for name in again if not graph.tasks[name].is_teardown)
    while queue:
        for name in graph.tasks[queue.popleft()].needs:
            if name not in above:
                above.add(name)
                queue.append(name)
    setups = {
        name
        for spec in graph.teardowns
        if spec.name in past and past[spec.name].status is TaskStatus.SUCCESS
        for name in spec.needs
    }
    return (setups & above) | {spec.name for spec in graph.teardowns}


def _no_task(command: Rerun, name: str, names: list[str]) -> Refused:
    left_out = len(names) - TASKS_NAMED_MAX
    more = f" and {left_out:,} more" if left_out > 0 else ""
    listed = f"its tasks are {', '.join(names[:TASKS_NAMED_MAX])}{more}"
    job, hint = in_quotes(command.past.job_name), did_you_mean(name, names)
    return Refused(
        Kind.NOT_FOUND,
        "task_not_found",
        f"the job {job} has no task {in_quotes(name)}; {hint or listed}",
    )


def _skip_unreachable(graph: Graph, tasks: dict[str, Task]) -> None:
    """Skip the tasks that cannot start because of kept tasks, and those that then cannot either."""
    needs = {
        name: census_of(standing(tasks[needed]) for needed in spec.needs)
        for name, spec in graph.tasks.items()
        if spec.needs and tasks[name].status is TaskStatus.BLOCKED
    }
    queue = deque(needs)
    while queue:
        name = queue.popleft()
        skipped = skipped_by(verdict(graph.tasks[name].rule, needs[name]), tasks[name])
        if skipped is None or tasks[name].status is not TaskStatus.BLOCKED:
            continue
        tasks[name] = skipped
        for dependent in graph.dependents.get(name, ()):
            if dependent in needs:
                needs[dependent] = needs[dependent].after(standing(skipped))
                queue.append(dependent)


def _why_nothing(command: Rerun, again: set[str]) -> str:
    if not again:
        return (
            f"no task of execution {command.past.id} failed; run all tasks again, or those from a "
            "given task on"
        )
    return (
        f"no task of execution {command.past.id} would start, because tasks that are kept have "
        "failed; run the failed tasks again, or all tasks"
    )
