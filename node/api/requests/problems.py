"""Error documents of the API: ``application/problem+json`` (RFC 9457)."""

import msgspec
from aiohttp import web
from multidict import istr

from rota.core.errors import Kind, Problem, Refused
from rota.node.api.requests.error_codes import CODES
from rota.wire.documents import FieldProblem, ProblemView

STATUS = {
    Kind.INVALID: 422,
    Kind.NOT_FOUND: 404,
    Kind.CONFLICT: 409,
    Kind.PRECONDITION: 412,
    Kind.TOO_MANY: 429,
    Kind.UNAVAILABLE: 503,
    Kind.UNAUTHENTICATED: 401,
    Kind.FORBIDDEN: 403,
    Kind.UNREADABLE: 500,
}
CONTENT_TYPE = "application/problem+json"

SAME_FOR_ALL: dict[str, str] = {
    istr("Server"): "rota",
    istr("Cache-Control"): "no-store",
    istr("Cross-Origin-Resource-Policy"): "same-origin",
    istr("X-Content-Type-Options"): "nosniff",
}
"""Headers of every response. ``Server`` has no version, which would help attackers."""

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

encode = msgspec.json.encode


def problem(
    status: int, code: str, detail: str, *, errors: tuple[Problem, ...] = ()
) -> ProblemView:
    """Return the document of an error."""
    return ProblemView(
        type=f"urn:rota:problem:{code}",
        title=_TITLES.get(status, "Error"),
        status=status,
        code=code,
        detail=detail,
        errors=[FieldProblem(pointer=each.pointer, detail=each.detail) for each in errors],
    )


def problem_of(refusal: Refused) -> ProblemView:
    """Return the document of a refusal."""
    code = CODES.get(refusal.code)
    status = code.status if code else STATUS[refusal.kind]
    return problem(status, refusal.code, refusal.detail, errors=refusal.problems)


def refusal_of(view: ProblemView) -> Refused:
    """Return the refusal that another node's error document stands for."""
    kinds = {status: kind for kind, status in STATUS.items()}
    return Refused(
        kinds.get(view.status, Kind.UNAVAILABLE),
        view.code,
        view.detail,
        problems=tuple(Problem(each.pointer, each.detail) for each in view.errors),
        retry_after_s=1 if view.status == STATUS[Kind.UNAVAILABLE] else None,
    )


def response(
    view: ProblemView, *, request_id: str, headers: dict[str, str] | None = None
) -> web.Response:
    """Return the response with an error document."""
    sent = msgspec.structs.replace(view, request_id=request_id)
    return web.Response(
        status=view.status, body=encode(sent), content_type=CONTENT_TYPE, headers=headers
    )
