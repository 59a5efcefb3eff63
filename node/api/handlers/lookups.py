"""Lookups of jobs and executions in all shards, on this node or on another."""

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote

from rota.core.errors import Kind, Refused
from rota.core.model.ids import ExecutionId, JobId, is_job_id, namespace_of
from rota.core.model.job import Job
from rota.node.api.forwarding.peer_requests import ask_peer, owner_of, peer_headers
from rota.node.api.handlers.executions import load_execution
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.targets import missing_job
from rota.node.peers.peer_apis import PeerRequest
from rota.node.shards.shard import Shard
from rota.wire.documents import ExecutionView, JobView


class Found(NamedTuple):
    """A job that exists."""

    id: JobId
    full_name: str
    dependencies: Sequence[str]
    called_jobs: Sequence[str]


async def job_by_id(request: RequestContext, job_id: JobId) -> Found | None:
    """Return the job with an id, or None.

    Raises:
        Refused: The primary of its shard cannot be reached.
    """
    shard = request.node.shards.of_id(job_id)
    if shard.is_open:
        job = request.state(shard).jobs.get(job_id)
        # The request may write next, based on this job: its record must be committed first.
        await request.settle()
        return _found(job)
    return await _ask(request, shard, job_id)


async def job_by_name(request: RequestContext, namespace: str, name: str) -> Found | None:
    """Return the job with a name, or None.

    Raises:
        Refused: The primary of its shard cannot be reached.
    """
    shard, full_name = request.node.shards.of_name(namespace, name), f"{namespace}/{name}"
    if shard.is_open:
        state = request.state(shard)
        job_id = state.names.get(full_name)
        job = state.jobs[job_id] if job_id else None
        await request.settle()
        return _found(job)
    return await _ask(request, shard, full_name)


async def job_named(request: RequestContext, named: str) -> Found:
    """Return the job with the id or name *named*.

    Raises:
        Refused: No such job exists, the caller lacks the operation's verb in its namespace, or the
            primary of its shard cannot be reached.
    """
    found = await job_by_id(request, JobId(named)) if is_job_id(named) else None
    if found is None:
        namespace, _, name = named.rpartition("/")
        namespace = namespace or request.http.query.get("namespace", "default")
        found = await job_by_name(request, namespace, name)
    if found is None:
        raise missing_job(request, named)
    missing = missing_job(request, named)
    request.authorize(namespace_of(found.full_name), missing=missing, of=found.full_name)
    return found


async def check_execution(request: RequestContext, execution_id: ExecutionId) -> None:
    """Check that an execution exists.

    Raises:
        Refused: The execution does not exist, or the primary of its shard cannot be reached.
    """
    shard = request.node.shards.of_id(execution_id)
    if shard.is_open:
        await load_execution(request, execution_id)
        return
    sent = PeerRequest(
        method="GET",
        target=f"/api/v1/executions/{execution_id}",
        headers=peer_headers(request),
    )
    await ask_peer(request, owner_of(request, shard), sent, ExecutionView)


def _found(job: Job | None) -> Found | None:
    if job is None:
        return None
    return Found(job.id, job.spec.full_name, job.spec.dependencies, job.spec.called_jobs)


async def _ask(request: RequestContext, shard: Shard, named: str) -> Found | None:
    sent = PeerRequest(
        method="GET",
        target=f"/api/v1/jobs/{quote(named, safe='')}",
        headers=peer_headers(request),
    )
    try:
        # This is allowed for a forwarded request, too: what this node sends is not forwarded.
        view = await ask_peer(request, owner_of(request, shard), sent, JobView)
    except Refused as refusal:
        if refusal.kind is Kind.NOT_FOUND:
            return None
        raise
    calls = [f"{view.namespace}/{task.run_job.job}" for task in view.tasks if task.run_job]
    return Found(JobId(view.job_id), f"{view.namespace}/{view.name}", view.dependencies, calls)
