"""The latest finished executions of jobs, as part of the documents of jobs."""

from msgspec.structs import replace

from rota.core.model.execution import ExecutionStatus
from rota.core.model.ids import ExecutionId, JobId
from rota.node.api.documents.record_views import last_execution_view, result_of
from rota.node.api.requests.request_context import RequestContext
from rota.wire.documents import JobView, LastExecutionView


def last_execution(request: RequestContext, job_id: JobId) -> LastExecutionView | None:
    """Return the finished execution of a job with the latest fire time; None if there is none.

    The cost is one seek in the history. An execution that has just ended is shown as soon as its
    end is committed.
    """
    shard = request.node.shards.of_id(job_id)
    past = request.node.history.executions_of(shard.id, job_id, None)
    latest = next(past, None)
    return None if latest is None else last_execution_view(latest)


def ended_one_off(request: RequestContext, view: JobView, last: LastExecutionView) -> JobView:
    """Return the document *view* of a one-off job with the end of its execution, *last*."""
    shown = replace(
        view,
        status=last.status,
        execution_id=last.execution_id,
        started_at=last.started_at,
        ended_at=last.finished_at,
    )
    if last.status != ExecutionStatus.SUCCESS.value:
        return shown
    execution_id = ExecutionId(last.execution_id)
    shard = request.node.shards.of_id(execution_id)
    tasks = request.node.history.tasks(shard.id, execution_id)
    needed = {name for task in view.tasks for name in task.needs}
    results = {name: result_of(task) for name, task in tasks.items() if name not in needed}
    if len(view.tasks) == 1:
        return replace(shown, result=next(iter(results.values()), None))
    return replace(shown, result=results)
