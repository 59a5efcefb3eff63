"""The API's description in OpenAPI 3.1, generated from the declarations of the operations.

Paths come from the handlers' declarations, schemas from the types of documents, and texts from the
docstrings of both. Nothing is stated twice, so the description cannot become outdated.
"""

import re
from collections.abc import Iterable, Sequence
from http import HTTPStatus

import msgspec

import rota
from rota.node.api.reference.schemas import (
    Schema,
    Schemas,
    add_patch_of,
    in_markdown,
    reference_to,
    schemas_of,
    with_optional,
)
from rota.node.api.requests.error_codes import CODES
from rota.node.api.requests.operations import (
    ACCEPTED,
    ETAG,
    JSON,
    LOCATION,
    PATH_PARTS,
    Body,
    Header,
    Operation,
    Success,
)
from rota.node.api.requests.parameters import DRY_RUN, Parameter
from rota.node.api.requests.permissions import Scope
from rota.node.api.requests.problems import CONTENT_TYPE
from rota.wire.documents import (
    CreateManyBody,
    JobBody,
    Json,
    PauseBody,
    ProblemView,
    TriggerBody,
    TriggerManyBody,
    WaitManyBody,
)
from rota.wire.headers import NODE, PRIMARY

ABOUT = """\
Fields are in camelCase. Instants are in the format of RFC 3339, in UTC with microseconds; a query
may use any offset. A duration is a number of seconds, or text with units such as `1h30m`. Later
versions may add fields to responses, and clients must ignore unknown fields. Unknown fields and
parameters of a request are refused. Every path that supports GET supports HEAD. Every error is a
problem document (RFC 9457); programs should use its `code`.
"""

EXAMPLES: dict[type[msgspec.Struct], Json] = {
    JobBody: {
        "name": "report",
        "schedule": "0 6 * * *",
        "timezone": "Europe/Berlin",
        "command": "make report",
        "retries": 3,
        "timeout": "30m",
    },
    CreateManyBody: {
        "items": [{"name": "a", "command": "true"}, {"name": "b", "command": ["sleep", "1"]}]
    },
    PauseBody: {"reason": "moving house"},
    TriggerBody: {"parameters": {"day": "2027-01-01"}},
    TriggerManyBody: {"items": [{"job": "report"}, {"job": "team/load", "parameters": [1, 2]}]},
    WaitManyBody: {"executionIds": ["3f2a9c0011223344-0660c1a4f8fe40-0000"], "timeout": "30s"},
}
"""Examples of bodies, for the operations that most clients use first."""

DRY_RUN_DONE = Header(
    "Rota-Dry-Run", "`true` for a dry run, which changed nothing.", {"const": "true"}
)
REQUEST_ID = Header(
    "X-Request-Id",
    "The id of the request: that of its own header `X-Request-Id`, or a new one. The node's log "
    "has the same id.",
)
RECEIVER = Header(NODE, "The node that received the request.")
HANDLER = Header(PRIMARY, "The primary that handled the request, if it was forwarded.")
RETRY_AFTER = Header(
    "Retry-After", "The number of seconds after which to try again.", {"type": "integer"}
)
EVERY = (REQUEST_ID, RECEIVER, HANDLER)
OPTIONAL = (DRY_RUN_DONE, HANDLER)
ACCEPT = {
    method: Header(name, "The accepted media types of a body.")
    for method, (name, _) in ACCEPTED.items()
}
_BEARER = "bearer"
_HEADERS = (LOCATION, ETAG, DRY_RUN_DONE, *EVERY, RETRY_AFTER, *ACCEPT.values())


def describe(operations: Sequence[Operation]) -> Schema:
    """Return the OpenAPI document of *operations*."""
    schemas = schemas_of(_documents(operations))
    paths: dict[str, Schema] = {}
    failures = _Failures()
    for operation in operations:
        described = _operation(operation, schemas, failures)
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "rota",
            "version": rota.__version__,
            "description": ABOUT,
            "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The node that serves this document."}],
        "security": [{_BEARER: []}],
        "tags": [{"name": tag} for tag in dict.fromkeys(each.tag for each in operations)],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "responses": failures.components,
            "headers": {header.name: _header(header) for header in _HEADERS},
            "securitySchemes": {
                _BEARER: {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token of a key, of an identity provider or of an attempt. "
                    "A node whose setting `auth` is `open` needs none; a client certificate may "
                    "replace it.",
                }
            },
        },
    }


# -- operations ------------------------------------------------------------------------------------


def _operation(operation: Operation, schemas: Schemas, failures: "_Failures") -> Schema:
    described: Schema = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": in_markdown(operation.summary),
        "description": in_markdown(operation.description),
        "parameters": [
            *(_path_part(name) for name in re.findall(r"{(\w+)}", operation.path)),
            *(_parameter(parameter) for parameter in operation.query or ()),
            # OpenAPI excludes Accept here, since the responses list their media types.
            *(_request_header(each) for each in operation.headers if each.name != "Accept"),
        ],
        "responses": _successes(operation) | failures.of(operation),
    }
    if operation.permission.scope in (Scope.PUBLIC, Scope.LOCAL):
        described["security"] = [{}]
    if operation.body:
        described["requestBody"] = _body(operation, operation.body, schemas)
    return {name: value for name, value in described.items() if value not in ("", [])}


def _path_part(name: str) -> Schema:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": PATH_PARTS[name],
        "schema": {"type": "string", "minLength": 1},
    }


def _parameter(parameter: Parameter[object]) -> Schema:
    schema = dict(parameter.schema)
    if parameter.is_repeatable:
        schema = {"type": "array", "items": schema}
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.meaning,
        "schema": schema,
    }


def _request_header(header: Header) -> Schema:
    return {
        "name": header.name,
        "in": "header",
        "description": header.meaning,
        "schema": dict(header.schema),
    }


def _body(operation: Operation, body: Body, schemas: Schemas) -> Schema:
    name = body.kind.__name__
    if body.in_path:
        bare = with_optional(schemas[name], body.in_path)
        name = bare["title"]
        schemas[name] = bare
    if body.is_patch:
        name = add_patch_of(name, schemas)
    content: Schema = {"schema": reference_to(name)}
    if body.kind in EXAMPLES and not body.is_patch:
        content["example"] = EXAMPLES[body.kind]
    return {
        "required": not body.is_optional,
        "content": dict.fromkeys(ACCEPTED[operation.method][1], content),
    }


def _successes(operation: Operation) -> Schema:
    has_dry_run = any(parameter is DRY_RUN for parameter in operation.query or ())
    every = (*EVERY, DRY_RUN_DONE) if has_dry_run else EVERY
    return {str(each.status): _success(each, every) for each in operation.answers}


def _success(success: Success, every: tuple[Header, ...]) -> Schema:
    described: Schema = {
        "description": success.meaning,
        "headers": _headers((*success.headers, *every)),
    }
    if success.media_types:
        described["content"] = {
            media_type: {"schema": _content(success, media_type)}
            for media_type in success.media_types
        }
    return described


def _content(success: Success, media_type: str) -> Schema:
    if success.content is None:
        return {"type": "object" if media_type == JSON else "string"}
    name = success.content.__name__
    if media_type == JSON:
        return reference_to(name)
    # OpenAPI 3.1 cannot describe a stream of documents.
    return {
        "type": "string",
        "description": f"A stream of `{name}` documents.",
        "x-stream-of": name,
    }


class _Failures:
    """The errors of operations, each described once and then referred to.

    Attributes:
        components: The descriptions, by name.
    """

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {}
        self._names: dict[tuple[int, str, tuple[str, ...]], str] = {}

    def of(self, operation: Operation) -> Schema:
        """Return the errors of an operation, by status."""
        by_status: dict[int, list[str]] = {}
        for code in operation.codes:
            by_status.setdefault(CODES[code].status, []).append(code)
        return {
            str(status): {"$ref": f"#/components/responses/{self._name(operation, status, codes)}"}
            for status, codes in sorted(by_status.items())
        }

    def _name(self, operation: Operation, status: int, codes: list[str]) -> str:
        """Return the name of an error: its status and a number."""
        method = operation.method if status == HTTPStatus.UNSUPPORTED_MEDIA_TYPE else ""
        key = status, method, tuple(codes)
        if key not in self._names:
            number = 1 + sum(other == status for other, _, _ in self._names)
            self._names[key] = name = f"Error{status}.{number}"
            self.components[name] = _failure(method, status, codes)
        return self._names[key]


def _failure(method: str, status: int, codes: list[str]) -> Schema:
    headers = [*EVERY]
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        headers.append(RETRY_AFTER)
    if status == HTTPStatus.UNSUPPORTED_MEDIA_TYPE and method in ACCEPT:
        headers.append(ACCEPT[method])
    return {
        "description": "\n".join(
            f"- `{code}`: {in_markdown(CODES[code].meaning)}." for code in codes
        ),
        "headers": _headers(headers),
        "content": {
            CONTENT_TYPE: {
                "schema": {
                    **reference_to(ProblemView.__name__),
                    "properties": {"status": {"const": status}, "code": {"enum": codes}},
                }
            }
        },
    }


def _headers(headers: Iterable[Header]) -> Schema:
    return {each.name: {"$ref": f"#/components/headers/{each.name}"} for each in headers}


def _header(header: Header) -> Schema:
    return {
        "description": header.meaning,
        "required": header not in OPTIONAL,
        "schema": dict(header.schema),
    }


def _documents(operations: Iterable[Operation]) -> list[type[msgspec.Struct]]:
    """Return the documents of all bodies and responses."""
    kinds: dict[type[msgspec.Struct], None] = {ProblemView: None}
    for operation in operations:
        if operation.body:
            kinds[operation.body.kind] = None
        kinds |= {each.content: None for each in operation.answers if each.content}
    return list(kinds)
