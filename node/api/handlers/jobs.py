"""Jobs: create, read, delete, trigger; their coming fire times and their ledger."""

from itertools import islice

import msgspec
from aiohttp import web

from rota.core.errors import not_found
from rota.core.model.execution import ExecutionStatus
from rota.core.model.ids import JobId, job_of
from rota.core.model.job import Job
from rota.core.state.shard_state import State
from rota.core.timing.instants import MICROSECOND, later
from rota.core.timing.schedule import coming
from rota.core.vocabulary.commands import DeleteJob, Idempotency, SaveJob, Trigger
from rota.core.vocabulary.decision import JobSaved, Reply, Triggered
from rota.node.api.documents.field_reader import Hints
from rota.node.api.documents.job_bodies import parameters_json, print_of, reading
from rota.node.api.documents.views import ledger_entry_view, next_fire_view, view_of
from rota.node.api.handlers.idempotency import write_once
from rota.node.api.handlers.job_references import resolve
from rota.node.api.requests.access import Verb, check
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
from rota.node.api.requests.pacing import Pace, paced
from rota.node.api.requests.parameters import (
    DRY_RUN,
    FROM,
    LIMIT,
    TO,
    choice,
    instant,
    text,
    whole_number_or,
)
from rota.node.api.requests.request_reader import (
    CONTEXT,
    document,
    expected_version,
    find_job,
    find_job_id,
    idempotency_key,
    read_body,
    read_job,
)
from rota.node.api.requests.tracing import TRACEPARENT, traceparent_of
from rota.node.api.routing.writes import Written, write
from rota.node.context import NodeContext
from rota.node.shards.shard import Shard
from rota.wire.documents import (
    JobBody,
    JobView,
    Json,
    LedgerEntryView,
    LedgerPage,
    NextFires,
    NextFireView,
    TriggerBody,
    TriggeredView,
)

operations = Operations("Jobs")
NEXT_MAX = 1_000
NAMESPACE = text("namespace", "Where to look for a job's bare name; by default in `default`.")
COUNT = whole_number_or(10, "count", "How many fire times.", most=NEXT_MAX)
AFTER = instant("after", "Fire times after it; by default now.")
ORDER = choice("order", "Oldest first (`asc`, as by default) or newest (`desc`).", ["asc", "desc"])
LEDGER_CURSOR = instant("cursor", "The `nextCursor` of the page before.")


@operations.declare(
    "POST",
    "/api/v1/jobs",
    Success(201, "The job, created.", JobView, headers=(LOCATION, ETAG)),
    Success(200, "The job that is there, if its definition is the same.", JobView, headers=(ETAG,)),
    query=(DRY_RUN,),
    headers=(IDEMPOTENCY_KEY,),
    body=Body(JobBody),
    problems=(
        "invalid_job",
        "past_schedule",
        "unknown_type",
        "unknown_dependency",
        *KEYED,
        "job_exists",
        "job_not_found",
        "too_many_jobs",
        "letters_waiting",
        *DECIDING,
    ),
)
async def create_job(request: web.Request) -> web.Response:
    """Create a job.

    The same definition again does nothing, and gets 200 with the job that is there; another one
    under the same name is refused.
    """
    body = await read_job(request)
    shard, command = await creation_of(request, body, idempotency_key(request))
    return await saved_document(request, *await write(request, shard, command))


@operations.declare(
    "GET",
    "/api/v1/jobs/{job}",
    Success(200, "The job.", JobView, headers=(ETAG,)),
    query=(NAMESPACE,),
    problems=("job_not_found", *READING),
)
async def get_job(request: web.Request) -> web.Response:
    """Show a job."""
    shard, job = find_job(request, request.match_info["job"])
    check(request, Verb.READ, job.spec.namespace)
    view = await _job_view(request.app[CONTEXT], job.id, shard.state)
    return document(view, headers={"ETag": f'"{view.version}"'})


@operations.declare(
    "DELETE",
    "/api/v1/jobs/{job}",
    Success(204, "It is deleted.", media_types=()),
    query=(NAMESPACE, DRY_RUN),
    headers=(IDEMPOTENCY_KEY, IF_MATCH),
    problems=("job_not_found", "version_mismatch", "invalid_if_match", *KEYED, *DECIDING),
)
async def delete_job(request: web.Request) -> web.Response:
    """Delete a job.

    Its unfinished executions are cancelled. Its finished ones and its ledger stay for as long as
    they are kept; they are found by the job's id.
    """

    def deletion(job: Job, idempotency: Idempotency | None) -> DeleteJob:
        return DeleteJob(
            job_id=job.id, if_version=expected_version(request), idempotency=idempotency
        )

    await write_once(request, deletion)
    return web.Response(status=204)


@operations.declare(
    "POST",
    "/api/v1/jobs/{job}/trigger",
    Success(201, "The execution, made.", TriggeredView, headers=(LOCATION,)),
    query=(NAMESPACE, DRY_RUN),
    headers=(IDEMPOTENCY_KEY, TRACEPARENT),
    body=Body(TriggerBody, is_optional=True),
    problems=(
        "job_not_found",
        "overlap",
        "invalid_parameters",
        *KEYED,
        "too_many_executions",
        *DECIDING,
    ),
)
async def trigger_job(request: web.Request) -> web.Response:
    """Run a job now.

    The execution waits neither for a schedule nor for dependencies. Its ``status`` is always
    ``queued``.
    """
    body = await read_body(request, TriggerBody, if_empty=TriggerBody())
    named, key = request.match_info["job"], idempotency_key(request)
    shard, command = trigger_of(request, named, body.parameters, key)
    made, _ = await write(request, shard, command)
    assert isinstance(made, Triggered)
    view = TriggeredView(
        execution_id=made.execution_id,
        job_id=job_of(made.execution_id),
        status=ExecutionStatus.QUEUED.value,
    )
    return document(
        view,
        status=201,
        headers={"Location": f"/api/v1/executions/{made.execution_id}"},
    )


@operations.declare(
    "GET",
    "/api/v1/jobs/{job}/next",
    Success(200, "The coming fire times, earliest first.", NextFires),
    query=(NAMESPACE, COUNT, AFTER),
    problems=("job_not_found", *READING),
)
async def next_fires(request: web.Request) -> web.Response:
    """Preview the coming fire times of all schedules of a job, together."""
    shard, job = find_job(request, request.match_info["job"])
    check(request, Verb.READ, job.spec.namespace)
    context = request.app[CONTEXT]
    count = COUNT.of(request)
    asked = AFTER.of(request)
    after = context.clock.now() if asked is None else asked
    await context.shards.settled(shard)
    pace, items = Pace(), list[NextFireView]()
    for number, preview in islice(coming(job.spec.schedules, after), count):
        items.append(next_fire_view(number, preview))
        await pace.rest()
    return document(NextFires(items=items))


@operations.declare(
    "GET",
    "/api/v1/jobs/{job}/ledger",
    Success(200, "A page of the ledger.", LedgerPage),
    query=(NAMESPACE, FROM, TO, ORDER, LIMIT, LEDGER_CURSOR),
    problems=("job_not_found", *READING),
)
async def read_ledger(request: web.Request) -> web.Response:
    """Show what became of each fire time of a job.

    By the job's id it works after the job is deleted, too. Entries with the same fire time stay on
    one page, which may so be longer than ``limit``.
    """
    context = request.app[CONTEXT]
    named = request.match_info["job"]
    shard, job_id = find_job_id(request, named)
    check(request, Verb.READ, request.query.get("namespace", "default"))
    limit, cursor = LIMIT.of(request), LEDGER_CURSOR.of(request)
    since, until = FROM.of(request), TO.of(request)
    newest_first = ORDER.of(request) == "desc"
    # A cursor is the fire time to go on with.
    if cursor is not None and newest_first:
        until = min(until, later(cursor, MICROSECOND))
    elif cursor is not None:
        since = max(since, cursor)
    await context.shards.settled(shard)
    items: list[LedgerEntryView] = []
    next_cursor = None
    entries = context.history.ledger(shard.id, job_id, since, until, newest_first=newest_first)
    for entry in entries:
        view = ledger_entry_view(entry)
        # A page ends between instants, so that several schedules' entries of one stay together.
        if len(items) >= limit and view.fire_time != items[-1].fire_time:
            next_cursor = view.fire_time
            break
        items.append(view)
    return document(LedgerPage(items=items, next_cursor=next_cursor))


async def saved_document(request: web.Request, saved: Reply, written: Written) -> web.Response:
    """Return the response to a request that wrote a job, at first or to a repetition.

    Its status and its version are those of the first; the rest is the job as it is now. So a change
    that others have made since is not overwritten unnoticed: ``If-Match`` is refused then.

    Raises:
        Refused: It has been deleted.
    """
    assert isinstance(saved, JobSaved), saved
    context = request.app[CONTEXT]
    state = written.state(context.shards.of_id(saved.job_id))
    view = await _job_view(context, saved.job_id, state)
    version = saved.version or view.version
    headers = {"ETag": f'"{version}"'}
    if saved.is_new:
        headers["Location"] = f"/api/v1/jobs/{saved.job_id}"
    shown = msgspec.structs.replace(view, version=version)
    return document(shown, status=201 if saved.is_new else 200, headers=headers)


async def _job_view(context: NodeContext, job_id: JobId, state: State) -> JobView:
    """Return a job of *state* whole.

    Raises:
        Refused: It has been deleted.
    """
    job = state.jobs.get(job_id)
    view = view_of(state, job, is_whole=True) if job else None
    # Memory may be ahead of what is committed.
    await context.shards.settled(context.shards.of_id(job_id))
    if view is None:
        raise not_found("job", job_id)
    return view


async def creation_of(
    request: web.Request, body: JobBody, key: str, hints: Hints | None = None
) -> tuple[Shard, SaveJob]:
    """Return the command that creates the job *body*, and for whom it is.

    Args:
        request: By whom it is asked.
        body: The job.
        key: The idempotency key, or empty.
        hints: Those left of the request, if it has several jobs.

    Raises:
        Refused: It is not a job that could work here, or its namespace is not theirs.
    """
    check(request, Verb.WRITE, body.namespace)
    spec = await paced(reading(body, hints))
    shard = request.app[CONTEXT].shards.of_name(spec.namespace, spec.name)
    # Its primary says whether it could work: that node is to run it.
    shard.check_open()
    spec = await resolve(request, spec)
    idempotency = (
        Idempotency(key=key, digest=print_of(msgspec.msgpack.encode(spec))) if key else None
    )
    return shard, SaveJob(spec=spec, idempotency=idempotency, may_be_past=body.misfire is not None)


def trigger_of(
    request: web.Request, named: str, parameters: Json, key: str
) -> tuple[Shard, Trigger]:
    """Return the command that triggers the job *named*, and for whom it is.

    Args:
        request: By whom it is asked; its trace goes with the execution.
        named: An id or a name.
        parameters: In place of the job's.
        key: The idempotency key, or empty.

    Raises:
        Refused: There is no such job, it is not theirs to run, or the parameters are too long.
    """
    shard, job = find_job(request, named)
    check(request, Verb.RUN, job.spec.namespace)
    text = parameters_json(parameters)
    idempotency = (
        Idempotency(key=key, digest=print_of(job.id.encode(), text.encode())) if key else None
    )
    traceparent = traceparent_of(request)
    return shard, Trigger(
        job_id=job.id, parameters=text, traceparent=traceparent, idempotency=idempotency
    )
