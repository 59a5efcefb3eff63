"""The state of a job: list, read, set and delete values."""

import msgspec
from aiohttp import web

from rota.core.decide.job_state import present
from rota.core.errors import Kind, Problem, Refused, invalid_fields, not_found
from rota.core.model.ids import NAME_RULE, ExecutionId, JobId, is_name
from rota.core.model.job_state import VALUE_BYTES_MAX, StateEntry
from rota.core.near_names import did_you_mean
from rota.core.quoting import in_quotes
from rota.core.state.shard_state import State
from rota.core.vocabulary.commands import DeleteState, PutState
from rota.core.vocabulary.decision import StateSaved
from rota.node.access.verbs import Verb
from rota.node.api.documents.record_views import state_view
from rota.node.api.handlers.jobs import NAMESPACE
from rota.node.api.requests.authors import author_of
from rota.node.api.requests.error_codes import DECIDING, READING
from rota.node.api.requests.operations import (
    ETAG,
    IF_MATCH,
    IF_NONE_MATCH,
    Body,
    Operations,
    Success,
)
from rota.node.api.requests.parameters import DRY_RUN
from rota.node.api.requests.permissions import on_object
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import (
    document,
    expected_version,
    read_body,
    written_version,
)
from rota.node.api.requests.targets import find_job_of_state, shard_of_job
from rota.node.api.requests.writes import write
from rota.wire import operations as api
from rota.wire.documents import StateBody, StateList

operations = Operations("State of jobs")


@operations.declare(
    api.LIST_STATE,
    Success(200, "The values, by key."),
    permission=on_object(Verb.LOGS),
    target=shard_of_job,
    query=(NAMESPACE,),
    problems=("job_not_found", *READING),
)
async def list_state(request: RequestContext) -> web.Response:
    """List the state of a job: at most 1,000 values, and 1 MiB in all."""
    shard, job = find_job_of_state(request)
    found = present(request.state(shard), job.id)
    return document(StateList(items=[state_view(found[key]) for key in sorted(found)]))


@operations.declare(
    api.GET_STATE,
    Success(200, "The value.", headers=(ETAG,)),
    permission=on_object(Verb.LOGS),
    target=shard_of_job,
    query=(NAMESPACE,),
    problems=("job_not_found", "state_not_found", *READING),
)
async def get_state(request: RequestContext) -> web.Response:
    """Show a value of the state of a job: the one of the newest acknowledged change."""
    shard, job = find_job_of_state(request)
    return _answer(request.state(shard), job.id, request.http.match_info["key"])


@operations.declare(
    api.PUT_STATE,
    Success(200, "The value, set.", headers=(ETAG,)),
    permission=on_object(Verb.RUN),
    target=shard_of_job,
    query=(NAMESPACE, DRY_RUN),
    headers=(IF_MATCH, IF_NONE_MATCH),
    body=Body(StateBody),
    problems=(
        "job_not_found",
        "execution_not_found",
        "task_not_found",
        "invalid_state",
        "state_full",
        "state_held",
        "not_forward",
        "version_mismatch",
        "invalid_if_match",
        "invalid_if_none_match",
        *DECIDING,
    ),
)
async def put_state(request: RequestContext) -> web.Response:
    """Set a value of the state of a job.

    With ``If-Match``, only if it has that revision; with ``If-None-Match: *``, only if it does not
    exist. With ``executionId``, and ``task``, the value ends with that unfinished execution of the
    job, or task of it, and only that one can change it: a lock.
    """
    shard, job = find_job_of_state(request)
    body = await read_body(request, StateBody)
    key = request.http.match_info["key"]
    own = request.principal.attempt
    if own is not None and (body.execution_id or own.execution_id) != own.execution_id:
        raise _not_own(f"execution {body.execution_id}")
    if own is not None and (body.task or own.task) != own.task:
        raise _not_own(f"task {body.task}")
    if body.only_forward and request.is_dry_run and own is None:
        # Many of these would find out the value.
        request.require(Verb.LOGS, job.spec.namespace)
    command = PutState(
        job_id=job.id,
        key=key,
        value=_checked(key, body),
        if_revision=written_version(request.http),
        is_forward=body.only_forward,
        holder=ExecutionId(body.execution_id or ""),
        holding_task=body.task or "",
        author=author_of(request),
    )
    # Not from the state, which another caller may have changed meanwhile.
    saved, _ = await write(request, shard, command)
    assert isinstance(saved, StateSaved), saved
    return _document(saved.entry)


@operations.declare(
    api.DELETE_STATE,
    Success(204, "The value is deleted, or did not exist."),
    permission=on_object(Verb.RUN),
    target=shard_of_job,
    query=(NAMESPACE, DRY_RUN),
    headers=(IF_MATCH,),
    problems=("job_not_found", "version_mismatch", "invalid_if_match", *DECIDING),
)
async def delete_state(request: RequestContext) -> web.Response:
    """Delete a value of the state of a job, also one that an execution holds."""
    shard, job = find_job_of_state(request)
    key, own = request.http.match_info["key"], request.principal.attempt
    entry = present(request.state(shard), job.id).get(key)
    if own is not None and entry is not None and entry.holder:
        holder = entry.holder, entry.holding_task or own.task
        if holder != (own.execution_id, own.task):
            raise _not_own(entry.holding_task or entry.holder)
    command = DeleteState(
        job_id=job.id,
        key=key,
        if_revision=expected_version(request.http),
        author=author_of(request),
    )
    await write(request, shard, command)
    return web.Response(status=204)


def _not_own(holder: str) -> Refused:
    detail = f"a task makes and releases its own locks alone, not those of {holder}"
    return Refused(Kind.FORBIDDEN, "forbidden", detail)


def _checked(key: str, body: StateBody) -> bytes:
    """Return the value as JSON.

    Raises:
        Refused: It is too long, or *key* is not a name.
    """
    problems: list[Problem] = []
    if body.task and not body.execution_id:
        problems.append(Problem("/task", "give executionId, too"))
    if not is_name(key):
        problems.append(Problem("", f"the key {in_quotes(key)} is not a name: {NAME_RULE}"))
    value = msgspec.json.encode(body.value)
    if len(value) > VALUE_BYTES_MAX:
        detail = f"has {len(value):,} bytes as JSON; at most {VALUE_BYTES_MAX:,} are allowed"
        problems.append(Problem("/value", detail))
    if problems:
        raise invalid_fields("invalid_state", problems)
    return value


def _answer(state: State, job_id: JobId, key: str) -> web.Response:
    found = present(state, job_id)
    if key not in found:
        raise not_found("state", key, did_you_mean(key, found), about="value")
    return _document(found[key])


def _document(entry: StateEntry) -> web.Response:
    return document(state_view(entry), headers={"ETag": f'"{entry.revision}"'})
