"""Reading of an OpenAPI document: its operations, errors and defaults."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from rota.node.api.reference.schemas import Schema


class Described(NamedTuple):
    """One operation of an OpenAPI document."""

    method: str
    path: str
    spec: Schema

    @property
    def title(self) -> str:
        """Its method and path."""
        return f"{self.method} {self.path}"


def operations_of(document: Schema) -> Iterator[Described]:
    """Yield the operations of an OpenAPI document by tag, in the order of the document."""
    for tag in document["tags"]:
        for path, methods in document["paths"].items():
            for method, spec in methods.items():
                if tag["name"] in spec["tags"]:
                    yield Described(method.upper(), path, spec)


def failure_in(document: Schema, answer: Schema) -> Schema:
    """Return the error of an operation: *answer*, or the shared error to which it refers."""
    name = answer["$ref"].rpartition("/")[2] if "$ref" in answer else ""
    found: Schema = document["components"]["responses"][name] if name else answer
    return found


def default_of(schema: Schema) -> str:
    """Return the default of a parameter or field as JSON; empty if there is none or it is null."""
    default = schema.get("default")
    return "" if default is None else msgspec.json.encode(default).decode()
