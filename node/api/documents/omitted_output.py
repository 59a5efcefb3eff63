"""Documents without what their callers may not read, such as output of attempts."""

from collections.abc import Mapping

from msgspec.structs import replace

from rota.core.model.execution import TaskStatus
from rota.core.model.reason import without_message
from rota.wire.documents import ExecutionView, JobView, TaskView


def without_output(view: ExecutionView) -> ExecutionView:
    """Return *view* without what its attempts wrote: output, results and texts of exceptions."""
    tasks = None if view.tasks is None else _without_output(view.tasks)
    duplicates = view.possible_duplicates
    if duplicates is not None:
        duplicates = [replace(each, tasks=_without_output(each.tasks)) for each in duplicates]
    reason = without_message(view.reason)
    return replace(view, reason=reason, tasks=tasks, possible_duplicates=duplicates)


def _without_output(tasks: Mapping[str, TaskView]) -> dict[str, TaskView]:
    return {
        name: replace(
            task,
            attempts=[
                replace(
                    each,
                    output_tail="",
                    result=None,
                    error=None,
                    reason=without_message(each.reason),
                    left_running=without_message(each.left_running),
                )
                for each in task.attempts
            ],
            # Results of waits, and items of loops, are made of results and parameters.
            result=None,
            item=None,
            # The reason of a task that waits for a slot is the node's.
            reason=task.reason
            if task.status == TaskStatus.READY.value
            else without_message(task.reason),
        )
        for name, task in tasks.items()
    }


def job_without_definition(view: JobView) -> JobView:
    """Return *view* with names, version and times only, and whether the job is paused."""
    return JobView(
        job_id=view.job_id,
        name=view.name,
        namespace=view.namespace,
        status="paused" if view.paused_at else "",
        version=view.version,
        description="",
        schedules=[],
        tasks=[],
        dependencies=[],
        misfire="",
        grace="",
        overlap="",
        labels={},
        created_at=view.created_at,
        updated_at=view.updated_at,
        paused_at=view.paused_at,
    )


def execution_without_tasks(view: ExecutionView) -> ExecutionView:
    """Return *view* with names, version, status and times only."""
    return ExecutionView(
        execution_id=view.execution_id,
        job_id=view.job_id,
        job=view.job,
        job_version=view.job_version,
        status=view.status,
        trigger=view.trigger,
        fire_time=view.fire_time,
        queued_at=view.queued_at,
        started_at=view.started_at,
        finished_at=view.finished_at,
    )
