"""Reading requests: bodies, queries, ids; and writing documents."""

import asyncio
import re
from collections.abc import Mapping
from typing import TypeVar

import msgspec
from aiohttp import web

from rota.client.wire import Json
from rota.core.errors import Kind, Problem, Refused, invalid, not_found
from rota.core.ids import ExecutionId, JobId, is_execution_id, is_job_id
from rota.core.instants import Duration, Instant, parse_duration, parse_instant, seconds
from rota.core.job import Job
from rota.node.api import problems
from rota.node.parts import Parts
from rota.node.shards import Shard

T = TypeVar("T", bound=msgspec.Struct)
D = TypeVar("D")

PARTS: web.AppKey[Parts] = web.AppKey("parts", Parts)
LIMIT_DEFAULT = 100
LIMIT_MAX = 1_000
IDEMPOTENCY_KEY_MAX = 255
DIGITS_MAX = 18
_TAG = re.compile(r'"(\d{1,18})"', re.ASCII)
BODY_TIMEOUT_S = 30
MEDIA_TYPES = ("application/json", "application/merge-patch+json", "application/octet-stream")
"""The last is what a request without a Content-Type is taken for."""


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
        Refused: It is too long, of another media type, not JSON, or has another form.
    """
    content = await _read(request)
    if not content.strip() and if_empty is not None:
        return if_empty
    _check_media_type(request)
    return decode_body(content, kind)


async def read_object(request: web.Request) -> dict[str, Json]:
    """Return the request's body as the JSON object that it is, unchecked otherwise.

    Raises:
        Refused: It is too long, of another media type, not JSON, or no object.
    """
    content = await _read(request)
    _check_media_type(request)
    return _decode(content, dict[str, Json], frozenset())


def decode_body(content: bytes, kind: type[T]) -> T:
    """Return JSON as a *kind*.

    Raises:
        Refused: It is not JSON, or has another form.
    """
    return _decode(content, kind, frozenset(_field_names(kind)))


async def _read(request: web.Request) -> bytes:
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            return await request.read()
    except TimeoutError as error:
        raise BodyTooSlow from error
    except web.HTTPRequestEntityTooLarge as error:
        raise BodyTooLarge(request) from error
    except web.RequestPayloadError as error:
        raise invalid("invalid_body", f"the body cannot be read: {error}") from error


def _check_media_type(request: web.Request) -> None:
    if request.content_type not in MEDIA_TYPES:
        raise UnsupportedMediaType(request)


def _decode(content: bytes, kind: type[D], fields: frozenset[str]) -> D:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError as error:
        raise problems.refused_body(error, fields) from error
    except UnicodeDecodeError as error:
        raise Refused(
            Kind.INVALID, "malformed_json", f"the body is not JSON in UTF-8: {error}"
        ) from error
    except RecursionError as error:
        raise invalid("invalid_body", "the body is nested too deeply") from error


class BodyTooLarge(Refused):
    """The body is longer than the node takes."""

    def __init__(self, request: web.Request) -> None:
        limit = request.app[PARTS].config.body_max_mb
        super().__init__(
            Kind.INVALID, "body_too_large", f"the body is larger than {limit} MiB, the limit here"
        )


class BodyTooSlow(Refused):
    """The body did not come in time, and meanwhile kept others out."""

    def __init__(self) -> None:
        super().__init__(
            Kind.INVALID, "body_too_slow", f"the body did not come within {BODY_TIMEOUT_S} s"
        )


class UnsupportedMediaType(Refused):
    """The body is not JSON by its own word."""

    def __init__(self, request: web.Request) -> None:
        super().__init__(
            Kind.INVALID,
            "unsupported_media_type",
            f"the body is {request.content_type!r}; send application/json",
        )


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
    header = request.headers.get("If-Match", "*").strip()
    if header == "*":
        return None
    tag = _TAG.fullmatch(header)
    if tag is None:
        raise invalid(
            "invalid_if_match", f'If-Match is {header!r}; send the ETag of the job, such as "3"'
        )
    return int(tag[1])


def find_job(request: web.Request, named: str) -> tuple[Shard, Job]:
    """Return the job that *named*, an id or a name, stands for.

    A name without a namespace is in that of the query, or in ``default``.

    Raises:
        Refused: There is no such job.
    """
    shards = request.app[PARTS].shards
    if is_job_id(named):
        shard = shards.of_id(JobId(named))
        job = shard.state.jobs.get(JobId(named))
        if job is not None:
            return shard, job
    namespace, _, name = named.rpartition("/")
    namespace = namespace or request.query.get("namespace", "default")
    shard = shards.of_name(namespace, name)
    job_id = shard.state.names.get(f"{namespace}/{name}")
    if job_id is None:
        raise not_found("job", named)
    return shard, shard.state.jobs[job_id]


def find_job_id(request: web.Request, named: str) -> tuple[Shard, JobId]:
    """Return the job that *named* stands for; an id works after the job is deleted too.

    Raises:
        Refused: There is no such job.
    """
    try:
        shard, job = find_job(request, named)
    except Refused:
        if not is_job_id(named):
            raise
        return request.app[PARTS].shards.of_id(JobId(named)), JobId(named)
    return shard, job.id


def execution_id_of(request: web.Request) -> ExecutionId:
    """Return the execution id in the path.

    Raises:
        Refused: It does not have the form of one.
    """
    text = request.match_info["execution_id"]
    if not is_execution_id(text):
        raise not_found("execution", text)
    return ExecutionId(text)


def limit_of(request: web.Request) -> int:
    """Return ``?limit=``, 1 to `LIMIT_MAX`."""
    return number_of(request, "limit", default=LIMIT_DEFAULT, most=LIMIT_MAX)


def number_of(request: web.Request, name: str, *, default: int, most: int) -> int:
    """Return a whole number of the query, 1 to *most*.

    Raises:
        Refused: It is something else.
    """
    text = request.query.get(name)
    if text is None:
        return default
    # Python refuses to read thousands of digits as a number; so do we, and earlier.
    is_number = text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX
    if not (is_number and 1 <= int(text) <= most):
        raise _bad_query(name, f"{text!r} is not a whole number from 1 to {most}")
    return int(text)


def instant_of(request: web.Request, name: str, default: Instant) -> Instant:
    """Return an instant of the query.

    Raises:
        Refused: It is not RFC 3339.
    """
    text = request.query.get(name)
    if text is None:
        return default
    try:
        # A query turns the plus of an offset into a space.
        return parse_instant(text.replace(" ", "+"))
    except ValueError as error:
        raise _bad_query(name, str(error)) from error


def timespan_of(request: web.Request, name: str, default: Duration) -> Duration:
    """Return a duration of the query: seconds, or text with units.

    Raises:
        Refused: It is neither.
    """
    text = request.query.get(name)
    if text is None:
        return default
    try:
        return (
            seconds(float(text)) if text.replace(".", "", 1).isdecimal() else parse_duration(text)
        )
    except (ValueError, OverflowError) as error:
        raise _bad_query(name, str(error)) from error


def check_query(request: web.Request, *known: str) -> None:
    """Refuse a query with a parameter that is not *known*: it would be ignored in silence.

    Raises:
        Refused: Naming the parameter.
    """
    for name in request.query:
        if name not in known:
            listed = ", ".join(known) or "none"
            raise _bad_query(name, f"there is no parameter {name!r} here; there are: {listed}")


def _bad_query(name: str, detail: str) -> Refused:
    return invalid("invalid_query", f"{name}: {detail}", Problem(f"/query/{name}", detail))


def _field_names(kind: type[msgspec.Struct]) -> set[str]:
    """Return the names of all fields that a body of *kind* may have, at any depth."""
    names: set[str] = set()
    todo: list[object] = [msgspec.inspect.type_info(kind)]
    while todo:
        info = todo.pop()
        if isinstance(info, msgspec.inspect.StructType):
            for field in info.fields:
                names.add(field.encode_name)
                todo.append(field.type)
        elif isinstance(info, msgspec.inspect.UnionType):
            todo += info.types
        elif isinstance(info, msgspec.inspect.ListType):
            todo.append(info.item_type)
    return names
