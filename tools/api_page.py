"""Generator of docs/reference/api.md: the API's description, with fragments of prose and examples.

``make docs`` writes the page. Declared facts come from the OpenAPI document. Prose comes from a
folder of fragments: ``introduction.md``, and at most one file for each operation, named after its
handler. The tests send the requests in the examples of the fragments.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

from rota.node.api.app import OPERATIONS
from rota.node.api.reference.described import Described, default_of, failure_in, operations_of
from rota.node.api.reference.openapi import describe
from rota.node.api.reference.schemas import Schema, type_of
from rota.node.api.requests.error_codes import CODES
from rota.node.api.requests.operations import JSON
from rota.wire.documents import Json
from tools.markdown import cell, table

REQUESTS, FAILURES = "<!-- requests -->", "<!-- failures -->"
"""Marks in the introduction, which are replaced by the tables of requests and of failures."""
REQUIRED = """\
A `required` field must be in the body of a request, and is in every response. The other fields have
the default shown, or `null`.
"""


def page_of(document: Schema, fragments: Mapping[str, str]) -> str:
    """Return the page.

    Args:
        document: The OpenAPI document.
        fragments: The texts of the fragments, by file name without extension.
    """
    operations = list(operations_of(document))
    introduction = (
        fragments["introduction"]
        .replace(REQUESTS, "\n".join(_requests(operations)))
        .replace(FAILURES, "\n".join(_failures()))
    )
    chapters: list[str] = []
    for tag in document["tags"]:
        chapters.append(f"## {tag['name']}")
        for each in operations:
            if tag["name"] in each.spec["tags"]:
                chapters.append(_operation(each, document))
                chapters.append(fragments.get(each.spec["operationId"], ""))
    schemas = document["components"]["schemas"]
    documents = (_document(name, schema) for name, schema in schemas.items())
    blocks = [introduction, *chapters, "## Documents", REQUIRED, *documents]
    return "\n\n".join(block.strip() for block in blocks if block) + "\n"


def fragments_in(folder: Path) -> dict[str, str]:
    """Return the fragments in *folder*, by file name without extension."""
    return {file.stem: file.read_text() for file in folder.glob("*.md")}


def main() -> None:
    """Write the page beside the folder of fragments that the command line names."""
    folder = Path(sys.argv[1])
    page = page_of(describe(OPERATIONS), fragments_in(folder))
    folder.with_suffix(".md").write_text(page)


def _requests(operations: Iterable[Described]) -> Iterator[str]:
    yield from table(
        ("request", "function"),
        (
            (f"[`{each.title}`](#{_anchor(each.title)})", cell(each.spec["summary"]))
            for each in operations
        ),
    )


def _failures() -> Iterator[str]:
    rows = sorted((each.status, code, each.meaning) for code, each in CODES.items())
    yield from table(
        ("status", "code", "when"),
        ((str(status), f"`{code}`", meaning) for status, code, meaning in rows),
    )


def _operation(operation: Described, document: Schema) -> str:
    spec = operation.spec
    blocks = [f"### `{operation.title}`", spec["summary"], spec.get("description", "")]
    if "parameters" in spec:
        blocks.append("\n".join(_parameters(spec["parameters"])))
    if "requestBody" in spec:
        blocks.append(_body(spec["requestBody"]))
    blocks += [
        "\n".join(_successes(spec["responses"])),
        _failure_codes(document, spec["responses"]),
    ]
    return "\n\n".join(block for block in blocks if block)


def _parameters(parameters: Iterable[Schema]) -> Iterator[str]:
    yield from table(
        ("parameter", "in", "type", "default", "meaning"),
        (
            (
                f"`{each['name']}`",
                each["in"],
                type_of(each["schema"], _link),
                default_of(each["schema"]),
                cell(each["description"]),
            )
            for each in parameters
        ),
    )


def _body(body: Schema) -> str:
    content = next(iter(body["content"].values()))
    tail = "" if body["required"] else ", or empty"
    return f"The body is {type_of(content['schema'], _link)}{tail}."


def _successes(answers: Mapping[str, Schema]) -> Iterator[str]:
    yield from table(
        ("status", "response", "meaning"),
        (
            (status, _contents(each), cell(each["description"]))
            for status, each in sorted(answers.items())
            if status < "300"
        ),
    )


def _failure_codes(document: Schema, answers: Mapping[str, Schema]) -> str:
    listed = [
        f"{status} {', '.join(f'`{code}`' for code in _codes(failure_in(document, each)))}"
        for status, each in sorted(answers.items())
        if status >= "300"
    ]
    return f"Errors: {'; '.join(listed)}."


def _contents(answer: Schema) -> str:
    return " or ".join(
        type_of(content["schema"], _link)
        if media_type == JSON
        else f"{type_of(content['schema'], _link)}, `{media_type}`"
        for media_type, content in answer.get("content", {}).items()
    )


def _codes(failure: Schema) -> list[str]:
    [content] = failure["content"].values()
    codes: list[str] = content["schema"]["properties"]["code"]["enum"]
    return codes


def _document(name: str, schema: Schema) -> str:
    lines: Iterable[str] = ()
    if "x-variant-of" not in schema:
        required: list[Json] = schema.get("required", [])
        lines = table(
            ("field", "type", "default", "meaning"),
            (
                (
                    f"`{field}`",
                    type_of(each, _link),
                    "required" if field in required else default_of(each),
                    cell(each.get("description", "")),
                )
                for field, each in schema["properties"].items()
            ),
        )
    return "\n".join(chain((f"### `{name}`", "", schema["description"], ""), lines))


def _link(name: str) -> str:
    return f"[{name}](#{_anchor(name)})"


def _anchor(heading: str) -> str:
    """Return the anchor that GitHub generates for a heading."""
    kept = (each for each in heading.lower() if each.isalnum() or each in "-_ ")
    return "".join(kept).replace(" ", "-")


if __name__ == "__main__":
    main()
