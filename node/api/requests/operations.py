"""Operations of the API: each handler declares its own, where it is defined.

From the declaration follow the route, the node that handles a request, the check of the query, and
the description of the API for programs and for people. Its summary and description are the
handler's docstring.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import msgspec
from aiohttp import web

from rota.node.api.requests.error_codes import CODES
from rota.node.api.requests.parameters import DRY_RUN, Parameter, check_query
from rota.node.api.requests.request_context import RequestContext
from rota.node.shards.shard import Shard
from rota.wire.documents import Json

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
TEXT = "text/plain; charset=utf-8"
ACCEPTED = {
    "POST": ("Accept-Post", (JSON,)),
    "PUT": ("Accept", (JSON,)),
    "PATCH": ("Accept-Patch", (MERGE_PATCH, JSON)),
}
"""By method: the response header that lists the media types of a body, and these media types."""

Handler = Callable[[RequestContext], Awaitable[web.StreamResponse]]
Target = Callable[[RequestContext], Awaitable[Shard | None]]
"""Returns the shard that a request is about; None if the node that receives it handles it."""


@dataclass(frozen=True, slots=True)
class Header:
    """A header of a request or of a response.

    Attributes:
        schema: JSON Schema of its text.
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
    "The `ETag`: the request is refused if there is another version by now.",
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
        kind: Its document.
        is_optional: Whether it may be empty.
        in_path: Fields that the path has too, and that the body may omit.
        is_patch: Whether it is a merge patch of the document: any of its fields, or null.
    """

    kind: type[msgspec.Struct]
    is_optional: bool = False
    in_path: tuple[str, ...] = ()
    is_patch: bool = False


@dataclass(frozen=True, slots=True)
class Success:
    """A response that is not an error.

    Attributes:
        meaning: Its description in the reference.
        content: Its document; None for a response without content, or with text.
        media_types: The media types of its content; empty if it has none.
        headers: The headers that it always has.
    """

    status: int
    meaning: str
    content: type[msgspec.Struct] | None = None
    media_types: tuple[str, ...] = (JSON,)
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation of the API.

    Attributes:
        path: Its path, with the names of variable parts in braces; `PATH_PARTS` describes them.
        tag: Its heading in the reference.
        handler: Makes the response; runs on the primary of the shard that *target* returns.
        target: Returns the shard that the request is about; None if it is about no single shard.
        answers: Its responses that are not errors.
        query: Its parameters; with None any parameter is accepted and ignored.
        headers: The request headers that it uses.
        problems: The codes of its own errors; `error_codes` has all.
    """

    method: str
    path: str
    tag: str
    handler: Handler
    target: Target | None
    answers: tuple[Success, ...]
    query: tuple[Parameter[object], ...] | None
    headers: tuple[Header, ...]
    body: Body | None
    problems: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check the statuses of its answers and the codes of its errors, at import.

        Raises:
            ValueError: An answer has the status of an error, or `error_codes` lacks a code.
        """
        for answer in self.answers:
            if not 200 <= answer.status < 300:
                raise ValueError(
                    f"{self.method} {self.path}: status {answer.status} is not a success; errors "
                    "belong into problems, by their codes"
                )
        unknown = sorted(self._codes - CODES.keys())
        if unknown:
            raise ValueError(
                f"{self.method} {self.path}: the table of error codes lacks {', '.join(unknown)}"
            )

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
        is_read = self.method == "GET"
        of_method = ("unexpected_body",) if is_read else ("cross_origin", "unsupported_media_type")
        of_query = ["invalid_query"] if self.query is not None else []
        of_body = _BODY_PROBLEMS if self.body else ()
        return {*self.problems, *of_all, *of_method, *of_query, *of_body}

    def check(self, request: RequestContext) -> None:
        """Check the query of *request*, and set `RequestContext.is_dry_run`.

        Raises:
            Refused: A parameter is unknown or malformed.
        """
        if self.query is not None:
            check_query(request, self.query)
            if DRY_RUN in self.query:
                request.is_dry_run = DRY_RUN.of(request)


_BODY_PROBLEMS = (
    "malformed_json",
    "body_too_slow",
    "body_too_large",
    "invalid_body",
)

PATH_PARTS = {
    "job": "The id of a job, its name in `namespace`, or `namespace/name` with the slash as `%2F`.",
    "namespace": "The job's namespace.",
    "name": "The job's name.",
    "execution": "The id of an execution.",
    "document": "The name of the document.",
    "node": "The id of a node.",
    "shard": "The number of a shard.",
    "task": "The name of a task; a job without `tasks` has one, `main`.",
}


class Operations:
    """The operations of one module, in the order of their declaration.

    Args:
        tag: Their heading in the reference.
    """

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.declared: list[Operation] = []

    def declare(
        self,
        method: str,
        path: str,
        *answers: Success,
        target: Target | None = None,
        query: tuple[Parameter[object], ...] | None = (),
        headers: tuple[Header, ...] = (),
        body: Body | None = None,
        problems: tuple[str, ...] = (),
    ) -> Callable[[Handler], Handler]:
        """Return the decorator that declares a handler's operation; see `Operation`."""

        def declared(handler: Handler) -> Handler:
            operation = Operation(
                method=method,
                path=path,
                tag=self.tag,
                handler=handler,
                target=target,
                answers=answers,
                query=query,
                headers=headers,
                body=body,
                problems=problems,
            )
            self.declared.append(operation)
            return handler

        return declared
