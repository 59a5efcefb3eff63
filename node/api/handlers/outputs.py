"""What attempts wrote: from where they run, or from their records."""

import logging
from collections.abc import AsyncIterator

from aiohttp import web

from rota.core.errors import invalid, not_found
from rota.core.model.attempt import Attempt, AttemptKey
from rota.core.model.execution import Task
from rota.core.model.ids import ExecutionId, is_name
from rota.executor.executor import Output
from rota.node.api.handlers.executions import load_execution
from rota.node.api.requests import request_reader
from rota.node.api.requests.access import Verb, check
from rota.node.api.requests.error_codes import READING
from rota.node.api.requests.operations import TEXT, Operations, Success
from rota.node.api.requests.parameters import flag, number_in, whole_number
from rota.node.api.requests.request_reader import CONTEXT
from rota.node.api.requests.stopping import STOPPING, Stops
from rota.node.api.routing.forwarding import forward_to
from rota.node.context import NodeContext

log = logging.getLogger(__name__)

operations = Operations("Executions")
NUMBER_MAX = 2_000_000
ATTEMPT = whole_number("attempt", "The attempt's number; by default the latest.", most=NUMBER_MAX)
KEPT = "Rota-Kept"
"""The header of a question to the node that ran an attempt: its number, of which nothing but what
that node has kept is wanted. It is asked by the shard's primary, also on behalf of another node."""
FOLLOW = flag("follow", "Go on until the attempt has ended.")


@operations.declare(
    "GET",
    "/api/v1/executions/{execution}/tasks/{task}/output",
    Success(200, "What the attempt wrote.", media_types=(TEXT,)),
    query=(ATTEMPT, FOLLOW),
    problems=("execution_not_found", "task_not_found", "attempt_not_found", *READING),
)
async def read_output(request: web.Request) -> web.StreamResponse:
    """Stream what an attempt wrote.

    The first 10 MiB where they still are, else the last 4096 bytes. While the attempt runs, what it
    has written so far. An attempt that has not started yet is not found.

    If the node stops while it is followed, the answer is broken off, which HTTP lets a client see,
    and not ended: ask again.
    """
    check(request, Verb.READ, "*")
    context = request.app[CONTEXT]
    execution_id = request_reader.execution_id_of(request)
    if KEPT in request.headers:
        return await _kept_here(request, execution_id)
    _, tasks = await load_execution(context, execution_id)
    name = request.match_info["task"]
    if name not in tasks:
        raise not_found("task", name)
    attempt, is_followed = _attempt_of(request, tasks[name]), FOLLOW.of(request)
    key = AttemptKey(execution_id, name, attempt.number)
    kept = await context.attempts.output(key)
    if kept is None and attempt.node_id != context.config.node_id:
        elsewhere = await forward_to(request, attempt.node_id, **{KEPT: str(attempt.number)})
        if elsewhere is not None:
            return elsewhere
    if kept is None:
        content = await _recorded(context, key)
        return web.Response(body=content, content_type="text/plain", charset="utf-8")
    if request.method == "HEAD":
        return web.Response(content_type="text/plain", charset="utf-8")
    return await _stream(request, kept.follow() if is_followed else _written(kept))


async def _kept_here(request: web.Request, execution_id: ExecutionId) -> web.StreamResponse:
    """Return what an attempt wrote that ran here, for a shard that another node decides for.

    Raises:
        Refused: The header or the name cannot be an attempt's; or it is not here: that node has
            its end in the attempt's record.
    """
    name = request.match_info["task"]
    if not is_name(name):
        raise not_found("task", name)
    try:
        number = number_in(request.headers[KEPT], least=1, most=NUMBER_MAX)
    except ValueError as error:
        raise invalid("invalid_query", f"{KEPT}: {error}") from error
    kept = await request.app[CONTEXT].attempts.output(AttemptKey(execution_id, name, number))
    if kept is None:
        raise not_found("attempt", f"{number} of task {name}")
    return await _stream(request, kept.follow() if FOLLOW.of(request) else _written(kept))


def _attempt_of(request: web.Request, task: Task) -> Attempt:
    number = ATTEMPT.of(request) or (task.attempts[-1].number if task.attempts else 1)
    attempt = _numbered(task, number)
    if attempt is None:
        raise not_found("attempt", f"{number} of task {task.name}")
    return attempt


def _numbered(task: Task, number: int) -> Attempt | None:
    """Return an attempt by its number; those of stand-ins do not begin at 1."""
    return next((each for each in task.attempts if each.number == number), None)


async def _recorded(context: NodeContext, key: AttemptKey) -> bytes:
    """Return the output in the attempt's record, which may have been made only just now."""
    ending = context.attempts.ending(key)
    if ending is None:
        _, tasks = await load_execution(context, key.execution_id)
        attempt = _numbered(tasks[key.task], key.number)
        ending = attempt.ending if attempt else None
    return ending.output if ending else b""


async def _written(output: Output) -> AsyncIterator[bytes]:
    """Yield what is written by now."""
    offset = 0
    while part := await output.read(offset):
        offset += len(part)
        yield part


async def _stream(request: web.Request, context: AsyncIterator[bytes]) -> web.StreamResponse:
    response = web.StreamResponse()
    response.content_type = "text/plain"
    response.charset = "utf-8"
    await response.prepare(request)
    try:
        async with request.app[STOPPING].heard():
            async for part in context:
                # A slow reader holds up this loop and nothing else: parts are read when asked for.
                await response.write(part)
            await response.write_eof()
    except ConnectionError:
        raise
    except Stops:
        _break_off(request, response)
    except OSError:
        log.exception("output cut short", extra={"path": request.path})
        _break_off(request, response)
    return response


def _break_off(request: web.Request, response: web.StreamResponse) -> None:
    """Let the client see that this is not the end of the output, too late for another answer."""
    response.force_close()
    if request.transport is not None:
        request.transport.close()
