"""Reruns of finished executions."""

from contextlib import suppress

import msgspec
from aiohttp import web

from rota.core.errors import Kind, Problem, Refused, invalid, invalid_fields
from rota.core.model.execution import Execution, ExecutionStatus
from rota.core.model.job import Job, JobSpec
from rota.core.near_names import did_you_mean
from rota.core.quoting import in_quotes
from rota.core.state.shard_state import version_key
from rota.core.vocabulary.codec import Undecodable
from rota.core.vocabulary.commands import Rerun, RerunScope
from rota.node.access.verbs import Verb
from rota.node.api.handlers.answers import check_approver
from rota.node.api.handlers.executions import created_execution, load_execution
from rota.node.api.handlers.idempotency import idempotency_under
from rota.node.api.kinds.job_types import checked_parameters
from rota.node.api.requests.authors import author_of
from rota.node.api.requests.error_codes import DECIDING, KEYED
from rota.node.api.requests.operations import IDEMPOTENCY_KEY, LOCATION, Body, Operations, Success
from rota.node.api.requests.parameters import DRY_RUN
from rota.node.api.requests.permissions import on_object
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import idempotency_key, read_body
from rota.node.api.requests.targets import execution_id_of, find_job, shard_of_execution
from rota.node.api.requests.tracing import TRACEPARENT, traceparent_of
from rota.node.api.requests.writes import write
from rota.wire import operations as api
from rota.wire.bodies.decoding_errors import escaped
from rota.wire.bodies.job_bodies import parameters_json, print_of
from rota.wire.documents import Json, RerunBody

operations = Operations("Executions")


@operations.declare(
    api.RERUN,
    Success(201, "The new execution, created.", headers=(LOCATION,)),
    permission=on_object(Verb.RUN),
    target=shard_of_execution,
    query=(DRY_RUN,),
    headers=(IDEMPOTENCY_KEY, TRACEPARENT),
    body=Body(RerunBody, is_optional=True),
    problems=(
        "execution_not_found",
        "job_not_found",
        "task_not_found",
        "not_finished",
        "nothing_to_rerun",
        "version_not_kept",
        "namespace_paused",
        "quota_exceeded",
        "overlap",
        "invalid_rerun",
        "invalid_parameters",
        *KEYED,
        "too_many_executions",
        *DECIDING,
    ),
)
async def rerun_execution(request: RequestContext) -> web.Response:
    """Run a finished execution again, as a new execution of its job.

    The tasks that are not run again are kept with their results, and the new execution names the
    earlier one in ``rerunOf``. Tasks that need a task that runs again also run again. The
    ``fireTime`` is the instant of the request.
    """
    body = await read_body(request, RerunBody, if_empty=RerunBody())
    execution_id = execution_id_of(request)
    past, tasks = await load_execution(request, execution_id)
    if not past.finished_at:
        raise Refused(
            Kind.CONFLICT,
            "not_finished",
            f"execution {execution_id} has not finished; wait for its end, or cancel it",
        )
    _, job = find_job(request, past.job_id)
    definition = _definition(request, past, job) if body.version == "same" else None
    for task in (*(definition.tasks if definition else ()), *job.spec.tasks):
        if task.name in body.mark_success:
            check_approver(request, task.wait)
    parameters = _parameters(body, past)
    if parameters is not None:
        parameters = checked_parameters(request.node.documents, job.spec, parameters)
    text = parameters_json(parameters)
    key = idempotency_key(request.http)
    digest = print_of(execution_id.encode(), msgspec.json.encode(body))
    command = Rerun(
        past=past,
        tasks=tuple(tasks.values()),
        scope=_scope(body, past),
        first=body.from_task or "",
        marked=tuple(body.mark_success),
        definition=definition,
        parameters=text,
        traceparent=traceparent_of(request.http),
        idempotency=idempotency_under(request, key, digest) if key else None,
        author=author_of(request),
    )
    made, _ = await write(request, request.shard, command)
    return created_execution(made)


def _parameters(body: RerunBody, past: Execution) -> Json:
    """Return the parameters of the new execution; None for those of the earlier execution.

    Raises:
        Refused: There are overrides, and the parameters are no object, or lack a name that is
            similar to one of theirs.
    """
    if not body.overrides:
        return body.parameters
    given = body.parameters
    if given is None:
        given = msgspec.json.decode(past.parameters or "{}")
    try:
        members = msgspec.convert(given, dict[str, Json])
    except msgspec.ValidationError as error:
        detail = "the parameters are not a JSON object; send an object in parameters as well"
        problem = Problem("/overrides", detail)
        raise invalid("invalid_rerun", str(problem), problem) from error
    problems = [
        Problem(f"/overrides/{escaped(name)}", f"there is no parameter {in_quotes(name)}; {hint}")
        for name in body.overrides
        if name not in members and (hint := did_you_mean(name, members))
    ]
    if problems:
        raise invalid_fields("invalid_rerun", problems)
    return {**members, **body.overrides}


def _scope(body: RerunBody, past: Execution) -> RerunScope:
    """Return which tasks run again.

    Raises:
        Refused: The body names a task and a set of tasks.
    """
    if body.from_task is None:
        if body.tasks is not None:
            return RerunScope(body.tasks)
        return RerunScope.ALL if past.status is ExecutionStatus.SUCCESS else RerunScope.FAILED
    if body.tasks is not None:
        detail = (
            f"fromTask is {in_quotes(body.from_task)} and tasks is {in_quotes(body.tasks)}, which "
            "cannot be combined; omit one of them"
        )
        problem = Problem("/fromTask", detail)
        raise invalid("invalid_rerun", str(problem), problem)
    return RerunScope.FROM


def _definition(request: RequestContext, past: Execution, job: Job) -> JobSpec:
    """Return the definition that an execution ran.

    Raises:
        Refused: That version of the definition was replaced, and is no longer stored.
    """
    if past.job_version == job.version:
        return job.spec
    found = request.state(request.shard).versions.get(version_key(job.id, past.job_version))
    with suppress(Undecodable):
        found = found or request.node.history.version(request.shard.id, job.id, past.job_version)
    if found is None:
        raise Refused(
            Kind.CONFLICT,
            "version_not_kept",
            f"version {past.job_version} of job {in_quotes(job.spec.full_name)} is no longer "
            f"stored; run version {job.version} with --latest (version `latest`)",
        )
    return found
