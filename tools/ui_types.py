"""Generator of ui/src/lib/types.ts: the documents that the web page reads, as TypeScript types.

``make docs`` writes the file from the node's OpenAPI document. A node sends each field of a
document, so that none of the types has optional fields.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from rota.node.api.app import OPERATIONS
from rota.node.api.reference.openapi import describe
from rota.node.api.reference.schemas import PLACE, Schema

FILE = "ui/src/lib/types.ts"
READ = (
    *("JobView", "ExecutionView", "LedgerEntryView", "NextFireView", "BackfillView"),
    "ExplanationView",
    *("CalendarBody", "ClusterView", "EventView", "ProblemView", "StateView"),
)
"""The documents that the page reads. Those within them are written too."""
RENAMED = {
    "ErrorView": "ErrorDocument",
    "EventView": "LiveEvent",
    "NodeView": "ClusterNode",
    "ProblemView": "ProblemDocument",
    "StateView": "StateValue",
}
"""Names of types that would hide a class of the browser without their suffix, or say too little."""
BEGINNING = """\
/** The documents of the API that the page reads. Written by `make docs`: do not edit. */

export type Page<T> = { items: T[]; nextCursor: string | null }
"""
SIMPLE = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}


def types_of(schemas: Mapping[str, Schema]) -> str:
    """Return the text of the file."""
    names = sorted(_reached(schemas), key=_name)
    return "\n".join([BEGINNING, *(_type(name, schemas[name]) for name in names)])


def _reached(schemas: Mapping[str, Schema]) -> set[str]:
    """Return the names of the documents that are read, and of those within them."""
    reached: set[str] = set()
    left = list(READ)
    while left:
        name = left.pop()
        if name not in reached:
            reached.add(name)
            left += re.findall(f'"{re.escape(PLACE)}(\\w+)"', json.dumps(schemas[name]))
    return reached


def _type(name: str, schema: Schema) -> str:
    return "\n".join([f"export type {_name(name)} = {{", *_fields(schema), "}", ""])


def _fields(schema: Schema) -> Iterator[str]:
    for field, its_schema in schema["properties"].items():
        yield f"  {field}: {_expression(its_schema)}"


def _expression(schema: Schema) -> str:
    """Return the type of the values that a schema permits."""
    if "$ref" in schema:
        return _name(schema["$ref"].removeprefix(PLACE))
    if "anyOf" in schema:
        return " | ".join(_expression(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(json.dumps(each) for each in schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        items = _expression(schema.get("items", {}))
        return f"({items})[]" if " " in items else f"{items}[]"
    if kind == "object":
        return f"Record<string, {_expression(schema.get('additionalProperties') or {})}>"
    return SIMPLE[kind] if kind else "unknown"


def _name(document: str) -> str:
    return RENAMED.get(document, document.removesuffix("View"))


def main() -> None:
    """Write the file."""
    made = types_of(describe(OPERATIONS)["components"]["schemas"])
    (Path(__file__).resolve().parents[1] / FILE).write_text(made)


if __name__ == "__main__":
    main()
