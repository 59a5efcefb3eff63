"""Which jobs and executions there are, wherever their shards are decided for."""

from typing import NamedTuple
from urllib.parse import quote

from aiohttp import web

from rota.core.errors import Kind, Refused, not_found
from rota.core.model.ids import ExecutionId, JobId, is_job_id
from rota.core.model.job import Job
from rota.node.api.handlers.executions import load_execution
from rota.node.api.requests.request_reader import CONTEXT
from rota.node.api.routing.forwarding import ask_part, owner_of, question_headers
from rota.node.peers.peer_apis import PeerRequest
from rota.node.shards.shard import Shard
from rota.wire.documents import ExecutionView, JobView


class Found(NamedTuple):
    """A job that there is."""

    id: JobId
    full_name: str


async def job_by_id(request: web.Request, job_id: JobId) -> Found | None:
    """Return the job with an id, if there is one.

    Raises:
        Refused: Nobody who knows can be asked.
    """
    shards = request.app[CONTEXT].shards
    shard = shards.of_id(job_id)
    if shard.is_open:
        job = shard.state.jobs.get(job_id)
        await shards.settled(shard)
        return _found(job)
    return await _ask(request, shard, job_id)


async def job_by_name(request: web.Request, namespace: str, name: str) -> Found | None:
    """Return the job with a name, if there is one.

    Raises:
        Refused: Nobody who knows can be asked.
    """
    shards = request.app[CONTEXT].shards
    shard, full_name = shards.of_name(namespace, name), f"{namespace}/{name}"
    if shard.is_open:
        job_id = shard.state.names.get(full_name)
        job = shard.state.jobs[job_id] if job_id else None
        await shards.settled(shard)
        return _found(job)
    return await _ask(request, shard, full_name)


async def job_named(request: web.Request, named: str) -> Found:
    """Return the job that *named*, an id or a name, stands for.

    Raises:
        Refused: There is none; or nobody who knows can be asked.
    """
    found = await job_by_id(request, JobId(named)) if is_job_id(named) else None
    if found is None:
        namespace, _, name = named.rpartition("/")
        namespace = namespace or request.query.get("namespace", "default")
        found = await job_by_name(request, namespace, name)
    if found is None:
        raise not_found("job", named)
    return found


async def check_execution(request: web.Request, execution_id: ExecutionId) -> None:
    """Let an execution pass that there is.

    Raises:
        Refused: There is none; or nobody who knows can be asked.
    """
    context = request.app[CONTEXT]
    shard = context.shards.of_id(execution_id)
    if shard.is_open:
        await load_execution(context, execution_id)
        return
    asked = PeerRequest(
        method="GET",
        target=f"/api/v1/executions/{execution_id}",
        headers=question_headers(request),
    )
    await ask_part(request, owner_of(request, shard), asked, ExecutionView)


def _found(job: Job | None) -> Found | None:
    return Found(job.id, job.spec.full_name) if job else None


async def _ask(request: web.Request, shard: Shard, named: str) -> Found | None:
    asked = PeerRequest(
        method="GET",
        target=f"/api/v1/jobs/{quote(named, safe='')}",
        headers=question_headers(request),
    )
    try:
        # Also on behalf of a forwarded request: the question itself is not forwarded.
        view = await ask_part(request, owner_of(request, shard), asked, JobView)
    except Refused as refusal:
        if refusal.kind is Kind.NOT_FOUND:
            return None
        raise
    return Found(JobId(view.job_id), f"{view.namespace}/{view.name}")
