"""Idempotency keys of writes to jobs.

A key belongs to one request, which is identified by its caller, method, path, conditions and the
bytes of its body. The id of the job that the path names does not identify the request: a job that
is deleted and created again has the same name and another id, and a late repetition of the deletion
must not delete the new job. The key is therefore looked up before the job.
"""

from collections.abc import Callable

from rota.core.decide.idempotency import answered
from rota.core.model.job import Job
from rota.core.vocabulary.commands import Command, Idempotency
from rota.core.vocabulary.decision import Reply
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import idempotency_key, read_content
from rota.node.api.requests.targets import find_job
from rota.node.api.requests.writes import Written, repeated, write
from rota.wire.bodies.job_bodies import print_of

CONDITIONS = ("If-Match", "If-None-Match")


async def idempotency_of(request: RequestContext) -> Idempotency | None:
    """Return the key of *request* and the fingerprint that identifies it; None without a key.

    Raises:
        Refused: The key is invalid, or the body cannot be read.
    """
    key = idempotency_key(request.http)
    if not key:
        return None
    identity = [request.http.method, request.http.path]
    identity.append(request.http.query.get("namespace", ""))
    identity += [", ".join(request.http.headers.getall(name, [])) for name in CONDITIONS]
    content = await read_content(request)
    digest = print_of(*(each.encode(errors="replace") for each in identity), content)
    return idempotency_under(request, key, digest)


def idempotency_under(request: RequestContext, key: str, digest: str) -> Idempotency:
    """Return the identification of *request* under the key that its caller chose.

    The key belongs to the caller: equal keys of different callers are different keys.
    """
    return Idempotency(key=key, caller=request.principal.identity, digest=digest)


def earlier_reply(
    request: RequestContext, idempotency: Idempotency | None
) -> tuple[Reply, Written] | None:
    """Return the first reply to a repeated request; None if the request is no repetition.

    Nothing is written.

    Raises:
        Refused: Code ``idempotency_key_reused``: the key was used for another request.
    """
    if idempotency is None:
        return None
    shard = request.shard
    reply = answered(request.state(shard), idempotency, shard.time(request.node.clock))
    if reply is None:
        return None
    request.note_authorized()
    return reply, repeated(request, reply)


async def write_once(
    request: RequestContext, command_of: Callable[[Job, Idempotency | None], Command]
) -> tuple[Reply, Written]:
    """Write the job in the path, unless the request was answered before.

    Args:
        request: The request, whose target is `shard_of_job`.
        command_of: Makes the command, given the job and the idempotency key.

    Raises:
        Refused: The job does not exist, the command is refused, or the node accepts no requests
            now.
    """
    idempotency = await idempotency_of(request)
    earlier = earlier_reply(request, idempotency)
    if earlier is not None:
        return earlier
    shard, job = find_job(request, request.http.match_info["job"])
    return await write(request, shard, command_of(job, idempotency))
