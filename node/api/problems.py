"""Errors as the API tells them: ``application/problem+json`` (RFC 9457)."""

import re
from difflib import get_close_matches

import msgspec
from aiohttp import web

from rota.client.wire import FieldProblem, ProblemView
from rota.core.errors import Kind, Problem, Refused, invalid

STATUS = {
    Kind.INVALID: 422,
    Kind.NOT_FOUND: 404,
    Kind.CONFLICT: 409,
    Kind.PRECONDITION: 412,
    Kind.TOO_MANY: 429,
    Kind.UNAVAILABLE: 503,
    Kind.FORBIDDEN: 403,
}
CONTENT_TYPE = "application/problem+json"

_TITLES = {
    400: "Bad request",
    401: "Not authenticated",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    408: "Request timeout",
    409: "Conflict",
    412: "Precondition failed",
    413: "Content too large",
    415: "Unsupported media type",
    422: "Invalid input",
    429: "Too many requests",
    500: "Internal error",
    503: "Unavailable",
}
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(?P<name>[^`]*)`")
_MISSING_FIELD = re.compile(r"Object missing required field `(?P<name>[^`]*)`")
_AT_PATH = re.compile(r" - at `\$(?P<path>[^`]*)`$")
_STEP = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<place>\d+|\.\.\.)\]")

encode = msgspec.json.encode


def problem(
    status: int, code: str, detail: str, *, errors: tuple[Problem, ...] = ()
) -> ProblemView:
    """Return the document that describes a failure."""
    return ProblemView(
        type=f"urn:rota:problem:{code}",
        title=_TITLES.get(status, "Error"),
        status=status,
        code=code,
        detail=detail,
        errors=[FieldProblem(pointer=each.pointer, detail=each.detail) for each in errors],
    )


def problem_of(refusal: Refused) -> ProblemView:
    """Return the document that describes a refusal."""
    status = STATUS[refusal.kind]
    return problem(status, refusal.code, refusal.detail, errors=refusal.problems)


def with_status(view: ProblemView, status: int) -> ProblemView:
    """Return *view* under another HTTP status."""
    return msgspec.structs.replace(view, status=status, title=_TITLES.get(status, "Error"))


def response(
    view: ProblemView, *, request_id: str, headers: dict[str, str] | None = None
) -> web.Response:
    """Return the response that carries a failure."""
    told = msgspec.structs.replace(view, request_id=request_id)
    return web.Response(
        status=view.status, body=encode(told), content_type=CONTENT_TYPE, headers=headers
    )


def refused_body(error: msgspec.DecodeError, fields: frozenset[str]) -> Refused:
    """Return the refusal of a request body that cannot be decoded.

    Args:
        error: What the decoder said.
        fields: The names that the body may have, for "did you mean".
    """
    text = str(error)
    if not isinstance(error, msgspec.ValidationError):
        return Refused(Kind.INVALID, "malformed_json", f"the body is not JSON: {text}")
    at = _AT_PATH.search(text)
    pointer = _pointer(at["path"]) if at else ""
    said = _AT_PATH.sub("", text)
    unknown = _UNKNOWN_FIELD.match(said)
    if unknown:
        name = unknown["name"]
        close = get_close_matches(name, fields, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        detail = f"there is no field {name!r}{hint}"
        return invalid("invalid_body", detail, Problem(f"{pointer}/{name}", detail))
    missing = _MISSING_FIELD.match(said)
    if missing:
        pointer = f"{pointer}/{missing['name']}"
    return invalid("invalid_body", said, Problem(pointer, said))


def _pointer(path: str) -> str:
    """Return the JSON pointer of a path as msgspec writes it: ``.tasks[0].name``."""
    return "".join(f"/{step['name'] or step['place']}" for step in _STEP.finditer(path))
