"""The API's description as one HTML page, without scripts or external resources.

The page is generated from the OpenAPI document.
"""

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator
from html import escape
from typing import NamedTuple

import msgspec

from rota.node.api.reference.schemas import Schema, type_of

STYLE = """
:root { color-scheme: light dark; --line: #8884; --quiet: #8882; --accent: #1760c4; }
@media (prefers-color-scheme: dark) { :root { --accent: #7db4ff; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; }
body { margin: 0 auto; padding: 0 1rem 4rem; }
h2 { border-bottom: 1px solid var(--line); margin-top: 3rem; }
section { margin: 2rem 0; scroll-margin-top: 1rem; }
h3 { margin: 0; font: 600 1rem/1.5 ui-monospace, monospace; overflow-wrap: anywhere; }
h4 { margin: 1rem 0 .25rem; font-size: .9rem; }
p { margin: .5rem 0; }
a { color: var(--accent); }
code, pre { font: .9em ui-monospace, monospace; background: var(--quiet); border-radius: 3px; }
code { padding: .1em .3em; overflow-wrap: anywhere; }
pre { padding: .75rem; overflow-x: auto; }
nav ul { list-style: none; padding: 0; columns: 22rem; }
nav li { break-inside: avoid; overflow-wrap: anywhere; }
dl { margin: 0; }
dt { margin-top: .5rem; padding-top: .5rem; border-top: 1px solid var(--line); }
dd { margin: 0 0 0 1rem; }
small { opacity: .8; }
summary { cursor: pointer; margin-top: 1rem; font-size: .9rem; }
"""
_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page's Content-Security-Policy, which permits its own style and nothing else."""


def page_of(document: Schema) -> str:
    """Return the page that shows an OpenAPI document."""
    operations = list(operations_of(document))
    tags = [tag["name"] for tag in document["tags"]]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            "<title>The API of rota</title>",
            f"<style>{STYLE}</style>",
            f"<h1>The API of rota <small>{escape(document['info']['version'])}</small></h1>",
            _paragraphs(document["info"]["description"]),
            '<p>For programs: <a href="/openapi.json">openapi.json</a></p>',
            *_contents(operations),
            *(part for tag in tags for part in _chapter(tag, operations)),
            "<h2>Documents</h2>",
            *(_schema(name, each) for name, each in document["components"]["schemas"].items()),
            "</html>",
        ]
    )


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


def default_of(schema: Schema) -> str:
    """Return the default of a parameter or field as JSON; empty if there is none or it is null."""
    default = schema.get("default")
    return "" if default is None else msgspec.json.encode(default).decode()


def _contents(operations: Iterable[Described]) -> Iterator[str]:
    yield "<nav><ul>"
    for each in operations:
        yield f'<li><a href="#{each.spec["operationId"]}"><code>{escape(each.title)}</code></a>'
    yield "</ul></nav>"


def _chapter(tag: str, operations: Iterable[Described]) -> Iterator[str]:
    yield f"<h2>{escape(tag)}</h2>"
    for each in operations:
        if tag in each.spec["tags"]:
            yield from _operation(each)


def _operation(operation: Described) -> Iterator[str]:
    spec = operation.spec
    yield f'<section id="{spec["operationId"]}"><h3>{escape(operation.title)}</h3>'
    yield _paragraphs(spec["summary"])
    yield _paragraphs(spec.get("description", ""))
    if "parameters" in spec:
        yield "<h4>Parameters</h4>"
        yield _definitions(
            (
                f"<code>{escape(each['name'])}</code> {_facts(each['in'], each['schema'])}",
                each.get("description", ""),
            )
            for each in spec["parameters"]
        )
    if "requestBody" in spec:
        yield from _body(spec["requestBody"])
    successes = {status: each for status, each in spec["responses"].items() if status < "300"}
    failures = {status: each for status, each in spec["responses"].items() if status >= "300"}
    yield "<h4>Responses</h4>"
    yield _definitions(_answer(status, each) for status, each in successes.items())
    yield "<details><summary>Errors</summary>"
    yield _definitions(_answer(status, each) for status, each in failures.items())
    yield "</details></section>"


def _body(body: Schema) -> Iterator[str]:
    content = next(iter(body["content"].values()))
    needed = "" if body["required"] else " <small>may be empty</small>"
    yield f"<h4>Body</h4><p>{type_of(content['schema'], _link)}{needed}</p>"
    if "example" in content:
        example = msgspec.json.format(msgspec.json.encode(content["example"]), indent=2)
        yield f"<pre>{escape(example.decode())}</pre>"


def _answer(status: str, answer: Schema) -> tuple[str, str]:
    contents = answer.get("content", {})
    kinds = [
        f"{type_of(content['schema'], _link)} <small>{escape(media_type)}</small>"
        for media_type, content in contents.items()
    ]
    return f"<code>{status}</code> {', '.join(kinds)}", answer["description"]


def _schema(name: str, schema: Schema) -> str:
    required = schema.get("required", [])
    fields = _definitions(
        (
            f"<code>{escape(field)}</code> {_facts('required' if field in required else '', each)}",
            each.get("description", ""),
        )
        for field, each in schema["properties"].items()
        if "x-variant-of" not in schema
    )
    title = f'<section id="{name}"><h3>{name}</h3>'
    return f"{title}{_paragraphs(schema['description'])}{fields}</section>"


def _facts(fact: str, schema: Schema) -> str:
    """Return the type and default of a parameter or field, in small print."""
    default = default_of(schema)
    facts = [fact, type_of(schema, _link), default and f"default {escape(default)}"]
    return f"<small>{', '.join(each for each in facts if each)}</small>"


def _definitions(items: Iterable[tuple[str, str]]) -> str:
    listed = [f"<dt>{term}</dt><dd>{_paragraphs(text)}</dd>" for term, text in items]
    return f"<dl>{''.join(listed)}</dl>"


def _link(name: str) -> str:
    return f'<a href="#{name}">{name}</a>'


def _paragraphs(markdown: str) -> str:
    """Return the HTML of a description; its Markdown has paragraphs, lists and code only."""
    blocks = [block for block in re.split(r"\n\n+", markdown.strip()) if block]
    return "".join(_list(block) if block.startswith("- ") else _text(block) for block in blocks)


def _list(block: str) -> str:
    items = re.split(r"\n?^- ", block, flags=re.MULTILINE)[1:]
    return f"<ul>{''.join(f'<li>{_inline(item)}</li>' for item in items)}</ul>"


def _text(block: str) -> str:
    return f"<p>{_inline(block)}</p>"


def _inline(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text, quote=False))
