"""Operations that change jobs: replace, patch, pause, resume.

A job's version is its entity tag. ``If-Match`` makes a change depend on it (RFC 9110), so that two
people who edit the same job do not overwrite each other's changes unnoticed.
"""

from collections.abc import Mapping
from typing import cast

import msgspec
from aiohttp import web
from msgspec.structs import replace

from rota.core.errors import Kind, Problem, Refused, invalid, invalid_fields
from rota.core.model.job import Job, JobSpec
from rota.core.quoting import in_quotes
from rota.core.timing.instants import Instant, parse_instant
from rota.core.vocabulary.commands import Idempotency, PauseJob, ResumeJob, SaveJob
from rota.core.vocabulary.decision import Reply
from rota.node.access.verbs import Verb
from rota.node.api.documents.job_definitions import definition_of
from rota.node.api.handlers.idempotency import earlier_reply, idempotency_of, write_once
from rota.node.api.handlers.job_references import resolve
from rota.node.api.handlers.jobs import NAMESPACE, saved_document
from rota.node.api.handlers.namespace_defaults import with_namespace
from rota.node.api.kinds.job_types import with_template
from rota.node.api.requests.authors import author_of
from rota.node.api.requests.error_codes import DECIDING, KEYED
from rota.node.api.requests.job_decoding import decoded_job
from rota.node.api.requests.operations import (
    ETAG,
    IDEMPOTENCY_KEY,
    IF_MATCH,
    IF_NONE_MATCH,
    LOCATION,
    Body,
    Operations,
    Success,
)
from rota.node.api.requests.parameters import DRY_RUN
from rota.node.api.requests.permissions import on_object
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import (
    expected_version,
    read_body,
    read_object,
    written_version,
)
from rota.node.api.requests.targets import find_job, shard_of_job, written_name
from rota.node.api.requests.writes import Written, write
from rota.node.system.pacing import paced
from rota.wire import operations as api
from rota.wire.bodies.job_bodies import reading
from rota.wire.documents import JobBody, Json, PauseBody

operations = Operations("Jobs")
CHANGING = (
    "invalid_job",
    "past_schedule",
    "invalid_if_match",
    "unknown_type",
    "unknown_namespace",
    "policy_violation",
    "unknown_calendar",
    "unknown_secret",
    "unknown_dependency",
    "version_mismatch",
    "catching_up",
    "outbox_full",
    *KEYED,
    *DECIDING,
)
PATCHES_MAX = 30
"""How often a patch is tried while other requests change the job."""


@operations.declare(
    api.PUT_JOB,
    Success(200, "The job, replaced or unchanged.", headers=(ETAG,)),
    Success(201, "The job, created.", headers=(LOCATION, ETAG)),
    permission=on_object(Verb.WRITE),
    target=shard_of_job,
    query=(NAMESPACE, DRY_RUN),
    headers=(IDEMPOTENCY_KEY, IF_MATCH, IF_NONE_MATCH),
    body=Body(JobBody, in_path=("namespace", "name")),
    problems=(
        *CHANGING,
        "invalid_if_none_match",
        "job_not_found",
        "quota_exceeded",
        "too_many_jobs",
    ),
)
async def put_job(request: RequestContext) -> web.Response:
    """Create or replace the job with this name.

    A replacement is the job's next version; sending the same definition changes nothing. Unfinished
    executions keep the version that they started with. An unchanged schedule keeps its next fire
    time. Fire times that are already due get their outcome under the old definition.
    """
    namespace, name = written_name(request, request.http.match_info["job"])
    request.authorize(namespace)
    content = await read_object(request)
    for field, value in (("name", name), ("namespace", namespace)):
        if content.setdefault(field, value) != value:
            given = in_quotes(msgspec.json.encode(content[field]).decode().strip('"'))
            detail = (
                f"{field} is {given} in the body and {in_quotes(value)} in the path; they must be "
                "the same"
            )
            raise invalid("invalid_job", detail, Problem(f"/{field}", detail))
    idempotency = await idempotency_of(request)
    saved = earlier_reply(request, idempotency)
    if saved is None:
        made = await _definition_in(request, content)
        saved = await _save(request, made, written_version(request.http), idempotency)
    return await saved_document(request, *saved)


@operations.declare(
    api.PATCH_JOB,
    Success(200, "The job, changed.", headers=(ETAG,)),
    permission=on_object(Verb.WRITE),
    target=shard_of_job,
    query=(NAMESPACE, DRY_RUN),
    headers=(IDEMPOTENCY_KEY, IF_MATCH),
    body=Body(JobBody, is_patch=True),
    problems=(*CHANGING, "job_not_found"),
)
async def patch_job(request: RequestContext) -> web.Response:
    """Change some fields of a job's definition.

    The body is a JSON merge patch (RFC 7396) of the job's ``definition``: the fields of the body
    replace those of the definition, and null removes a field. A job cannot be renamed.
    """
    patch, idempotency = await read_object(request), await idempotency_of(request)
    named, expected = request.http.match_info["job"], expected_version(request.http)
    saved = earlier_reply(request, idempotency)
    if saved is None:
        saved = await _patched(request, named, patch, expected, idempotency)
    return await saved_document(request, *saved)


async def _patched(
    request: RequestContext,
    named: str,
    patch: dict[str, Json],
    expected: int | None,
    idempotency: Idempotency | None,
) -> tuple[Reply, Written]:
    for _ in range(PATCHES_MAX):
        _, job = find_job(request, named)
        # An object merged with an object is one.
        content = cast(
            "dict[str, Json]", merged(msgspec.to_builtins(definition_of(job.spec)), patch)
        )
        _check_name(content, job.spec)
        made = await _definition_in(request, content)
        try:
            return await _save(
                request, made, job.version if expected is None else expected, idempotency
            )
        except Refused as refusal:
            if refusal.kind is not Kind.PRECONDITION or expected is not None:
                raise
    # Not 412: a client without If-Match expects no particular version.
    detail = f"other requests changed the job {PATCHES_MAX} times during this one; try again"
    raise Refused(Kind.UNAVAILABLE, "busy", detail, retry_after_s=1)


def _check_name(content: Mapping[str, Json], spec: JobSpec) -> None:
    """Check that a patched definition still names its job, before anything else is looked at.

    The errors of later checks depend on the document of the namespace in *content*.

    Raises:
        Refused: The definition has another name or namespace.
    """
    for field, value in (("name", spec.name), ("namespace", spec.namespace)):
        if content.get(field, "default") != value:
            detail = (
                f"the job {in_quotes(spec.full_name)} cannot be renamed; create a new job and "
                "delete this one"
            )
            raise invalid("invalid_job", detail, Problem(f"/{field}", detail))


@operations.declare(
    api.PAUSE_JOB,
    Success(200, "The job, paused.", headers=(ETAG,)),
    permission=on_object(Verb.RUN),
    target=shard_of_job,
    query=(NAMESPACE, DRY_RUN),
    headers=(IDEMPOTENCY_KEY,),
    body=Body(PauseBody, is_optional=True),
    problems=("job_not_found", *KEYED, *DECIDING),
)
async def pause_job(request: RequestContext) -> web.Response:
    """Pause a job: its schedules and dependencies create no executions until it is resumed.

    Its fire times are recorded as ``paused`` in the ledger, with the reason. Running executions
    continue, and the job can still be triggered. Successes of the jobs that it depends on are kept
    for later. Pausing a paused job changes nothing, unless ``until`` gives it another end.
    """
    body = await read_body(request, PauseBody, if_empty=PauseBody())
    author = author_of(request)
    until = _end_of(body, request.node.clock.now())

    def pause(job: Job, idempotency: Idempotency | None) -> PauseJob:
        return PauseJob(
            job_id=job.id,
            by=author.principal,
            reason=body.reason,
            until=until,
            idempotency=idempotency,
            author=author,
        )

    return await saved_document(request, *await write_once(request, pause))


def _end_of(body: PauseBody, now: Instant) -> Instant:
    """Return when a pause ends by itself; 0 for never.

    Raises:
        Refused: It is no instant, or not in the future.
    """
    if body.until is None:
        return Instant(0)
    try:
        until = parse_instant(body.until)
    except ValueError as error:
        raise invalid_fields("invalid_body", [Problem("/until", str(error))]) from error
    if until <= now:
        detail = f"{body.until} has passed; give a later instant"
        raise invalid_fields("invalid_body", [Problem("/until", detail)])
    return until


@operations.declare(
    api.RESUME_JOB,
    Success(200, "The job, resumed.", headers=(ETAG,)),
    permission=on_object(Verb.RUN),
    target=shard_of_job,
    query=(NAMESPACE, DRY_RUN),
    headers=(IDEMPOTENCY_KEY,),
    problems=("job_not_found", *KEYED, *DECIDING),
)
async def resume_job(request: RequestContext) -> web.Response:
    """Resume a paused job, from its next fire time on.

    If its dependencies succeeded while it was paused, it runs immediately. If its schedules skip
    fire times because the clock was ahead, they count from now again, also if it is not paused.
    """

    def resumption(job: Job, idempotency: Idempotency | None) -> ResumeJob:
        return ResumeJob(job_id=job.id, idempotency=idempotency, author=author_of(request))

    return await saved_document(request, *await write_once(request, resumption))


def merged(target: Json, patch: Json) -> Json:
    """Return *target* with *patch* merged in; null removes a member (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(cast("dict[str, Json]", target)) if isinstance(target, dict) else {}
    for name, value in cast("dict[str, Json]", patch).items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


async def _save(
    request: RequestContext, made: SaveJob, expected: int | None, idempotency: Idempotency | None
) -> tuple[Reply, Written]:
    shard = request.node.shards.of_name(made.spec.namespace, made.spec.name)
    command = replace(made, may_replace=True, if_version=expected, idempotency=idempotency)
    return await write(request, shard, command)


async def _definition_in(request: RequestContext, content: dict[str, Json]) -> SaveJob:
    """Return the command that saves the job *content*."""
    body = await paced(decoded_job(msgspec.json.encode(content)))
    typed = with_template(request.node.documents, body)
    whole = with_namespace(request.node.namespaces, typed.body)
    spec = await paced(reading(whole, job_type=typed.job_type))
    request.node.shards.of_name(spec.namespace, spec.name).check_open()
    spec = await resolve(request, spec)
    may_be_past = body.misfire is not None
    return SaveJob(spec=spec, may_be_past=may_be_past, author=author_of(request))
