"""Writes of jobs that may come again: asked with a key, answered before, or about to be written.

A request is told from another under the same key by all that it says: who asks, the method, the
address, the conditions, the body to the byte. What the address stands for by now is no part of it:
a job that was deleted and made again has the same name and another id, and a late copy of the first
deletion must not find it. So it is looked whether the key was answered before the job is.
"""

from collections.abc import Callable

from aiohttp import web

from rota.core.decide.idempotency import answered
from rota.core.model.job import Job
from rota.core.vocabulary.commands import Command, Idempotency
from rota.core.vocabulary.decision import Reply
from rota.node.api.documents.job_bodies import print_of
from rota.node.api.requests.access import PRINCIPAL, Verb, check
from rota.node.api.requests.request_reader import (
    CONTEXT,
    find_job,
    idempotency_key,
    read_content,
    shard_named,
)
from rota.node.api.routing.writes import Written, write
from rota.node.shards.shard import Shard

CONDITIONS = ("If-Match", "If-None-Match")


async def idempotency_of(request: web.Request) -> Idempotency | None:
    """Return what makes *request* safe to repeat, if it has a key.

    Raises:
        Refused: Its key cannot be one, or its body cannot be read.
    """
    key = idempotency_key(request)
    if not key:
        return None
    told = [request[PRINCIPAL].name, request.method, request.path]
    told.append(request.query.get("namespace", ""))
    told += [", ".join(request.headers.getall(name, [])) for name in CONDITIONS]
    content = await read_content(request)
    return Idempotency(
        key=key, digest=print_of(*(each.encode(errors="replace") for each in told), content)
    )


async def answer_before(
    request: web.Request, shard: Shard, idempotency: Idempotency | None
) -> tuple[Reply, Written] | None:
    """Return the recorded reply to a repeated request, of which nothing is written; else None.

    Raises:
        Refused: Code ``idempotency_key_reused``: the key was used for another request; or this node
            may not answer for *shard*.
    """
    if idempotency is None:
        return None
    context = request.app[CONTEXT]
    reply = answered(shard.state, idempotency, shard.time(context.clock))
    if reply is None:
        return None
    # Memory may be ahead of what is committed.
    await context.shards.settled(shard)
    return reply, Written([reply], {}, {})


async def write_once(
    request: web.Request, command_of: Callable[[Job, Idempotency | None], Command]
) -> tuple[Reply, Written]:
    """Have the job that the path names written, unless the request has been answered before.

    Args:
        request: By whom it is asked.
        command_of: Makes the command, given the job and what goes with it to be repeatable.

    Raises:
        Refused: There is no such job; by the decision, or because it cannot be taken.
    """
    named, idempotency = request.match_info["job"], await idempotency_of(request)
    before = await answer_before(request, shard_named(request, named), idempotency)
    if before is not None:
        return before
    shard, job = find_job(request, named)
    check(request, Verb.WRITE, job.spec.namespace)
    return await write(request, shard, command_of(job, idempotency))
