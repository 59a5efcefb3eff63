"""What all tools have: a client, a namespace, inputs, and the form of lists."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, cast

import click
import msgspec
from msgspec import Meta

from rota.client.cli.failures import document_of, document_of_usage
from rota.client.cli.inputs.options import time_of
from rota.client.client import Client
from rota.client.mcp.tools import Input
from rota.client.paging import Page
from rota.client.requests import call
from rota.client.transport.call import Query
from rota.core.errors import Problem, RotaError, invalid_fields
from rota.wire.operations import Operation

Row = TypeVar("Row")
Content = dict[str, object]

ROWS_MAX = 50
TEXT_MAX = 300
"""The most characters of a name, and of other short texts."""
DEFINITIONS_MAX = 256 << 10
"""The most characters of definitions; as YAML they take seconds to parse."""

Name = Annotated[str, Meta(min_length=1, max_length=TEXT_MAX)]
Short = Annotated[str, Meta(max_length=TEXT_MAX)]
JobName = Annotated[
    str,
    Meta(min_length=1, max_length=TEXT_MAX, description="namespace/name, or a name, or an id."),
]
ExecutionName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=TEXT_MAX,
        description="The id, or JOB@latest for the latest execution of a job.",
    ),
]
Time = Annotated[
    str,
    Meta(
        max_length=TEXT_MAX,
        description="RFC 3339, such as 2027-01-01T00:00:00Z, or a time before now, such as 2h.",
    ),
]
Definitions = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=DEFINITIONS_MAX,
        description="Jobs and shared documents in YAML or JSON, with --- between them.",
    ),
]
Namespace = Annotated[
    str, Meta(max_length=TEXT_MAX, description="The namespace of a job named without one.")
]


@dataclass(frozen=True)
class Desk:
    """The context of the tools.

    Attributes:
        client: The client, which threads share.
        namespace: The namespace of jobs that are named without one; None for ``default``.
    """

    client: Client
    namespace: str | None = None

    def within(self, given: str) -> str | None:
        """Return the namespace that is *given*, or else that of the server."""
        return given or self.namespace


class OfJob(Input, frozen=True, kw_only=True):
    """The arguments of a tool about one job."""

    job: JobName
    namespace: Namespace = ""


class Listed(Input, frozen=True, kw_only=True):
    """The arguments of a list."""

    limit: Annotated[int, Meta(ge=1, le=ROWS_MAX, description="The most rows.")] = 20
    cursor: Annotated[
        str, Meta(max_length=2_000, description="The nextCursor of the page before.")
    ] = ""


def problem_of(error: Exception) -> Mapping[str, object] | None:
    """Return the problem document of an error that is no bug; None for a bug."""
    if isinstance(error, RotaError):
        return document_of(error)
    return document_of_usage(error) if isinstance(error, click.ClickException) else None


def time_in(text: str, field: str) -> str | None:
    """Return a time as RFC 3339 text; None for an empty text.

    Raises:
        Refused: The text is not a time; the error names *field*.
    """
    try:
        return time_of(text) if text else None
    except ValueError as error:
        raise invalid_fields("invalid_time", [Problem(f"/{field}", str(error))]) from error


def page_of(
    desk: Desk,
    operation: Operation[Page[Row]],
    given: Listed,
    query: Query,
    *names: str,
    namespace: str | None = None,
) -> Content:
    """Return a page of a list: ``items``, and ``nextCursor`` if there are more."""
    whole = {
        **{name: value or None for name, value in query.items()},
        "limit": given.limit,
        "cursor": given.cursor or None,
    }
    found = desk.client.ask(call(operation, *names, namespace=namespace, query=whole))
    more: Content = {"nextCursor": found.next_cursor} if found.next_cursor else {}
    return {"items": [lean(each, but="tasks") for each in found.items], **more}


def lean(view: object, but: str = "") -> Content:
    """Return a document of the API without its empty members, and without the member *but*.

    They would only fill the context of the model.
    """
    members: dict[str, Any] = msgspec.to_builtins(view)  # Any: JSON
    return {
        name: each
        for name, each in members.items()
        if each not in (None, "", [], {}) and name != but
    }


def as_content(view: object) -> Content:
    """Return a document as an object of JSON."""
    return cast("Content", msgspec.to_builtins(view))
