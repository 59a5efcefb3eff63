"""Operations on jobs: create, read, delete, trigger, preview of fire times, ledger."""

from itertools import islice

import msgspec
from aiohttp import web
from msgspec.structs import replace

from rota.core.errors import Problem, invalid_fields, not_found
from rota.core.model.ids import JobId
from rota.core.model.job import Job, JobPlan
from rota.core.state.shard_state import State
from rota.core.timing.instants import (
    MICROSECOND,
    SECOND,
    Instant,
    format_instant,
    later,
    parse_instant,
)
from rota.core.vocabulary.commands import DeleteJob, Idempotency, SaveJob, Trigger
from rota.core.vocabulary.decision import JobSaved, Reply
from rota.node.access.verbs import Verb
from rota.node.api.documents.job_warnings import warnings_of
from rota.node.api.documents.omitted_output import job_without_definition
from rota.node.api.documents.record_views import (
    hook_retry_view,
    ledger_entry_view,
    view_of,
)
from rota.node.api.handlers.executions import created_execution
from rota.node.api.handlers.hook_warnings import hook_warnings
from rota.node.api.handlers.idempotency import idempotency_under, write_once
from rota.node.api.handlers.job_references import resolve
from rota.node.api.handlers.job_versions import replaced_version
from rota.node.api.handlers.last_executions import (
    last_execution,
    recent_outcomes,
    with_last_execution,
)
from rota.node.api.handlers.namespace_defaults import with_namespace
from rota.node.api.kinds.job_types import checked_parameters, with_template
from rota.node.api.requests.authors import author_of
from rota.node.api.requests.error_codes import DECIDING, KEYED, READING
from rota.node.api.requests.operations import (
    ETAG,
    IDEMPOTENCY_KEY,
    IF_MATCH,
    LOCATION,
    Body,
    Operations,
    Success,
)
from rota.node.api.requests.parameters import (
    DRY_RUN,
    FROM,
    LIMIT,
    TO,
    choice,
    instant,
    text,
    whole_number,
    whole_number_or,
)
from rota.node.api.requests.permissions import on_object
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import (
    document,
    expected_version,
    idempotency_key,
    read_body,
    read_job,
)
from rota.node.api.requests.targets import (
    find_job,
    find_job_id,
    shard_of_job,
    shard_of_job_body,
)
from rota.node.api.requests.tracing import TRACEPARENT, traceparent_of
from rota.node.api.requests.writes import Written, write
from rota.node.shards.shard import Shard
from rota.node.system.pacing import Pace, paced
from rota.wire import operations as api
from rota.wire.bodies.field_reader import Hints
from rota.wire.bodies.job_bodies import parameters_json, print_of, reading
from rota.wire.bodies.schedule_bodies import next_fire_view
from rota.wire.documents import (
    JobBody,
    JobView,
    LedgerEntryView,
    LedgerPage,
    NextFires,
    NextFireView,
    TriggerBody,
    TriggerItem,
)

operations = Operations("Jobs")
FIRES_SHOWN = 5
"""The number of next fire times in the answer to a request that saves a job."""
NEXT_MAX = 1_000
NAMESPACE = text(
    "namespace", "The namespace of a job that is given by its name alone; `default` if omitted."
)
VERSION = whole_number("version", "The version to show; the present one if omitted.", most=1 << 53)
COUNT = whole_number_or(10, "count", "The number of fire times.", most=NEXT_MAX)
AFTER = instant("after", "Only fire times after this instant; now if omitted.")
ORDER = choice(
    "order", "Oldest first (`asc`, the default) or newest first (`desc`).", ["asc", "desc"]
)
LEDGER_CURSOR = instant("cursor", "The `nextCursor` of the previous page.")


@operations.declare(
    api.CREATE_JOB,
    Success(201, "The job, created.", headers=(LOCATION, ETAG)),
    Success(200, "The existing job, which has the same definition.", headers=(ETAG,)),
    permission=on_object(Verb.WRITE),
    target=shard_of_job_body,
    query=(DRY_RUN,),
    headers=(IDEMPOTENCY_KEY,),
    body=Body(JobBody),
    problems=(
        "invalid_job",
        "past_schedule",
        "unknown_type",
        "unknown_namespace",
        "policy_violation",
        "namespace_paused",
        "quota_exceeded",
        "unknown_calendar",
        "unknown_secret",
        "unknown_dependency",
        *KEYED,
        "job_exists",
        "job_not_found",
        "too_many_jobs",
        "outbox_full",
        *DECIDING,
    ),
)
async def create_job(request: RequestContext) -> web.Response:
    """Create a job.

    A job with the same name and the same definition is left unchanged and returned with status 200.
    A different definition under the same name is refused.
    """
    body = await read_job(request)
    shard, command = await creation_of(request, body, idempotency_key(request.http))
    return await saved_document(request, *await write(request, shard, command))


@operations.declare(
    api.GET_JOB,
    Success(200, "The job.", headers=(ETAG,)),
    permission=on_object(Verb.READ),
    target=shard_of_job,
    query=(NAMESPACE, VERSION),
    problems=("job_not_found", "version_not_found", *READING),
)
async def get_job(request: RequestContext) -> web.Response:
    """Show a job, or a replaced version of it."""
    shard, job = find_job(request, request.http.match_info["job"])
    version = VERSION.of(request)
    if version not in (None, job.version):
        shown = await replaced_version(request, shard, job, version)
        return document(shown, headers={"ETag": f'"{version}"'})
    view = _job_view(request, job.id, request.state(shard))
    last = last_execution(request, job.id)
    shown = with_last_execution(request, view, job, last)
    plan, now = request.state(shard).plans[job.id], request.node.clock.now()
    shown = replace(
        shown,
        next_fires=await fires_after(request, job, plan, _unpaused(job, now), FIRES_SHOWN),
        recent=await recent_outcomes(request, job.id),
        retrying_hooks=list(map(hook_retry_view, request.node.hook_retries(shard.id, job.id))),
    )
    return document(shown, headers={"ETag": f'"{view.version}"'})


@operations.declare(
    api.DELETE_JOB,
    Success(204, "The job is deleted."),
    permission=on_object(Verb.WRITE),
    target=shard_of_job,
    query=(NAMESPACE, DRY_RUN),
    headers=(IDEMPOTENCY_KEY, IF_MATCH),
    problems=("job_not_found", "version_mismatch", "invalid_if_match", *KEYED, *DECIDING),
)
async def delete_job(request: RequestContext) -> web.Response:
    """Delete a job.

    Its unfinished executions are cancelled. Its finished executions and its ledger remain until
    their retention ends, and can be read by the job's id.
    """

    def deletion(job: Job, idempotency: Idempotency | None) -> DeleteJob:
        return DeleteJob(
            job_id=job.id,
            if_version=expected_version(request.http),
            idempotency=idempotency,
            author=author_of(request),
        )

    await write_once(request, deletion)
    return web.Response(status=204)


@operations.declare(
    api.TRIGGER_JOB,
    Success(201, "The execution, created.", headers=(LOCATION,)),
    permission=on_object(Verb.RUN),
    target=shard_of_job,
    query=(NAMESPACE, DRY_RUN),
    headers=(IDEMPOTENCY_KEY, TRACEPARENT),
    body=Body(TriggerBody, is_optional=True),
    problems=(
        "job_not_found",
        "namespace_paused",
        "quota_exceeded",
        "overlap",
        "invalid_parameters",
        *KEYED,
        "too_many_executions",
        *DECIDING,
    ),
)
async def trigger_job(request: RequestContext) -> web.Response:
    """Run a job now.

    The execution starts without waiting for a schedule or for dependencies. Its ``status`` in the
    response is always ``queued``.
    """
    body = await read_body(request, TriggerBody, if_empty=TriggerBody())
    named, key = request.http.match_info["job"], idempotency_key(request.http)
    shard, command = await trigger_of(request, named, body, key)
    made, _ = await write(request, shard, command)
    return created_execution(made)


@operations.declare(
    api.NEXT_FIRES,
    Success(200, "The next fire times, earliest first."),
    permission=on_object(Verb.READ),
    target=shard_of_job,
    query=(NAMESPACE, COUNT, AFTER),
    problems=("job_not_found", *READING),
)
async def next_fires(request: RequestContext) -> web.Response:
    """Preview the next fire times of all schedules of a job."""
    shard, job = find_job(request, request.http.match_info["job"])
    after = AFTER.of(request)
    after = _unpaused(job, request.node.clock.now()) if after is None else after
    plan = request.state(shard).plans[job.id]
    return document(
        NextFires(items=await fires_after(request, job, plan, after, COUNT.of(request)))
    )


@operations.declare(
    api.LEDGER,
    Success(200, "A page of the ledger."),
    permission=on_object(Verb.READ),
    target=shard_of_job,
    query=(NAMESPACE, FROM, TO, ORDER, LIMIT, LEDGER_CURSOR),
    problems=("job_not_found", *READING),
)
async def read_ledger(request: RequestContext) -> web.Response:
    """Show the outcome of each fire time of a job.

    The ledger of a deleted job can be read by the job's id. Entries with the same fire time are on
    one page, which may therefore be longer than ``limit``.
    """
    named = request.http.match_info["job"]
    shard, job_id = find_job_id(request, named)
    limit, cursor = LIMIT.of(request), LEDGER_CURSOR.of(request)
    since, until = FROM.of(request), TO.of(request)
    newest_first = ORDER.of(request) == "desc"
    # A cursor is the first fire time of the next page.
    if cursor is not None and newest_first:
        until = min(until, later(cursor, MICROSECOND))
    elif cursor is not None:
        since = max(since, cursor)
    history = await request.history(shard)
    job = request.state(shard).jobs.get(job_id)
    job_name = job.spec.full_name if job else None
    items: list[LedgerEntryView] = []
    next_cursor = None
    entries = history.ledger(shard.id, job_id, since, until, newest_first=newest_first)
    for entry in entries:
        view = ledger_entry_view(entry, job_id, job_name)
        # A page ends between fire times: the entries of one may be of several schedules.
        if len(items) >= limit and view.fire_time != items[-1].fire_time:
            next_cursor = view.fire_time
            break
        items.append(view)
    return document(LedgerPage(items=items, next_cursor=next_cursor))


async def fires_after(
    request: RequestContext, job: Job, plan: JobPlan, after: Instant, count: int
) -> list[NextFireView]:
    """Return the next *count* fire times of a job after an instant, earliest first.

    Among them are the first ones of excluded stretches, at most *count*.
    """
    pace, items, now = Pace(), list[NextFireView](), request.node.clock.now()
    numbers = range(len(plan.next_fires))
    # Fire times after now may have been decided, while a clock was ahead.
    is_from_now = after >= now - SECOND
    since = [_since(plan, number, after, now) if is_from_now else after for number in numbers]
    fires = request.node.facts.present().coming(job.spec, since, plan.begun)
    for number, fire, start in islice(fires, 2 * count):
        count -= not fire.excluded
        items.append(next_fire_view(number, fire, start))
        if not count:
            break
        await pace.rest()
    return items


def _since(plan: JobPlan, number: int, after: Instant, now: Instant) -> Instant:
    """Return the instant after which the fire times of a schedule are shown from *after* on.

    A fire that is deferred is shown until it starts, later than its fire time.
    """
    at, start = plan.next_fires[number], plan.starts[number] if plan.starts else Instant(0)
    if at is None or max(at, start) <= now:
        return after
    before = Instant(at - MICROSECOND)
    return max(after, before) if at > now else before


def _unpaused(job: Job, now: Instant) -> Instant:
    """Return *now* or, if the job is paused until a later instant, one just before that."""
    until = job.pause.until if job.pause else Instant(0)
    return max(now, Instant(until - MICROSECOND))


async def saved_document(request: RequestContext, saved: Reply, written: Written) -> web.Response:
    """Return the response to a request that wrote a job, or that repeats such a request.

    Status and version are those of the first response; the rest is the current job. If the job has
    changed since the first response, the old version makes a later ``If-Match`` fail, so that the
    client does not overwrite that change unnoticed. A caller without the verb ``read`` gets no
    definition.

    Raises:
        Refused: The job has been deleted since the first response, or the caller has lost the
            operation's verb in its namespace.
    """
    assert isinstance(saved, JobSaved), saved
    view = await saved_view(request, saved.job_id, saved.version, written)
    request.authorize(view.namespace, missing=not_found("job", saved.job_id))
    headers = {"ETag": f'"{view.version}"'}
    if saved.is_new:
        headers["Location"] = f"/api/v1/jobs/{saved.job_id}"
    return document(view, status=201 if saved.is_new else 200, headers=headers)


async def saved_view(
    request: RequestContext, job_id: JobId, version: int, written: Written
) -> JobView:
    """Return a saved job, with warnings and the next fire times.

    Args:
        request: The request; a caller without the verb ``read`` gets no definition.
        job_id: The job.
        version: Its version in the response; 0 for the present one.
        written: What the request wrote.

    Raises:
        Refused: The job does not exist.
    """
    state = written.state(request.node.shards.of_id(job_id))
    view = _job_view(request, job_id, state)
    view = replace(view, version=version or view.version)
    if not request.may(Verb.READ, view.namespace):
        return job_without_definition(view)
    job = state.jobs[job_id]
    warnings = await warnings_of(job.spec, request.node)
    warnings += await hook_warnings(request, job.spec)
    now = request.node.clock.now()
    fires = await fires_after(request, job, state.plans[job.id], now, FIRES_SHOWN)
    return replace(view, warnings=warnings, next_fires=fires)


def _job_view(request: RequestContext, job_id: JobId, state: State) -> JobView:
    """Return the complete document of a job.

    Raises:
        Refused: The job does not exist.
    """
    job = state.jobs.get(job_id)
    if job is None:
        raise not_found("job", job_id)
    return view_of(state, job, request.node.facts.present(), is_complete=True)


async def creation_of(
    request: RequestContext, body: JobBody, key: str, hints: Hints | None = None
) -> tuple[Shard, SaveJob]:
    """Return the command that creates the job *body*, and the shard that decides it.

    Args:
        request: The request.
        body: The job.
        key: The idempotency key; empty for none.
        hints: The hints that are left for a request with several jobs.

    Raises:
        Refused: The job is invalid, a dependency does not exist, this node does not have a task
            type, or the caller lacks permission.
    """
    request.authorize(body.namespace, of=f"{body.namespace}/{body.name}")
    typed = with_template(request.node.documents, body)
    whole = with_namespace(request.node.namespaces, typed.body)
    has_defaults = whole is not typed.body
    runs_on_request = _runs_on_request(whole)
    # A job with neither type nor name is a one-off job; with a schedule, it lacks its name.
    is_nameless = bool(request.minted_name) and (bool(typed.job_type) or runs_on_request)
    is_unknown = body.type is not None and body.type not in request.node.attempts.types
    if request.minted_name and (is_nameless or is_unknown):
        # A job with an unknown type gets a name too, so that the error is about the type.
        whole = replace(whole, name=request.minted_name)
    is_one_off = is_nameless and runs_on_request
    if is_one_off:
        whole = replace(whole, schedule=f"@at {format_instant(request.node.clock.now())}")
    spec = await paced(reading(whole, hints, job_type=typed.job_type, is_one_off=is_one_off))
    shard = request.node.shards.of_name(spec.namespace, spec.name)
    # The primary checks the task types: it runs the tasks.
    shard.check_open()
    spec = await resolve(request, spec)
    # With template or defaults, only the sent fields: these may differ in a repetition.
    sent = body if typed.job_type or has_defaults else spec
    idempotency = (
        idempotency_under(request, key, print_of(msgspec.msgpack.encode(sent))) if key else None
    )
    may_be_past = is_one_off or body.misfire is not None
    return shard, SaveJob(
        spec=spec, idempotency=idempotency, may_be_past=may_be_past, author=author_of(request)
    )


def _runs_on_request(body: JobBody) -> bool:
    """Return True if a job has neither schedules, nor dependencies, nor triggers."""
    starts = (body.schedules, body.dependencies, body.triggers)
    return body.schedule is None and not any(starts)


async def trigger_of(
    request: RequestContext, named: str, body: TriggerBody | TriggerItem, key: str
) -> tuple[Shard, Trigger]:
    """Return the command that triggers the job *named*, and the shard that decides it.

    Args:
        request: The request; the execution belongs to its trace.
        named: The job's id or name.
        body: The parameters that replace those of the job, and the fire time.
        key: The idempotency key; empty for none.

    Raises:
        Refused: The job does not exist, the caller lacks permission, the parameters are too long or
            do not match their schema, or the fire time is not an instant.
    """
    shard, job = find_job(request, named)
    text = parameters_json(checked_parameters(request.node.documents, job.spec, body.parameters))
    fire_at = _fire_at(body.fire_time)
    parts = (job.id.encode(), text.encode(), *((b"%d" % fire_at,) if fire_at else ()))
    idempotency = idempotency_under(request, key, print_of(*parts)) if key else None
    traceparent = traceparent_of(request.http)
    return shard, Trigger(
        job_id=job.id,
        parameters=text,
        fire_at=fire_at,
        traceparent=traceparent,
        idempotency=idempotency,
        author=author_of(request),
    )


def _fire_at(text: str | None) -> Instant:
    """Return the instant in *text*; 0 for None.

    Raises:
        Refused: Code ``invalid_parameters``.
    """
    try:
        return Instant(0) if text is None else parse_instant(text)
    except ValueError as error:
        raise invalid_fields("invalid_parameters", [Problem("/fireTime", str(error))]) from error
