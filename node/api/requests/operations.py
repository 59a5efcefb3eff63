"""What the API can be asked: each handler declares its operation once, where it is written.

From the declaration follow the route, the check of the query, and the description of the API, for
machines and for people. The summary and the description are the handler's own docstring.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import msgspec
from aiohttp import web

from rota.node.api.requests.error_codes import CODES
from rota.node.api.requests.parameters import DRY_RUN, IS_DRY_RUN, Parameter, check_query
from rota.wire.documents import Json

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
TEXT = "text/plain; charset=utf-8"
ACCEPTED = {
    "POST": ("Accept-Post", (JSON,)),
    "PUT": ("Accept", (JSON,)),
    "PATCH": ("Accept-Patch", (MERGE_PATCH, JSON)),
}
"""By method: what a body may be, and the header that says so where it is something else."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Header:
    """A header of a request or of an answer.

    Attributes:
        schema: Its text, as JSON Schema.
    """

    name: str
    meaning: str
    schema: Mapping[str, Json] = field(default_factory=lambda: {"type": "string"})


IDEMPOTENCY_KEY = Header(
    "Idempotency-Key",
    "Makes the request safe to repeat: within a day, the same request with the same key does "
    "nothing and gets the first answer again.",
    {"type": "string", "maxLength": 255},
)
IF_MATCH = Header(
    "If-Match",
    "The job's `ETag`: the request is refused if the job has another version by now.",
    {"type": "string", "pattern": r'^(\*|"\d{1,18}")$'},
)
IF_NONE_MATCH = Header(
    "If-None-Match", "`*` only creates: the request is refused if there is such a job."
)
LOCATION = Header("Location", "The address of what was made.")
ETAG = Header("ETag", "The job's version.")


@dataclass(frozen=True, slots=True)
class Body:
    """What a request carries.

    Attributes:
        kind: The document.
        is_optional: It may be empty.
        in_path: Fields that the path gives, and that the body may leave out.
        is_patch: It is a merge patch of the document: any of its fields, or null.
    """

    kind: type[msgspec.Struct]
    is_optional: bool = False
    in_path: tuple[str, ...] = ()
    is_patch: bool = False


@dataclass(frozen=True, slots=True)
class Success:
    """An answer that is no failure.

    Attributes:
        meaning: When it comes, for people.
        content: The document; None where there is none, or only text.
        media_types: What it comes as; empty if it has no content.
        headers: Those that it always has.
    """

    status: int
    meaning: str
    content: type[msgspec.Struct] | None = None
    media_types: tuple[str, ...] = (JSON,)
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing that the API can be asked.

    Attributes:
        path: With the names of its parts in braces; `PATH_PARTS` explains them.
        tag: The heading it stands under.
        query: The parameters that are taken; None takes any and looks at none.
        headers: Those of the request that matter.
        problems: The codes of its own failures; `error_codes` has all.
    """

    method: str
    path: str
    tag: str
    handler: Handler
    answers: tuple[Success, ...]
    query: tuple[Parameter[object], ...] | None
    headers: tuple[Header, ...]
    body: Body | None
    problems: tuple[str, ...]

    @property
    def name(self) -> str:
        """The handler's."""
        return self.handler.__name__

    @property
    def summary(self) -> str:
        """What it does, in one sentence."""
        return self._doc.partition("\n")[0]

    @property
    def description(self) -> str:
        """The rest of what there is to say, in Markdown; may be empty."""
        return self._doc.partition("\n")[2].strip()

    @property
    def _doc(self) -> str:
        return inspect.getdoc(self.handler) or ""

    @property
    def codes(self) -> list[str]:
        """The codes of all its failures, by status."""
        of_all = ["bad_request", "busy", "internal", "host_not_allowed", "unsupported_encoding"]
        is_question = self.method == "GET"
        of_method = (
            ("unexpected_body",) if is_question else ("cross_origin", "unsupported_media_type")
        )
        of_query = ["invalid_query"] if self.query is not None else []
        of_body = _BODY_PROBLEMS if self.body else ()
        found = {*self.problems, *of_all, *of_method, *of_query, *of_body}
        return sorted(found, key=list(CODES).index)

    def route(self) -> web.RouteDef:
        """Return the route that leads to its handler, once its query is looked at."""
        return web.route(self.method, self.path, self._checked)

    async def _checked(self, request: web.Request) -> web.StreamResponse:
        if self.query is not None:
            check_query(request, self.query)
            if DRY_RUN in self.query:
                request[IS_DRY_RUN] = DRY_RUN.of(request)
        return await self.handler(request)


_BODY_PROBLEMS = (
    "malformed_json",
    "body_too_slow",
    "body_too_large",
    "invalid_body",
)

PATH_PARTS = {
    "job": "A job's id, or its name in `namespace`, or `namespace/name` with the slash as `%2F`.",
    "namespace": "The job's namespace.",
    "name": "The job's name.",
    "execution": "An execution's id.",
    "node": "A node's id.",
    "shard": "A shard's number.",
    "task": "The name of a task; of a job without `tasks` it is `main`.",
}


class Operations:
    """The operations of one module, in the order in which they are declared.

    Args:
        tag: The heading that they stand under.
    """

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.declared: list[Operation] = []

    def declare(
        self,
        method: str,
        path: str,
        *answers: Success,
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
                answers=answers,
                query=query,
                headers=headers,
                body=body,
                problems=problems,
            )
            self.declared.append(operation)
            return handler

        return declared
