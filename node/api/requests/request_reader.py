"""Reading requests: bodies, headers, ids; and writing documents."""

import asyncio
import re
from collections.abc import Mapping
from typing import TypeVar

import msgspec
from aiohttp import web

from rota.core.errors import Kind, Problem, Refused, invalid, not_found
from rota.core.model.ids import ExecutionId, JobId, is_execution_id, is_job_id
from rota.core.model.job import Job
from rota.core.quoting import in_quotes
from rota.node.api.requests.body_memory import BodyMemory, Reserved
from rota.node.api.requests.job_decoding import decoded_job, decoded_object
from rota.node.api.requests.json_decoding import decode
from rota.node.api.requests.pacing import paced
from rota.node.context import NodeContext
from rota.node.shards.shard import Shard
from rota.wire.documents import ITEMS_MAX, JobBody, Json

T = TypeVar("T", bound=msgspec.Struct)

CONTEXT: web.AppKey[NodeContext] = web.AppKey("parts", NodeContext)
REQUEST_ID: web.RequestKey[str] = web.RequestKey("request_id", str)
BODY_MEMORY: web.AppKey[BodyMemory] = web.AppKey("body_memory", BodyMemory)
_RESERVED: web.RequestKey[Reserved] = web.RequestKey("reserved", Reserved)
"""Memory for the body, from the first read until the request is answered: so long it is kept."""
IDEMPOTENCY_KEY_MAX = 255
_TAG = re.compile(r'"(\d{1,18})"', re.ASCII)
BODY_TIMEOUT_S = 30


def document(
    view: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """Return a response with a JSON document."""
    return web.Response(
        status=status,
        body=msgspec.json.encode(view),
        content_type="application/json",
        headers=headers,
    )


async def read_body(request: web.Request, kind: type[T], *, if_empty: T | None = None) -> T:
    """Return the request's body as a *kind*.

    Raises:
        Refused: It is too long, not JSON, or has another form.
    """
    content = await read_content(request)
    if not content.strip() and if_empty is not None:
        return if_empty
    return decode(content, kind)


async def read_job(request: web.Request) -> JobBody:
    """Return the request's body as a job, with pauses while a long one is decoded.

    Raises:
        Refused: It is too long, not JSON, has another form, or too many tasks.
    """
    return await paced(decoded_job(await read_content(request)))


async def read_object(request: web.Request) -> dict[str, Json]:
    """Return the request's body as the JSON object that it is, unchecked otherwise.

    Raises:
        Refused: It is too long, not JSON, or no object; or it has too many tasks.
    """
    return await paced(decoded_object(await read_content(request)))


async def read_content(request: web.Request) -> bytes:
    """Return the request's body; again, if it has been read before.

    Raises:
        Refused: It is too long, too slow, or breaks off; or there is no memory for it now.
    """
    if not request.body_exists:
        return b""
    reserved = request.get(_RESERVED)
    if reserved is None:
        memory = request.app[BODY_MEMORY]
        reserved = memory.reserve(request.remote or "", request.content_length)
        request[_RESERVED] = reserved
    try:
        content = await _whole(request)
    except TimeoutError as error:
        raise BodyTooSlow from error
    except web.HTTPRequestEntityTooLarge as error:
        raise BodyTooLarge(request) from error
    except web.RequestPayloadError as error:
        raise invalid("invalid_body", f"the body cannot be read: {error}") from error
    reserved.shrink(len(content))
    return content


async def _whole(request: web.Request) -> bytes:
    if request.content.is_eof():
        return await request.read()  # It has come, as most do with the head: nothing is waited for.
    async with asyncio.timeout(BODY_TIMEOUT_S):
        return await request.read()


def forget_body(request: web.Request) -> None:
    """Free the memory that is reserved for a request's body."""
    reserved = request.get(_RESERVED)
    if reserved is not None:
        reserved.shrink(0)


class BodyTooLarge(Refused):
    """The body is longer than the node takes."""

    def __init__(self, request: web.Request) -> None:
        limit = request.app[CONTEXT].config.body_max_mb
        super().__init__(
            Kind.INVALID, "body_too_large", f"the body is larger than {limit} MiB, the limit here"
        )


class BodyTooSlow(Refused):
    """The body did not come in time, and meanwhile kept others out."""

    def __init__(self) -> None:
        super().__init__(
            Kind.INVALID, "body_too_slow", f"the body did not come within {BODY_TIMEOUT_S} s"
        )


def target_of(request: web.Request) -> str:
    """Return the path and query of *request*, as they came unless it was meant for a proxy."""
    target = request.raw_path
    return target if target.startswith("/") else request.rel_url.raw_path_qs


def check_count(count: int, pointer: str) -> None:
    """Let a list of *count* things to be done together pass, 1 to `ITEMS_MAX`.

    Raises:
        Refused: Code ``no_items`` or ``too_many_items``.
    """
    if 1 <= count <= ITEMS_MAX:
        return
    detail = f"has {count} items; 1 to {ITEMS_MAX} are taken at once"
    raise invalid("too_many_items" if count else "no_items", detail, Problem(pointer, detail))


def idempotency_key(request: web.Request) -> str:
    """Return the request's ``Idempotency-Key``, or empty.

    Raises:
        Refused: It cannot be one.
    """
    return checked_key(request.headers.get("Idempotency-Key", ""))


def checked_key(key: str) -> str:
    """Return *key* if it may make a request safe to repeat.

    Raises:
        Refused: It is too long, or not text: a header's stray bytes come as lone surrogates, which
            no journal can hold.
    """
    if not key.isprintable():
        raise invalid("invalid_idempotency_key", "Idempotency-Key has characters that do not print")
    if len(key) > IDEMPOTENCY_KEY_MAX:
        raise invalid(
            "invalid_idempotency_key",
            f"Idempotency-Key has {len(key)} characters; at most {IDEMPOTENCY_KEY_MAX} are taken",
        )
    return key


def expected_version(request: web.Request) -> int | None:
    """Return the version of a job that ``If-Match`` asks for, or None.

    Raises:
        Refused: It is not an entity tag that this API gives.
    """
    # Of several lines, one alone would be a condition that was not meant.
    header = ", ".join(request.headers.getall("If-Match", ["*"])).strip()
    if header == "*":
        return None
    tag = _TAG.fullmatch(header)
    if tag is None:
        raise invalid(
            "invalid_if_match",
            f'If-Match is {in_quotes(header)}; send the ETag of the job, such as "3"',
        )
    return int(tag[1])


def only_creates(request: web.Request) -> bool:
    """Tell whether ``If-None-Match: *`` asks that there be no such job yet.

    Raises:
        Refused: It asks for something else, which would be ignored in silence.
    """
    header = ", ".join(request.headers.getall("If-None-Match", [])).strip()
    if header in ("", "*"):
        return header == "*"
    raise invalid("invalid_if_none_match", f"If-None-Match is {in_quotes(header)}; only * is taken")


def find_job(request: web.Request, named: str) -> tuple[Shard, Job]:
    """Return the job that *named*, an id or a name, stands for.

    A name without a namespace is in that of the query, or in ``default``.

    Raises:
        Refused: There is no such job.
    """
    shards = request.app[CONTEXT].shards
    if is_job_id(named):
        shard = shards.of_id(JobId(named))
        job = shard.state.jobs.get(JobId(named))
        if job is not None:
            return shard, job
    namespace, _, name = named.rpartition("/")
    namespace = namespace or request.query.get("namespace", "default")
    shard = shards.of_name(namespace, name)
    if is_job_id(named) and not shard.is_open:
        # A name in the form of an id, if anything; with its namespace it is told from one.
        raise not_found("job", named)
    job_id = shard.state.names.get(f"{namespace}/{name}")
    if job_id is None:
        raise not_found("job", named)
    return shard, shard.state.jobs[job_id]


def shard_named(request: web.Request, named: str) -> Shard:
    """Return the shard of the job that *named*, an id or a name, stands for."""
    shards = request.app[CONTEXT].shards
    if is_job_id(named):
        return shards.of_id(JobId(named))
    namespace, _, name = named.rpartition("/")
    return shards.of_name(namespace or request.query.get("namespace", "default"), name)


def find_job_id(request: web.Request, named: str) -> tuple[Shard, JobId]:
    """Return the job that *named* stands for; an id works after the job is deleted too.

    Raises:
        Refused: There is no such job.
    """
    try:
        shard, job = find_job(request, named)
    except Refused as refusal:
        if refusal.kind is not Kind.NOT_FOUND or not is_job_id(named):
            raise
        return request.app[CONTEXT].shards.of_id(JobId(named)), JobId(named)
    return shard, job.id


def execution_id_of(request: web.Request) -> ExecutionId:
    """Return the execution id in the path.

    Raises:
        Refused: It does not have the form of one.
    """
    text = request.match_info["execution"]
    if not is_execution_id(text):
        raise not_found("execution", text)
    return ExecutionId(text)
