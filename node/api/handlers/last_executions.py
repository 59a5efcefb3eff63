"""The latest finished executions of jobs, as part of the documents of jobs."""

from rota.core.model.ids import JobId
from rota.node.api.documents.record_views import last_execution_view
from rota.node.api.requests.request_context import RequestContext
from rota.wire.documents import LastExecutionView


def last_execution(request: RequestContext, job_id: JobId) -> LastExecutionView | None:
    """Return the finished execution of a job with the latest fire time; None if there is none.

    The cost is one seek in the history. An execution that has just ended is shown as soon as its
    end is committed.
    """
    shard = request.node.shards.of_id(job_id)
    past = request.node.history.executions_of(shard.id, job_id, None)
    latest = next(past, None)
    return None if latest is None else last_execution_view(latest)
