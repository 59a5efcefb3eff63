"""Operations of the API: each handler declares its own operation, where the handler is defined.

The declaration determines the route, the node that handles a request, the check of the query, and
the description of the API for programs and for people. The summary and the description of an
operation are the handler's docstring.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

import msgspec
from aiohttp import web

from rota.node.api.requests.error_codes import CODES
from rota.node.api.requests.parameters import DRY_RUN, Parameter, check_query
from rota.node.api.requests.permissions import Permission, Scope
from rota.node.api.requests.request_context import RequestContext
from rota.node.shards.shard import Shard
from rota.wire.documents import Json
from rota.wire.operations import Operation as Row

JSON = "application/json"
CLOUD_EVENT = "application/cloudevents+json"
MERGE_PATCH = "application/merge-patch+json"
TEXT = "text/plain; charset=utf-8"
ACCEPTED = {
    "POST": ("Accept-Post", (JSON, CLOUD_EVENT)),
    "PUT": ("Accept", (JSON,)),
    "PATCH": ("Accept-Patch", (MERGE_PATCH, JSON)),
}
"""For each method: the response header that lists the media types of a body, and these types."""

Handler = Callable[[RequestContext], Awaitable[web.StreamResponse]]
Target = Callable[[RequestContext], Awaitable[Shard | None]]
"""Returns the shard that a request is about; None if the node that receives it handles it."""


@dataclass(frozen=True, slots=True)
class Header:
    """A header of a request or of a response.

    Attributes:
        name: The name of the header.
        meaning: The description of the header in the reference.
        schema: The JSON Schema of its value.
    """

    name: str
    meaning: str
    schema: Mapping[str, Json] = field(default_factory=lambda: {"type": "string"})


IDEMPOTENCY_KEY = Header(
    "Idempotency-Key",
    "Makes the request safe to repeat: within a day, the same request with the same key changes "
    "nothing and gets the first response again.",
    {"type": "string", "maxLength": 255},
)
IF_MATCH = Header(
    "If-Match",
    "The `ETag` of the expected version: the request is refused if the current version differs.",
    {"type": "string", "pattern": r'^(\*|"\d{1,18}")$'},
)
IF_NONE_MATCH = Header(
    "If-None-Match", "`*`: create only; the request is refused if the resource exists."
)
LOCATION = Header("Location", "The path of the created resource.")
ETAG = Header("ETag", "The version.")


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a request.

    Attributes:
        kind: The document in the body.
        is_optional: Whether the body may be empty.
        in_path: Fields that the path has too, and that the body may therefore omit.
        is_patch: Whether the body is a merge patch of the document: some of its fields, each with
            a new value or null.
    """

    kind: type[msgspec.Struct]
    is_optional: bool = False
    in_path: tuple[str, ...] = ()
    is_patch: bool = False


@dataclass(frozen=True, slots=True)
class Success:
    """A response that is not an error.

    Attributes:
        status: The HTTP status of the response, 200 to 299; 204 has no content.
        meaning: The description of the response in the reference.
        content: The document in the response; None for that of the operation.
        media_types: The media types of the content.
        headers: The headers that the response always has.
    """

    status: int
    meaning: str
    content: type[msgspec.Struct] | None = None
    media_types: tuple[str, ...] = (JSON,)
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation of the API with its handler.

    Attributes:
        row: Method, path and documents.
        tag: The heading of the operation in the reference.
        permission: The verb that callers need, and the source of the namespace.
        handler: Makes the response; runs on the primary of the shard that *target* returns.
        target: Returns the shard that a request is about; None if no request is about one shard.
        answers: The responses that are not errors.
        query: The parameters of the query; if None, any parameter is accepted and ignored.
        headers: The request headers that the operation uses.
        body: The body of the request; None if there is none.
        problems: The codes of the errors of this operation alone; *codes* has all.
    """

    row: Row[object]
    tag: str
    permission: Permission
    handler: Handler
    target: Target | None
    answers: tuple[Success, ...]
    query: tuple[Parameter[object], ...] | None
    headers: tuple[Header, ...]
    body: Body | None
    problems: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check the statuses of the answers and the codes of the errors when it is declared.

        Raises:
            ValueError: An answer has the status of an error, or `error_codes` lacks a code.
        """
        for answer in self.answers:
            if not 200 <= answer.status < 300:
                raise ValueError(
                    f"{self.method} {self.path}: status {answer.status} is not a success; list the "
                    "error's code in problems instead"
                )
        unknown = sorted(self._codes - CODES.keys())
        if unknown:
            raise ValueError(
                f"{self.method} {self.path}: the table of error codes lacks {', '.join(unknown)}; "
                "add them to CODES"
            )

    @property
    def method(self) -> str:
        """The HTTP method."""
        return self.row.method

    @property
    def path(self) -> str:
        """The path, with the names of variable parts in braces; `PATH_PARTS` describes them."""
        return self.row.path

    @property
    def name(self) -> str:
        """The name of its handler."""
        return self.handler.__name__

    @property
    def summary(self) -> str:
        """The first line of the handler's docstring."""
        return self._doc.partition("\n")[0]

    @property
    def description(self) -> str:
        """The rest of the handler's docstring, in Markdown; may be empty."""
        return self._doc.partition("\n")[2].strip()

    @property
    def _doc(self) -> str:
        return inspect.getdoc(self.handler) or ""

    @property
    def codes(self) -> list[str]:
        """The codes of all its errors, by status."""
        return sorted(self._codes, key=list(CODES).index)

    @property
    def _codes(self) -> set[str]:
        of_all = ["bad_request", "busy", "internal", "host_not_allowed", "unsupported_encoding"]
        of_all += ["not_a_node"]
        is_read = self.method == "GET"
        of_method = ("unexpected_body",) if is_read else ("cross_origin", "unsupported_media_type")
        of_query = ["invalid_query"] if self.query is not None else []
        of_body = _BODY_PROBLEMS if self.body else ()
        of_caller = _PROBLEMS_OF_SCOPE[self.permission.scope]
        return {*self.problems, *of_all, *of_method, *of_query, *of_body, *of_caller}

    def check(self, request: RequestContext) -> None:
        """Check the query of *request*, and set `RequestContext.is_dry_run`.

        Raises:
            Refused: A parameter is unknown or malformed.
        """
        if self.query is not None:
            check_query(request, self.query)
            if DRY_RUN in self.query:
                request.is_dry_run = DRY_RUN.of(request)


_OF_LOGINS = ("unauthenticated", "too_many_logins", "too_many_requests", "not_ready")
_PROBLEMS_OF_SCOPE: Mapping[Scope, tuple[str, ...]] = {
    Scope.PUBLIC: (),
    Scope.ANYONE: _OF_LOGINS,
    Scope.LOCAL: ("local_only",),
    Scope.CLUSTER: (*_OF_LOGINS, "forbidden"),
    Scope.OBJECT: (*_OF_LOGINS, "forbidden"),
    Scope.EACH: _OF_LOGINS,
}
_BODY_PROBLEMS = (
    "malformed_json",
    "body_too_slow",
    "body_too_large",
    "invalid_body",
)

PATH_PARTS = {
    "backfill": "The id of a backfill of the job.",
    "key": "The name of a value of the state of the job.",
    "job": "The id of a job, its name in `namespace`, or `namespace/name`; the slash may be `%2F`.",
    "namespace": "The namespace.",
    "execution": "The id of an execution.",
    "document": "The name of the document.",
    "secret": "The name of the secret.",
    "node": "The id of a node.",
    "shard": "The number of a shard.",
    "task": "The name of a task; a job without `tasks` has one, `main`.",
}


class Operations:
    """The operations of one module, in the order of their declaration.

    Args:
        tag: The heading of these operations in the reference.
    """

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.declared: list[Operation] = []

    def declare(
        self,
        row: Row[object],
        *answers: Success,
        permission: Permission,
        target: Target | None = None,
        query: tuple[Parameter[object], ...] | None = (),
        headers: tuple[Header, ...] = (),
        body: Body | None = None,
        problems: tuple[str, ...] = (),
    ) -> Callable[[Handler], Handler]:
        """Return the decorator that declares a handler's operation; see `Operation`."""

        def declared(handler: Handler) -> Handler:
            operation = Operation(
                row=row,
                tag=self.tag,
                permission=permission,
                handler=handler,
                target=target,
                answers=tuple(_completed(each, row) for each in answers),
                query=query,
                headers=headers,
                body=body,
                problems=problems,
            )
            self.declared.append(operation)
            return handler

        return declared


def _completed(answer: Success, row: Row[object]) -> Success:
    """Return *answer* with the document of the operation, or without content if it has none."""
    if answer.status == 204:
        return replace(answer, media_types=())
    view: type[object] = row.view
    if answer.content is None and issubclass(view, msgspec.Struct):
        return replace(answer, content=view)
    return answer
