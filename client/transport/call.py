"""One request and its answer: their content, the decoding, and errors."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from urllib.parse import urlencode

import msgspec

from rota.client.errors import (
    Conflict,
    Invalid,
    NodeFailed,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    RequestFailed,
    TooBusy,
)
from rota.core.decoding import UNDECODABLE
from rota.core.model.ids import Slot
from rota.wire.documents import ProblemView

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Query = Mapping[str, str | int | Sequence[str] | None]


@dataclass(frozen=True)
class Call(Generic[T_co]):
    """One request.

    Attributes:
        method: The HTTP method.
        path: The path from the root of the server, percent-encoded.
        read: Decodes the body of a successful answer.
        query: The parameters; None is omitted, and a list gives one parameter for each item.
        body: The body in JSON; None for no body.
        headers: The headers that neither the body nor the key implies.
        key: The idempotency key; empty for none.
        is_write: Whether the request changes anything.
        is_repeatable: Whether a repetition has no further effect, as with a key.
        waits_s: How many seconds the node is requested to keep the request open.
        slot: The hash slot of the one job that the request concerns; None for several jobs, or
            none.

    Raises:
        Invalid: A header has characters that are not printable, which no header can have.
    """

    method: str
    path: str
    read: Callable[[bytes], T_co]
    query: Query = field(default_factory=dict[str, str | int | Sequence[str] | None])
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    key: str = ""
    is_write: bool = False
    is_repeatable: bool = True
    waits_s: float = 0.0
    slot: Slot | None = None

    def __post_init__(self) -> None:
        for name, value in self.all_headers.items():
            if not value.isprintable():
                detail = f"the header {name}: {value!r} has unprintable characters; remove them"
                invalid = Invalid(_problem(0, "invalid_header", detail))
                invalid.name_request(self.method, self.path)
                raise invalid

    @property
    def target(self) -> str:
        """The path and query of the request."""
        given = {name: value for name, value in self.query.items() if value not in (None, [])}
        text = urlencode(given, doseq=True, errors="replace")
        return f"{self.path}?{text}" if given else self.path

    @property
    def all_headers(self) -> dict[str, str]:
        """The headers of the request, with those that the body and the key imply."""
        headers = dict(self.headers)
        if self.body is not None:
            headers["Content-Type"] = "application/json"
        if self.key:
            headers["Idempotency-Key"] = self.key
        return headers


@dataclass(frozen=True, slots=True)
class Response:
    """The answer to a request.

    Attributes:
        status: The HTTP status.
        body: The whole body.
        retry_after: The header ``Retry-After``; empty if it is absent.
        request_id: The header ``X-Request-Id``; empty if it is absent.
    """

    status: int
    body: bytes
    retry_after: str = ""
    request_id: str = ""


def as_json(body: object) -> bytes:
    """Return *body* as JSON.

    Raises:
        Invalid: *body* contains something that JSON cannot express.
    """
    try:
        return msgspec.json.encode(body)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        detail = f"the body cannot be written as JSON: {error}; use JSON values only"
        raise Invalid(_problem(0, "not_json", detail)) from error


def result_of(call: Call[T], answer: Response) -> T:
    """Return the result of *call* from *answer*.

    Raises:
        RequestFailed: The answer is an error, or cannot be decoded; the subclass depends on it.
    """
    if not 200 <= answer.status < 300:
        raise failure_of(answer)
    try:
        return call.read(answer.body)
    except UNDECODABLE as error:
        failure = unreadable(call.method, call.path, error, answer)
        raise failure from error


def failure_of(answer: Response) -> RequestFailed:
    """Return the error of an unsuccessful answer."""
    try:
        problem = msgspec.json.decode(answer.body, type=ProblemView)
    except UNDECODABLE:
        said = answer.body[:200].decode(errors="replace").strip()
        detail = (
            f"HTTP status {answer.status} without an error document of a rota node; check the URL "
            f"and any proxy before the node (body: {said or 'empty'})"
        )
        problem = _problem(answer.status, UNEXPLAINED, detail, answer.request_id)
    if answer.status in TRANSIENT:
        return TooBusy(problem, retry_after_s=_seconds(answer.retry_after))
    return _FAILURES.get(answer.status, _failure_class(answer.status))(problem)


def unreadable(
    method: str, path: str, error: Exception, answer: Response | None = None
) -> NodeFailed:
    """Return the error of an answer that this client cannot decode.

    Args:
        method: The method of the request.
        path: The path of the request.
        error: The error of the decoder.
        answer: The answer; None for a part of a stream.
    """
    detail = (
        f"the answer to {method} {path} cannot be read: {error}; "
        "check that the URL is that of a rota node which is not older than this client"
    )
    status, request_id = (answer.status, answer.request_id) if answer else (200, "")
    failure = NodeFailed(_problem(status, "unreadable_answer", detail, request_id))
    failure.name_request(method, path)
    return failure


UNEXPLAINED = "unexplained"
"""The code of a failure without a problem document, which comes from a gateway, not from a node."""

TRANSIENT = (408, 429, 503)
"""Statuses of answers to requests that a node did not accept and may accept later: the body was too
slow, a limit is reached, or the node is busy."""

_FAILURES: dict[int, type[RequestFailed]] = {
    401: NotAuthenticated,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    412: Conflict,
}


def _failure_class(status: int) -> type[RequestFailed]:
    return Invalid if 400 <= status < 500 else NodeFailed


def _seconds(text: str) -> float | None:
    """Return the seconds of a ``Retry-After``; its other form, a date, is not supported."""
    return float(text) if text.isascii() and text.isdecimal() else None


def _problem(status: int, code: str, detail: str, request_id: str = "") -> ProblemView:
    return ProblemView(
        type=f"urn:rota:problem:{code}",
        title="Failed",
        status=status,
        code=code,
        detail=detail,
        request_id=request_id,
    )
