"""JSON Schemas of documents, with the texts of their docstrings."""

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from typing import cast

import msgspec

from rota.wire.documents import Json

Schema = dict[str, Json]
Schemas = dict[str, Schema]

PLACE = "#/components/schemas/"


def schemas_of(kinds: Iterable[type[msgspec.Struct]]) -> Schemas:
    """Return the schemas of documents and of the documents within them, by name."""
    _, schemas = msgspec.json.schema_components(kinds, ref_template=PLACE + "{name}")
    return {name: _described(cast("Schema", schema)) for name, schema in schemas.items()}


def reference_to(name: str) -> Schema:
    """Return a reference to the schema of the document *name*."""
    return {"$ref": PLACE + name}


def with_optional(schema: Schema, names: Sequence[str]) -> Schema:
    """Return a variant of *schema* in which the fields *names* are optional."""
    listed = " and ".join(f"`{name}`" for name in names)
    return {
        **schema,
        "title": f"{schema['title']}Unnamed",
        "x-variant-of": schema["title"],
        "description": f"A `{schema['title']}` with optional {listed}.",
        "required": [name for name in schema["required"] if name not in names],
    }


def add_patch_of(name: str, schemas: Schemas) -> str:
    """Add the schema of merge patches (RFC 7396) of a document, and return its name."""
    patch = f"{name}Patch"
    schemas[patch] = {
        **_patch_of(schemas[name], schemas),
        "title": patch,
        "x-variant-of": name,
        "description": f"Some fields of a `{name}`; null removes a field.",
    }
    return patch


def _patch_of(schema: Schema, schemas: Schemas) -> Schema:
    if "$ref" in schema:
        return reference_to(add_patch_of(schema["$ref"].removeprefix(PLACE), schemas))
    patch = {name: value for name, value in schema.items() if name not in ("required", "default")}
    if "properties" in schema:
        patch["properties"] = {
            name: _or_null(_patch_of(field, schemas))
            for name, field in schema["properties"].items()
        }
    if isinstance(schema.get("additionalProperties"), dict):
        patch["additionalProperties"] = _or_null(schema["additionalProperties"])
    if "anyOf" in schema:
        patch["anyOf"] = [_patch_of(each, schemas) for each in schema["anyOf"]]
    return patch


def _or_null(schema: Schema) -> Schema:
    null = {"type": "null"}
    description = {"description": schema["description"]} if "description" in schema else {}
    bare = {name: value for name, value in schema.items() if name != "description"}
    if not bare:
        return schema
    options = bare.get("anyOf", [bare])
    return {"anyOf": [*(each for each in options if each != null), null], **description}


# -- words -----------------------------------------------------------------------------------------


def type_of(schema: Schema, link: Callable[[str], str]) -> str:
    """Return the type of a schema in words; *link* makes the link to another document."""
    if "$ref" in schema:
        return link(schema["$ref"].removeprefix(PLACE))
    if "x-stream-of" in schema:
        return f"stream of {link(schema['x-stream-of'])}"
    if "anyOf" in schema:
        kinds = dict.fromkeys(type_of(each, link) for each in schema["anyOf"])
        if "number" in kinds:
            kinds.pop("integer", None)
        return " or ".join(kinds)
    if "enum" in schema:
        return f"one of {', '.join(schema['enum'])}"
    kind = schema.get("type", "any JSON")
    if kind == "array":
        return f"list of {type_of(schema.get('items', {}), link)}"
    if kind == "object":
        values = schema.get("additionalProperties", {})
        return f"object of {type_of(values, link)}" if values else "object"
    if schema.get("format") == "date-time":
        return "instant"
    if "minimum" in schema and "maximum" in schema:
        return f"{kind}, {schema['minimum']:,} to {schema['maximum']:,}"
    return str(kind)


def in_markdown(text: str) -> str:
    """Return the text of a docstring in Markdown; ``*field_name*`` names a field."""
    text = text.replace("``", "`")
    return re.sub(r"\*(\w+)\*", lambda found: f"`{_field_name(found[1])}`", text)


def _described(schema: Schema) -> Schema:
    """Return *schema* with its docstring split into descriptions of the document and of fields."""
    text, _, attributes = inspect.cleandoc(schema["description"]).partition("\nAttributes:\n")
    meanings = {
        field: in_markdown(" ".join(meaning.split()))
        for name, meaning in re.findall(r"^ +(\w+): (.*(?:\n {8,}.*)*)", attributes, re.MULTILINE)
        for field in (name, _field_name(name))
    }
    properties = {
        name: {**field, "description": meanings[name]} if name in meanings else field
        for name, field in schema["properties"].items()
    }
    return {**schema, "description": in_markdown(text.strip()), "properties": properties}


def _field_name(name: str) -> str:
    """Return the name that a Python field has in documents, converted in the way of msgspec."""
    first, *others = name.split("_")
    return first + "".join(each.title() for each in others)
