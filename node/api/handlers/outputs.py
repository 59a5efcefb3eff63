"""Output of attempts: from the node that ran them, or from their records."""

import logging
from collections.abc import AsyncIterator, Mapping

from aiohttp import web

from rota.core.errors import Kind, Refused, invalid, not_found
from rota.core.model.attempt import Attempt, AttemptKey
from rota.core.model.execution import Task
from rota.core.model.ids import NAME_RULE, ExecutionId, is_execution_id, is_step_name
from rota.core.near_names import did_you_mean
from rota.core.quoting import in_quotes
from rota.executor.executor import Output
from rota.node.access.open_streams import AccessEnded
from rota.node.access.verbs import Verb
from rota.node.api.forwarding.request_forwarding import forward_to
from rota.node.api.handlers.executions import load_execution
from rota.node.api.requests.error_codes import READING
from rota.node.api.requests.node_headers import KEPT, KEPT_FROM
from rota.node.api.requests.operations import TEXT, Operations, Success
from rota.node.api.requests.parameters import flag, number_in, whole_number
from rota.node.api.requests.permissions import on_object
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.stopping import STOPPING, NodeStopping
from rota.node.api.requests.targets import execution_id_of, shard_of_execution
from rota.node.shards.shard import Shard
from rota.wire import operations as api

log = logging.getLogger(__name__)

operations = Operations("Executions")
NUMBER_MAX = 2_000_000
LISTED_MAX = 10
"""The most tasks or attempts that an error lists."""
ATTEMPT = whole_number(
    "attempt", "The number of the attempt; the latest if omitted.", most=NUMBER_MAX
)
FOLLOW = flag("follow", "Continue until the attempt ends.")


async def _shard_to_read(request: RequestContext) -> Shard | None:
    """Return the shard of the execution; None on the node that ran the attempt."""
    return None if _is_from_primary(request) else await shard_of_execution(request)


def _is_from_primary(request: RequestContext) -> bool:
    """Return True if the shard's primary requests output that this node stores.

    The primary has authorized the client's request.
    """
    return request.is_forwarded and KEPT in request.http.headers


@operations.declare(
    api.OUTPUT,
    Success(200, "The output of the attempt.", media_types=(TEXT,)),
    permission=on_object(Verb.LOGS),
    target=_shard_to_read,
    query=(ATTEMPT, FOLLOW),
    problems=("execution_not_found", "task_not_found", "attempt_not_found", *READING),
)
async def read_output(request: RequestContext) -> web.StreamResponse:
    """Stream the output of an attempt.

    The node that ran the attempt stores the first 10 MiB for some time; afterwards, the last 4096
    bytes are returned. For a running attempt, the output so far is returned. An attempt that has
    not started is reported as not found.

    If the node stops while output is followed, or the key of the caller ends, the response is cut
    off before its end, and an HTTP client reports it as incomplete. Send the request again.
    """
    node = request.node
    execution_id = execution_id_of(request)
    if _is_from_primary(request):
        request.note_authorized()
        return await _stored_output(request, execution_id)
    _, tasks = await load_execution(request, execution_id)
    name = request.http.match_info["task"]
    if name in tasks and tasks[name].kept_from:
        # The output belongs to the execution in which the task ran, and expires with it.
        execution_id = tasks[name].kept_from
        _, tasks = await load_execution(request, execution_id)
    if name not in tasks:
        raise _no_task(name, tasks)
    attempt, is_followed = _attempt_of(request, tasks[name]), FOLLOW.of(request)
    key = AttemptKey(execution_id, name, attempt.number)
    stored = await node.attempts.output(key)
    if stored is None and attempt.node_id != node.config.node_id:
        headers = {KEPT: str(attempt.number), KEPT_FROM: execution_id}
        response = await forward_to(request, attempt.node_id, **headers)
        if response is not None:
            return response
    if stored is None:
        content = await _recorded_output(request, key)
        return web.Response(body=content, content_type="text/plain", charset="utf-8")
    if request.http.method == "HEAD":
        return web.Response(content_type="text/plain", charset="utf-8")
    return await _stream(request, stored.follow() if is_followed else _written(stored))


async def _stored_output(request: RequestContext, execution_id: ExecutionId) -> web.StreamResponse:
    """Return the output of an attempt that ran on this node, to the primary of its shard.

    Raises:
        Refused: The header or the task's name is malformed; or the output is no longer stored here,
            and the primary returns the end of the output from the attempt's record.
    """
    name = request.http.match_info["task"]
    if not is_step_name(name):
        raise _no_task(name, {})
    try:
        number = number_in(request.http.headers[KEPT], least=1, most=NUMBER_MAX)
    except ValueError as error:
        raise invalid("invalid_query", f"the header {KEPT}: {error}") from error
    kept_from = request.http.headers.get(KEPT_FROM, execution_id)
    if not is_execution_id(kept_from):
        detail = f"the header {KEPT_FROM}: {in_quotes(kept_from)} is not the id of an execution"
        raise invalid("invalid_query", detail)
    execution_id = ExecutionId(kept_from)
    stored = await request.node.attempts.output(AttemptKey(execution_id, name, number))
    if stored is None:
        raise _no_attempt(number, name, "its output is no longer stored on this node")
    return await _stream(request, stored.follow() if FOLLOW.of(request) else _written(stored))


def _attempt_of(request: RequestContext, task: Task) -> Attempt:
    number = ATTEMPT.of(request) or (task.attempts[-1].number if task.attempts else 1)
    attempt = _numbered(task, number)
    if attempt is None:
        numbers = [str(each.number) for each in task.attempts]
        exist = (
            f"the attempts of the task are {_listed(numbers)}" if numbers else "none has started"
        )
        raise _no_attempt(number, task.name, exist)
    return attempt


def _no_attempt(number: int, task: str, why: str) -> Refused:
    detail = f"there is no attempt {number} of the task {in_quotes(task)}; {why}"
    return Refused(Kind.NOT_FOUND, "attempt_not_found", detail)


def _no_task(name: str, tasks: Mapping[str, Task]) -> Refused:
    exist = f"the tasks of the execution are {_listed(list(tasks))}" if tasks else NAME_RULE
    return not_found("task", name, did_you_mean(name, tasks) or exist)


def _listed(names: list[str]) -> str:
    left_out = len(names) - LISTED_MAX
    return ", ".join(names[:LISTED_MAX]) + (f" and {left_out:,} more" if left_out > 0 else "")


def _numbered(task: Task, number: int) -> Attempt | None:
    """Return an attempt by its number; attempts of stand-ins have higher numbers."""
    return next((each for each in task.attempts if each.number == number), None)


async def _recorded_output(request: RequestContext, key: AttemptKey) -> bytes:
    """Return the output in the attempt's record, read again as the attempt may have ended."""
    ending = request.node.attempts.ending(key)
    if ending is None:
        _, tasks = await load_execution(request, key.execution_id)
        attempt = _numbered(tasks[key.task], key.number)
        ending = attempt.ending if attempt else None
    return ending.output if ending else b""


async def _written(output: Output) -> AsyncIterator[bytes]:
    """Yield the output so far."""
    offset = 0
    while part := await output.read(offset):
        offset += len(part)
        yield part


async def _stream(request: RequestContext, parts: AsyncIterator[bytes]) -> web.StreamResponse:
    response = web.StreamResponse()
    response.content_type = "text/plain"
    response.charset = "utf-8"
    await request.start(response)
    try:
        async with (
            request.node.access.streams.interrupting(request.principal),
            request.http.app[STOPPING].interrupting(),
        ):
            async for part in parts:
                # A slow client delays this loop alone: parts are read on demand.
                await response.write(part)
            await response.write_eof()
    except ConnectionError:
        raise
    except (NodeStopping, AccessEnded):
        _cut_off(request, response)
    except OSError:
        log.exception("output cut short", extra={"path": request.http.path})
        _cut_off(request, response)
    return response


def _cut_off(request: RequestContext, response: web.StreamResponse) -> None:
    """Close the connection, so that the client notices that its response is incomplete."""
    response.force_close()
    if request.http.transport is not None:
        request.http.transport.close()
