"""Generator of the table of fields in docs/reference/jobs.md, and of job.schema.json beside it.

``make docs`` writes both; the schema is a link to `wire/job.schema.json`, which `rota export` has.
Types, defaults and meanings come from the OpenAPI document, the order and the links from
`rota.wire.job_fields`. Editors check job files with the schema.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rota.node.api.app import OPERATIONS
from rota.node.api.reference.described import default_of
from rota.node.api.reference.openapi import describe
from rota.node.api.reference.schemas import Schema, type_of
from rota.wire.job_fields import JOB_FIELDS
from tools.markdown import cell, table, with_section

REFERENCE, DEFINITIONS = "#/components/schemas/", "#/$defs/"


def fields_table(schemas: Schema) -> Iterator[str]:
    """Yield the lines of the table of a job's fields."""
    body: Schema = schemas["JobBody"]["properties"]
    rows = [
        (
            f"[`{field.key}`]({field.more})" if field.more else f"`{field.key}`",
            type_of(body[field.key], lambda name: f"[{name}](api.md#{name.lower()})"),
            default_of(body[field.key]),
            cell(body[field.key]["description"]),
        )
        for field in JOB_FIELDS
    ]
    yield from table(("field", "type", "default", "meaning"), rows)


def schema_of_jobs(schemas: Schema) -> Schema:
    """Return the JSON Schema of a job, with the schemas that it refers to."""
    found: dict[str, Any] = {}

    def add(name: str) -> None:
        if name not in found:
            found[name] = schemas[name]
            for each in _references(schemas[name]):
                add(each)

    add("JobBody")
    text = json.dumps(found).replace(REFERENCE, DEFINITIONS)
    definitions: Schema = json.loads(text)
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, **definitions.pop("JobBody"), "$defs": definitions}


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(reference := value.get("$ref"), str):  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            yield reference.removeprefix(REFERENCE)
        for each in value.values():  # pyright: ignore[reportUnknownVariableType]
            yield from _references(each)
    elif isinstance(value, list):
        for each in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _references(each)


def main() -> None:
    """Write the table into the page that the command line names, and the schema beside it."""
    page = Path(sys.argv[1])
    schemas: Schema = describe(OPERATIONS)["components"]["schemas"]
    page.write_text(with_section(page.read_text(), "fields", fields_table(schemas)))
    schema = json.dumps(schema_of_jobs(schemas), indent=1, ensure_ascii=False)
    page.with_name("job.schema.json").write_text(schema + "\n")


if __name__ == "__main__":
    main()
