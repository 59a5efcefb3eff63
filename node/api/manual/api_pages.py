"""``docs/reference/api.md``: the description of the API, with fragments of prose and examples.

``make docs`` writes the page. What is declared comes from the OpenAPI document; what only a person
can write is in a folder of fragments: ``introduction.md``, and one file for each operation that
has more to say, named after its handler. Their examples are requests that the tests send.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

from rota.node.api.app import OPERATIONS
from rota.node.api.reference.html_page import Described, default_of, operations_of
from rota.node.api.reference.openapi import describe
from rota.node.api.reference.schemas import Schema, type_of
from rota.node.api.requests.error_codes import CODES
from rota.node.api.requests.operations import JSON
from rota.wire.documents import Json

REQUESTS, FAILURES = "<!-- requests -->", "<!-- failures -->"
"""Where the introduction wants these tables."""
REQUIRED = """\
A field that is `required` has to be in the body of a request, and is in every answer. The others
have defaults, `null` where none is given.
"""


def page_of(document: Schema, fragments: Mapping[str, str]) -> str:
    """Return the page; *fragments* by the names of their files, without the ending."""
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
            if tag["name"] in each.says["tags"]:
                chapters.append(_operation(each))
                chapters.append(fragments.get(each.says["operationId"], ""))
    schemas = document["components"]["schemas"]
    documents = (_document(name, schema) for name, schema in schemas.items())
    blocks = [introduction, *chapters, "## Documents", REQUIRED, *documents]
    return "\n\n".join(block.strip() for block in blocks if block) + "\n"


def fragments_in(folder: Path) -> dict[str, str]:
    """Return the fragments in *folder*."""
    return {file.stem: file.read_text() for file in folder.glob("*.md")}


def main() -> None:
    """Write the page of a folder of fragments beside it."""
    folder = Path(sys.argv[1])
    page = page_of(describe(OPERATIONS), fragments_in(folder))
    folder.with_suffix(".md").write_text(page)


def _requests(operations: Iterable[Described]) -> Iterator[str]:
    yield from table(
        ("request", "does"),
        (
            (f"[`{each.title}`](#{_anchor(each.title)})", cell(each.says["summary"]))
            for each in operations
        ),
    )


def _failures() -> Iterator[str]:
    rows = sorted((each.status, code, each.meaning) for code, each in CODES.items())
    yield from table(
        ("status", "code", "when"),
        ((str(status), f"`{code}`", meaning) for status, code, meaning in rows),
    )


def _operation(operation: Described) -> str:
    says = operation.says
    blocks = [f"### `{operation.title}`", says["summary"], says.get("description", "")]
    if "parameters" in says:
        blocks.append("\n".join(_parameters(says["parameters"])))
    if "requestBody" in says:
        blocks.append(_body(says["requestBody"]))
    blocks += ["\n".join(_successes(says["responses"])), _failure_codes(says["responses"])]
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
        ("status", "answer", "meaning"),
        (
            (status, _contents(each), cell(each["description"]))
            for status, each in sorted(answers.items())
            if status < "300"
        ),
    )


def _failure_codes(answers: Mapping[str, Schema]) -> str:
    listed = [
        f"{status} {', '.join(f'`{code}`' for code in _codes(each))}"
        for status, each in sorted(answers.items())
        if status >= "300"
    ]
    return f"Failures: {'; '.join(listed)}."


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


def table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a table, without the columns that are empty."""
    kept = list(rows)
    columns = [number for number in range(len(header)) if any(row[number] for row in kept)]
    for row in (header, ("---",) * len(header), *kept):
        yield f"| {' | '.join(row[number] for number in columns)} |"


def _link(name: str) -> str:
    return f"[{name}](#{_anchor(name)})"


def _anchor(heading: str) -> str:
    """Return what GitHub makes of a heading, to link to it."""
    kept = (each for each in heading.lower() if each.isalnum() or each in "-_ ")
    return "".join(kept).replace(" ", "-")


def cell(text: str) -> str:
    """Return *text* as it can stand in a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def with_section(page: str, name: str, lines: Iterable[str]) -> str:
    """Return *page* with *lines* between the two marks of *name*.

    Raises:
        ValueError: The page does not have the marks exactly once.
    """
    begin, end = f"<!-- {name}: written by `make docs` -->", f"<!-- /{name} -->"
    made = "\n\n".join((begin, "\n".join(lines).strip(), end))
    between = f"{re.escape(begin)}.*{re.escape(end)}"
    written, count = re.subn(between, lambda _: made, page, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"the page must have {begin}, and {end} after it")
    return written


if __name__ == "__main__":
    main()
