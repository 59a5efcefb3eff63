"""Targets of requests: the jobs, executions and shards that a request names.

The functions ``shard_of_*`` give the shard of an operation before its handler runs, so that the
request is handled by the shard's primary. None means that this node handles it: the request names
no shard, or its handler refuses it.
"""

from hashlib import blake2b

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.errors import Kind, Refused, not_found
from rota.core.model.ids import ExecutionId, JobId, is_execution_id, is_job_id
from rota.core.model.job import Job
from rota.core.vocabulary.commands import Idempotency
from rota.node.access.verbs import EVERY
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import idempotency_key, read_content
from rota.node.shards.shard import Shard

MINTED_STEM_MAX = 100
"""The most characters of a generated name before its random part; a name has at most 128
characters."""
PLAIN_STEM = "run"
"""The beginning of the generated name of a job without a job type."""
MINTS_MAX = 32
"""The most names that are generated to find one whose shard is open on this node."""


class JobName(msgspec.Struct):
    """The fields of a job's body that determine its shard."""

    name: str = ""
    namespace: str = "default"
    type: str | None = None


# -- shards ---------------------------------------------------------------------------------------


async def shard_of_job(request: RequestContext) -> Shard:
    """Return the shard of the job that the path names, by id or name."""
    return shard_named(request, request.http.match_info["job"])


async def shard_of_execution(request: RequestContext) -> Shard:
    """Return the shard of the execution in the path.

    Raises:
        Refused: The path has no execution id.
    """
    return request.node.shards.of_id(execution_id_of(request))


async def shard_of_job_body(request: RequestContext) -> Shard | None:
    """Return the shard of the job in the body; None if the body is malformed.

    Raises:
        Refused: The body cannot be received.
    """
    try:
        job = msgspec.json.decode(await read_content(request), type=JobName)
    except UNDECODABLE:
        return None
    if not job.name:
        request.minted_name = _minted_name(request, job.namespace, job.type or PLAIN_STEM)
    name = job.name or request.minted_name
    return request.node.shards.of_name(job.namespace, name) if name else None


def _minted_name(request: RequestContext, namespace: str, start: str) -> str:
    """Return a generated name that begins with *start*.

    A request with an idempotency key and its repetitions have the same name. Without a key, the
    name belongs to a shard that is open on this node, if one is found, so that the request is not
    forwarded. If the request is forwarded, the receiving node generates another name.
    """
    stem, shards = start[:MINTED_STEM_MAX], request.node.shards
    if key := idempotency_key(request.http):
        chosen = Idempotency(key=key, digest="", caller=request.principal.identity).scoped_key
        return f"{stem}-{blake2b(chosen.encode(), digest_size=6).hexdigest()}"
    name = ""
    for _ in range(MINTS_MAX):
        name = f"{stem}-{request.node.entropy.draw() >> 16:012x}"
        if shards.of_name(namespace, name).is_open:
            break
    return name


def shard_named(request: RequestContext, named: str) -> Shard:
    """Return the shard of the job with the id or name *named*."""
    if is_job_id(named):
        return request.node.shards.of_id(JobId(named))
    return request.node.shards.of_name(*_full_name(request, named))


def _full_name(request: RequestContext, named: str) -> tuple[str, str]:
    """Return namespace and name; a bare name belongs to the query's ``namespace``."""
    namespace, _, name = named.rpartition("/")
    return namespace or request.http.query.get("namespace", "default"), name


# -- jobs and executions --------------------------------------------------------------------------


def find_job(request: RequestContext, named: str) -> tuple[Shard, Job]:
    """Return the job with the id or name *named*, and its shard.

    A name without a namespace belongs to the namespace of the query, or to ``default``.

    Raises:
        Refused: No such job exists, or the caller lacks the operation's verb in its namespace.
    """
    shard, job = _job(request, named)
    missing = missing_job(request, named)
    request.authorize(job.spec.namespace, missing=missing, of=job.spec.full_name)
    return shard, job


def find_job_of_state(request: RequestContext) -> tuple[Shard, Job]:
    """Return the job in the path, whose state the request is about, and its shard.

    Raises:
        Refused: No such job exists, or the caller may not use its state.
    """
    named = request.http.match_info["job"]
    shard, job = _job(request, named)
    request.authorize_state(job, missing=missing_job(request, named))
    return shard, job


def written_name(request: RequestContext, named: str) -> tuple[str, str]:
    """Return namespace and name of the job *named*, which need not exist unless it is an id.

    Raises:
        Refused: *named* is an id, and as for `find_job`.
    """
    if not is_job_id(named):
        return _full_name(request, named)
    _, job = find_job(request, named)
    return job.spec.namespace, job.spec.name


def missing_job(request: RequestContext, named: str) -> Refused:
    """Return the refusal of a request about a job that does not exist, with its full name."""
    return not_found("job", named if is_job_id(named) else "/".join(_full_name(request, named)))


def _job(request: RequestContext, named: str) -> tuple[Shard, Job]:
    shards = request.node.shards
    if is_job_id(named):
        shard = shards.of_id(JobId(named))
        job = request.state(shard).jobs.get(JobId(named))
        if job is not None:
            return shard, job
    namespace, name = _full_name(request, named)
    shard = shards.of_name(namespace, name)
    if is_job_id(named) and not shard.is_open:
        # A name that looks like an id is taken as an id; with its namespace it is unambiguous.
        raise missing_job(request, named)
    state = request.state(shard)
    job_id = state.names.get(f"{namespace}/{name}")
    if job_id is None:
        raise missing_job(request, named)
    return shard, state.jobs[job_id]


def find_job_id(request: RequestContext, named: str) -> tuple[Shard, JobId]:
    """Return the shard and the id of the job *named*; an id remains valid after a deletion.

    The namespace of a deleted job is unknown, so its caller needs the verb in the whole cluster.

    Raises:
        Refused: No such job exists, or the caller lacks the operation's verb in its namespace.
    """
    try:
        shard, job = _job(request, named)
    except Refused as refusal:
        if refusal.kind is not Kind.NOT_FOUND or not is_job_id(named):
            raise
        request.authorize(EVERY, missing=refusal)
        return request.node.shards.of_id(JobId(named)), JobId(named)
    missing = missing_job(request, named)
    request.authorize(job.spec.namespace, missing=missing, of=job.spec.full_name)
    return shard, job.id


def execution_id_of(request: RequestContext) -> ExecutionId:
    """Return the execution id in the path.

    Raises:
        Refused: The path has no execution id.
    """
    text = request.http.match_info["execution"]
    if not is_execution_id(text):
        raise not_found("execution", text)
    return ExecutionId(text)
