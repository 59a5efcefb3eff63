"""Jobs: create, read, list, delete, trigger; their coming fire times and their ledger."""

import msgspec
from aiohttp import web

from rota.client.wire import (
    JobBody,
    JobList,
    JobView,
    LedgerEntryView,
    LedgerPage,
    NextFires,
    NextFireView,
    TriggerBody,
    TriggeredView,
)
from rota.core.commands import Ask, DeleteJob, SaveJob, Trigger
from rota.core.decision import JobSaved, Triggered
from rota.core.errors import Problem, invalid, not_found
from rota.core.execution import ExecutionStatus
from rota.core.ids import JobId, is_job_id, job_of
from rota.core.instants import LATEST_INSTANT, Instant
from rota.core.job import Job, JobSpec
from rota.core.schedule import preview
from rota.node.api.access import Verb, check
from rota.node.api.bodies import job_spec, parameters_json, print_of
from rota.node.api.requests import (
    PARTS,
    check_query,
    document,
    expected_version,
    find_job,
    find_job_id,
    idempotency_key,
    instant_of,
    limit_of,
    number_of,
    read_body,
)
from rota.node.api.views import job_view, ledger_entry_view, next_fire_views
from rota.node.parts import Parts
from rota.node.shards import Shard, Shards

routes = web.RouteTableDef()
NEXT_MAX = 1_000


@routes.post("/api/v1/jobs")
async def create_job(request: web.Request) -> web.Response:
    """Create a job: 201, or 200 if this very job is already there."""
    check_query(request)
    body = await read_body(request, JobBody)
    check(request, Verb.WRITE, body.namespace)
    parts = request.app[PARTS]
    spec = resolve(parts, job_spec(body))
    key = idempotency_key(request)
    ask = Ask(key=key, print=print_of(msgspec.msgpack.encode(spec))) if key else None
    shard = parts.shards.of_name(spec.namespace, spec.name)
    saved = await parts.shards.ask(shard, SaveJob(spec=spec, ask=ask))
    assert isinstance(saved, JobSaved)
    return await job_document(parts, saved.job_id, is_new=saved.is_new)


@routes.get("/api/v1/jobs")
async def list_jobs(request: web.Request) -> web.Response:
    """List jobs by name."""
    check_query(request, "namespace", "q", "limit", "cursor")
    namespace, word = request.query.get("namespace"), request.query.get("q", "")
    check(request, Verb.READ, namespace or "*")
    limit, cursor = limit_of(request), request.query.get("cursor", "")
    shards = request.app[PARTS].shards
    found = sorted(
        (name, shard, job_id)
        for shard in shards
        for name, job_id in shard.state.names.items()
        if name > cursor and word in name and (namespace is None or _is_in(name, namespace))
    )
    page = [_view(shard, shard.state.jobs[job_id]) for _, shard, job_id in found[:limit]]
    await shards.settled()
    next_cursor = found[limit - 1][0] if len(found) > limit else None
    return document(JobList(items=page, next_cursor=next_cursor))


@routes.get("/api/v1/jobs/{job}")
async def get_job(request: web.Request) -> web.Response:
    """Show one job."""
    check_query(request, "namespace")
    _, job = find_job(request, request.match_info["job"])
    check(request, Verb.READ, job.spec.namespace)
    return await job_document(request.app[PARTS], job.id)


@routes.delete("/api/v1/jobs/{job}")
async def delete_job(request: web.Request) -> web.Response:
    """Delete a job; its unfinished executions are cancelled, its history stays."""
    check_query(request, "namespace")
    shard, job = find_job(request, request.match_info["job"])
    check(request, Verb.WRITE, job.spec.namespace)
    command = DeleteJob(job_id=job.id, if_version=expected_version(request))
    await request.app[PARTS].shards.ask(shard, command)
    return web.Response(status=204)


@routes.post("/api/v1/jobs/{job}/trigger")
async def trigger_job(request: web.Request) -> web.Response:
    """Make one execution now."""
    check_query(request, "namespace")
    shard, job = find_job(request, request.match_info["job"])
    check(request, Verb.RUN, job.spec.namespace)
    body = await read_body(request, TriggerBody, if_empty=TriggerBody())
    parameters = parameters_json(body.parameters)
    key = idempotency_key(request)
    ask = Ask(key=key, print=print_of(job.id.encode(), parameters.encode())) if key else None
    command = Trigger(job_id=job.id, parameters=parameters, ask=ask)
    made = await request.app[PARTS].shards.ask(shard, command)
    assert isinstance(made, Triggered)
    view = TriggeredView(
        execution_id=made.execution_id,
        job_id=job_of(made.execution_id),
        status=ExecutionStatus.QUEUED.value,
    )
    return document(
        view,
        status=201 if made.is_new else 200,
        headers={"Location": f"/api/v1/executions/{made.execution_id}"},
    )


@routes.get("/api/v1/jobs/{job}/next")
async def next_fires(request: web.Request) -> web.Response:
    """Preview the coming fire times of all schedules of a job."""
    check_query(request, "namespace", "count", "after")
    _, job = find_job(request, request.match_info["job"])
    check(request, Verb.READ, job.spec.namespace)
    parts = request.app[PARTS]
    count = number_of(request, "count", default=10, most=NEXT_MAX)
    after = instant_of(request, "after", parts.clock.now())
    await parts.shards.settled()
    coming: list[NextFireView] = []
    for number, schedule in enumerate(job.spec.schedules):
        coming += next_fire_views(number, preview(schedule, after, count))
    coming.sort(key=lambda fire: fire.at)
    return document(NextFires(items=coming[:count]))


@routes.get("/api/v1/jobs/{job}/ledger")
async def read_ledger(request: web.Request) -> web.Response:
    """Show what became of each fire time of a job; an id works after the job is deleted too."""
    check_query(request, "namespace", "from", "to", "limit", "cursor")
    parts = request.app[PARTS]
    named = request.match_info["job"]
    shard, job_id = find_job_id(request, named)
    check(request, Verb.READ, request.query.get("namespace", "default"))
    limit = limit_of(request)
    since = instant_of(request, "cursor", instant_of(request, "from", Instant(0)))
    until = instant_of(request, "to", LATEST_INSTANT)
    await parts.shards.settled()
    items: list[LedgerEntryView] = []
    next_cursor = None
    for entry in parts.history.ledger(shard.id, job_id, since, until):
        view = ledger_entry_view(entry)
        # A page ends between instants, so that several schedules' entries of one stay together.
        if len(items) >= limit and view.fire_time != items[-1].fire_time:
            next_cursor = view.fire_time
            break
        items.append(view)
    return document(LedgerPage(items=items, next_cursor=next_cursor))


async def job_document(parts: Parts, job_id: JobId, *, is_new: bool = False) -> web.Response:
    """Return the response that shows a job whole, with its version as its entity tag.

    Raises:
        Refused: It has been deleted.
    """
    shard = parts.shards.of_id(job_id)
    job = shard.state.jobs.get(job_id)
    view = _view(shard, job, is_whole=True) if job else None
    # Memory may be ahead of what is committed.
    await parts.shards.settled()
    if view is None:
        raise not_found("job", job_id)
    headers = {"ETag": f'"{view.version}"'}
    if is_new:
        headers["Location"] = f"/api/v1/jobs/{job_id}"
    return document(view, status=201 if is_new else 200, headers=headers)


def _view(shard: Shard, job: Job, *, is_whole: bool = False) -> JobView:
    latest = None
    for execution_id in shard.state.live_of(job.id):
        latest = shard.state.executions[execution_id]
    return job_view(job, shard.state.plans[job.id], latest, is_whole=is_whole)


def _is_in(full_name: str, namespace: str) -> bool:
    return full_name.startswith(f"{namespace}/")


def resolve(parts: Parts, spec: JobSpec) -> JobSpec:
    """Return *spec* with each dependency, a name or an id, as a full name.

    Raises:
        Refused: Code ``unknown_dependency``: there is no such job; code ``unknown_type``: this
            node cannot run a task's type.
    """
    _check_types(parts, spec)
    full_names: list[str] = []
    problems: list[Problem] = []
    for number, named in enumerate(spec.dependencies):
        namespace, _, name = named.rpartition("/")
        by_id = _job_by_id(name, parts.shards)
        if by_id is not None:
            full_names.append(by_id.spec.full_name)
        elif named in parts.shards.of_name(namespace, name).state.names:
            full_names.append(named)
        else:
            problems.append(
                Problem(f"/dependencies/{number}", f"there is no job {named!r}; create it first")
            )
    if problems:
        raise invalid("unknown_dependency", "; ".join(map(str, problems)), *problems)
    return msgspec.structs.replace(spec, dependencies=tuple(full_names))


def _check_types(parts: Parts, spec: JobSpec) -> None:
    known = sorted(parts.attempts.types)
    problems = [
        Problem(
            f"/tasks/{number}/type" if len(spec.tasks) > 1 else "/type",
            f"there is no type {task.work.executor!r} here; there are {', '.join(known)}",
        )
        for number, task in enumerate(spec.tasks)
        if task.work.executor not in known
    ]
    if problems:
        raise invalid("unknown_type", "; ".join(map(str, problems)), *problems)


def _job_by_id(named: str, shards: Shards) -> Job | None:
    if not is_job_id(named):
        return None
    job_id = JobId(named)
    return shards.of_id(job_id).state.jobs.get(job_id)
