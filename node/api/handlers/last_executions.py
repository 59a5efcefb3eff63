"""The latest finished executions of jobs, as part of the documents of jobs."""

from itertools import islice

from msgspec.structs import replace

from rota.core.model.execution import ExecutionStatus
from rota.core.model.ids import ExecutionId, JobId, namespace_of
from rota.core.model.job import Job
from rota.core.model.reason import without_message
from rota.core.timing.instants import LATEST_INSTANT, Instant
from rota.node.access.verbs import Verb
from rota.node.api.documents.recent_outcomes import RECENT, End, Entry, recent_view
from rota.node.api.documents.record_views import last_execution_view, result_of
from rota.node.api.requests.request_context import RequestContext
from rota.node.system.pacing import Pace
from rota.storage.history import UnreadableExecution
from rota.wire.documents import JobView, LastExecutionView, RecentView


def last_execution(request: RequestContext, job_id: JobId) -> LastExecutionView | None:
    """Return the finished execution of a job with the latest fire time; None if there is none.

    The cost is one seek in the history. An execution that has just ended is shown as soon as its
    end is committed.
    """
    shard = request.node.shards.of_id(job_id)
    past = request.node.history.executions_of(shard.id, job_id, None)
    latest = next(past, None)
    if latest is None:
        return None
    view = last_execution_view(latest)
    if isinstance(latest, UnreadableExecution) or request.may(
        Verb.LOGS, namespace_of(latest.job_name)
    ):
        return view
    return replace(view, reason=without_message(view.reason))


async def recent_outcomes(request: RequestContext, job_id: JobId) -> RecentView | None:
    """Return the outcomes of the newest executions and fire times of a job; None if it has none.

    At most `RECENT` executions and as many ledger entries are read.
    """
    shard = request.node.shards.of_id(job_id)
    history, pace = request.node.history, Pace()
    ends: list[End] = []
    for end in history.ends_of(shard.id, job_id, RECENT):
        ends.append(end)
        await pace.rest()
    entries: list[Entry] = []
    newest = history.ledger(shard.id, job_id, Instant(0), LATEST_INSTANT, newest_first=True)
    for entry in islice(newest, RECENT):
        entries.append(entry)
        await pace.rest()
    # The primary may have changed in a pause, so the authority is checked before the response.
    request.note_read(shard)
    return recent_view(ends, entries) if ends or entries else None


def with_last_execution(
    request: RequestContext, view: JobView, job: Job, last: LastExecutionView | None
) -> JobView:
    """Return the document *view* of *job* with its execution *last*.

    If the execution of a one-off job has ended, its end is that of the job.
    """
    view = replace(view, last_execution=last)
    if last is None or view.execution_id or not job.spec.is_one_off:
        return view
    shown = replace(
        view,
        status=last.status,
        execution_id=last.execution_id,
        started_at=last.started_at,
        ended_at=last.finished_at,
    )
    is_success = last.status == ExecutionStatus.SUCCESS.value
    if not is_success or not request.may(Verb.LOGS, view.namespace):
        return shown
    execution_id = ExecutionId(last.execution_id)
    shard = request.node.shards.of_id(execution_id)
    tasks = request.node.history.tasks(shard.id, execution_id)
    needed = {name for task in view.tasks for name in task.needs}
    results = {name: result_of(task) for name, task in tasks.items() if name not in needed}
    if len(view.tasks) == 1:
        return replace(shown, result=next(iter(results.values()), None))
    return replace(shown, result=results)
