"""Bodies and headers of requests, and responses with documents."""

import asyncio
import re
from collections.abc import Mapping
from typing import TypeVar

import msgspec
from aiohttp import web

from rota.core.errors import Kind, Problem, Refused, invalid
from rota.core.quoting import in_quotes
from rota.node.access.principal import OPERATOR
from rota.node.api.requests.body_memory import BodyMemory, Reserved
from rota.node.api.requests.job_decoding import decoded_job, decoded_object
from rota.node.api.requests.request_context import RequestContext
from rota.node.system.pacing import paced
from rota.wire.bodies.json_decoding import decode_distinct
from rota.wire.documents import ITEMS_MAX, JobBody, Json

T = TypeVar("T", bound=msgspec.Struct)

BODY_MEMORY: web.AppKey[BodyMemory] = web.AppKey("body_memory", BodyMemory)
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


# -- bodies ---------------------------------------------------------------------------------------


async def read_body(request: RequestContext, kind: type[T], *, if_empty: T | None = None) -> T:
    """Return the request's body as a *kind*; if the body is empty, *if_empty* unless it is None.

    Raises:
        Refused: The body is too long, is not JSON, or does not have the form of *kind*.
    """
    content = await read_content(request)
    if not content.strip() and if_empty is not None:
        return if_empty
    return decode_distinct(content, kind)


async def read_job(request: RequestContext) -> JobBody:
    """Return the request's body as a job; decoding a long job pauses for other work.

    Raises:
        Refused: The body is too long, is not JSON, is not a job, or has too many tasks.
    """
    return await paced(decoded_job(await read_content(request)))


async def read_object(request: RequestContext) -> dict[str, Json]:
    """Return the request's body as a JSON object with any members.

    Raises:
        Refused: The body is too long, is not a JSON object, or has too many tasks.
    """
    return await paced(decoded_object(await read_content(request)))


async def read_content(
    request: RequestContext, *, has_share: bool = True, most: int | None = None
) -> bytes:
    """Return the bytes of the request's body; later calls return the same bytes.

    Args:
        request: The request.
        has_share: Whether the caller's share of the memory limits the body.
        most: The most bytes, if that is less than the node accepts of others.

    Raises:
        Refused: The body is too long, arrives too slowly, or is incomplete; or too little memory is
            left for it.
    """
    http = request.http
    if not http.body_exists:
        return b""
    if request.content is not None:
        return request.content
    # A node without authentication has one caller.
    has_share = has_share and request.principal is not OPERATOR
    caller = request.principal.identity if has_share else None
    reserved = http.app[BODY_MEMORY].reservation(http.remote or "", caller)
    request.reserved_body = reserved
    try:
        request.content = await _complete(request, reserved, most)
    except TimeoutError as error:
        raise BodyTooSlow from error
    except web.RequestPayloadError as error:
        detail = f"the request body is incomplete or malformed: {error}; send it again"
        raise invalid("invalid_body", detail) from error
    return request.content


async def _complete(request: RequestContext, reserved: Reserved, most: int | None) -> bytes:
    if request.http.content.is_eof():
        return await _arrived(request, reserved, most)  # Most bodies arrive with the head.
    async with asyncio.timeout(BODY_TIMEOUT_S):
        return await _arrived(request, reserved, most)


async def _arrived(request: RequestContext, reserved: Reserved, most: int | None) -> bytes:
    """Return the whole body, whose memory is reserved as it arrives."""
    body = bytearray()
    if most is not None and (request.http.content_length or 0) > most:
        raise BodyOverLimit(most)
    while part := await request.http.content.readany():
        reserved.grow(len(part))
        body += part
        if len(body) > request.http.client_max_size:
            raise BodyTooLarge(request.node.config.body_max_mb)
        if most is not None and len(body) > most:
            raise BodyOverLimit(most)
    return bytes(body)


def release_body(request: RequestContext) -> None:
    """Free the memory that is reserved for the request's body."""
    if request.reserved_body is not None:
        request.reserved_body.free()


class BodyOverLimit(Refused):
    """The body is longer than the operation accepts.

    Args:
        most: The most bytes.
    """

    def __init__(self, most: int) -> None:
        detail = f"the request body has more than {most:,} bytes"
        super().__init__(Kind.INVALID, "body_too_large", detail)


class BodyTooLarge(Refused):
    """The body is longer than the node accepts.

    Args:
        limit_mb: The node's limit, in MiB.
    """

    def __init__(self, limit_mb: int) -> None:
        super().__init__(
            Kind.INVALID,
            "body_too_large",
            f"the request body exceeds this node's limit of {limit_mb} MiB (body_max_mb); "
            "send a smaller one",
        )


class BodyTooSlow(Refused):
    """The body did not arrive within `BODY_TIMEOUT_S`, while it takes memory."""

    def __init__(self) -> None:
        super().__init__(
            Kind.INVALID,
            "body_too_slow",
            f"the request body did not arrive within {BODY_TIMEOUT_S} s; send it again",
        )


def check_count(count: int, pointer: str) -> None:
    """Check the length of a list of items that are processed together.

    Args:
        count: The length of the list, which must be 1 to `ITEMS_MAX`.
        pointer: The JSON pointer of the list.

    Raises:
        Refused: Code ``no_items`` or ``too_many_items``.
    """
    if 1 <= count <= ITEMS_MAX:
        return
    detail = f"the list has {count} items; one request takes 1 to {ITEMS_MAX}"
    raise invalid("too_many_items" if count else "no_items", detail, Problem(pointer, detail))


# -- headers --------------------------------------------------------------------------------------


def target_of(http: web.Request) -> str:
    """Return the path and query of a request, without the scheme and host of a proxy request."""
    target = http.raw_path
    return target if target.startswith("/") else http.rel_url.raw_path_qs


def idempotency_key(http: web.Request) -> str:
    """Return the request's ``Idempotency-Key``, or empty.

    Raises:
        Refused: As for `checked_key`.
    """
    return checked_key(http.headers.get("Idempotency-Key", ""))


def checked_key(key: str) -> str:
    """Return *key* if it is a valid idempotency key.

    Raises:
        Refused: The key is too long, or has characters that are not printable. Undecodable bytes of
            a header arrive as lone surrogates, which the journal cannot store.
    """
    if not key.isprintable():
        raise invalid(
            "invalid_idempotency_key",
            "the Idempotency-Key contains characters that are not printable; use letters, digits "
            "and punctuation",
        )
    if len(key) > IDEMPOTENCY_KEY_MAX:
        raise invalid(
            "invalid_idempotency_key",
            f"the Idempotency-Key has {len(key)} characters; use at most {IDEMPOTENCY_KEY_MAX}",
        )
    return key


def expected_version(http: web.Request) -> int | None:
    """Return the version that ``If-Match`` requires; None if any version is accepted.

    Raises:
        Refused: The header is not an entity tag of this API.
    """
    # If there are several lines, the first line alone is not the condition that the client sent.
    header = ", ".join(http.headers.getall("If-Match", ["*"])).strip()
    if header == "*":
        return None
    tag = _TAG.fullmatch(header)
    if tag is None:
        raise invalid(
            "invalid_if_match",
            f'If-Match {in_quotes(header)} is not an ETag of this API; send one such as "3", with '
            "its quotation marks, or *",
        )
    return int(tag[1])


def written_version(http: web.Request) -> int | None:
    """Return the version that a resource must have before it is written; None for any version.

    0 stands for a resource that must not exist: `only_creates`.

    Raises:
        Refused: One of the conditions is malformed, also if the other one decides.
    """
    expected = expected_version(http)
    return 0 if only_creates(http) else expected


def only_creates(http: web.Request) -> bool:
    """Return True if ``If-None-Match: *`` requires that the resource does not exist.

    Raises:
        Refused: The header has another value, which must not be ignored silently.
    """
    header = ", ".join(http.headers.getall("If-None-Match", [])).strip()
    if header in ("", "*"):
        return header == "*"
    raise invalid(
        "invalid_if_none_match",
        f"If-None-Match {in_quotes(header)} is not supported; send * to create the resource only "
        "if it does not exist",
    )
