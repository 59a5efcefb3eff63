"""Jobs that exist are changed: replaced, patched, paused, resumed.

A job's version is its entity tag: ``If-Match`` makes a change depend on it (RFC 9110), so that two
people who edit the same job cannot overwrite each other unnoticed.
"""

from typing import cast

import msgspec
from aiohttp import web

from rota.client.wire import JobBody, Json, PauseBody
from rota.core.commands import PauseJob, ResumeJob, SaveJob
from rota.core.decision import JobSaved
from rota.core.errors import Kind, Problem, Refused, invalid
from rota.core.job import JobSpec
from rota.node.api.access import PRINCIPAL, Verb, check
from rota.node.api.bodies import job_spec
from rota.node.api.definitions import definition_of
from rota.node.api.jobs import job_document, resolve
from rota.node.api.requests import (
    PARTS,
    check_query,
    decode_body,
    expected_version,
    find_job,
    read_body,
    read_object,
)

routes = web.RouteTableDef()
PATCHES_MAX = 3
"""How often a patch is applied anew because somebody else changed the job meanwhile."""


@routes.put("/api/v1/jobs/{namespace}/{name}")
async def put_job(request: web.Request) -> web.Response:
    """Create the job of this name, or replace it; ``If-Match`` and ``If-None-Match: *`` hold."""
    check_query(request)
    namespace, name = request.match_info["namespace"], request.match_info["name"]
    check(request, Verb.WRITE, namespace)
    content = await read_object(request)
    for field, value in (("name", name), ("namespace", namespace)):
        if content.setdefault(field, value) != value:
            detail = f"is {content[field]!r}, but the address says {value!r}"
            raise invalid("invalid_job", f"{field} {detail}", Problem(f"/{field}", detail))
    spec = _spec_of(request, content)
    return await _save(request, spec, expected_version(request))


@routes.patch("/api/v1/jobs/{job}")
async def patch_job(request: web.Request) -> web.Response:
    """Change some fields of a job's definition (JSON merge patch, RFC 7396)."""
    check_query(request, "namespace")
    patch = await read_object(request)
    expected = expected_version(request)
    for attempt in range(PATCHES_MAX):
        _, job = find_job(request, request.match_info["job"])
        check(request, Verb.WRITE, job.spec.namespace)
        content = merged(msgspec.to_builtins(definition_of(job.spec)), patch)
        spec = _spec_of(request, cast("dict[str, Json]", content))
        if spec.full_name != job.spec.full_name:
            detail = f"a job keeps its name {job.spec.full_name!r}; create another one instead"
            raise invalid("invalid_job", detail, Problem("/name", detail))
        try:
            return await _save(request, spec, job.version if expected is None else expected)
        except Refused as refusal:
            is_last = attempt == PATCHES_MAX - 1
            if refusal.kind is not Kind.PRECONDITION or expected is not None or is_last:
                raise
    raise AssertionError("the last attempt returns or raises")


@routes.post("/api/v1/jobs/{job}/pause")
async def pause_job(request: web.Request) -> web.Response:
    """Pause a job: its fire times are recorded as paused; what runs goes on."""
    check_query(request, "namespace")
    shard, job = find_job(request, request.match_info["job"])
    check(request, Verb.WRITE, job.spec.namespace)
    body = await read_body(request, PauseBody, if_empty=PauseBody())
    by = request[PRINCIPAL].name
    command = PauseJob(job_id=job.id, by=by, reason=body.reason)
    await request.app[PARTS].shards.ask(shard, command)
    return await job_document(request.app[PARTS], job.id)


@routes.post("/api/v1/jobs/{job}/resume")
async def resume_job(request: web.Request) -> web.Response:
    """Let a paused job fire again."""
    check_query(request, "namespace")
    shard, job = find_job(request, request.match_info["job"])
    check(request, Verb.WRITE, job.spec.namespace)
    await request.app[PARTS].shards.ask(shard, ResumeJob(job_id=job.id))
    return await job_document(request.app[PARTS], job.id)


def merged(target: Json, patch: Json) -> Json:
    """Return *target* with *patch* merged in: a null takes a member away (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(cast("dict[str, Json]", target)) if isinstance(target, dict) else {}
    for name, value in cast("dict[str, Json]", patch).items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


async def _save(request: web.Request, spec: JobSpec, expected: int | None) -> web.Response:
    parts = request.app[PARTS]
    shard = parts.shards.of_name(spec.namespace, spec.name)
    if request.headers.get("If-None-Match") == "*":
        command = SaveJob(spec=spec)
    else:
        command = SaveJob(spec=spec, may_replace=True, if_version=expected)
    saved = await parts.shards.ask(shard, command)
    assert isinstance(saved, JobSaved)
    return await job_document(parts, saved.job_id, is_new=saved.is_new)


def _spec_of(request: web.Request, content: dict[str, Json]) -> JobSpec:
    body = decode_body(msgspec.json.encode(content), JobBody)
    return resolve(request.app[PARTS], job_spec(body))
