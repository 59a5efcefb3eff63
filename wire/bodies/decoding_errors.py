"""Errors in JSON that is not the wanted document, in words, each with a JSON pointer."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import msgspec
from msgspec import inspect

from rota.core.errors import Problem
from rota.core.quoting import QUOTED_MAX, in_quotes, shortened

_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(?P<name>.*)`", re.DOTALL)
_MISSING_FIELD = re.compile(r"Object missing required field `(?P<name>[^`]*)`")
_NOT_ALLOWED = re.compile(r"Invalid enum value (?P<value>.*)", re.DOTALL)
_WRONG_TYPE = re.compile(r"Expected `(?P<wanted>[a-z |]+)`, got `(?P<given>[a-z]+)`")
_BOUND = re.compile(r"Expected `(?:int|float)` (?P<sign>>=|<=|>|<) (?P<limit>\S+)")
_LENGTH = re.compile(r"Expected `(?P<kind>[a-z]+)` of length (?P<sign>>=|<=) (?P<limit>\d+)")
_SIGNS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
_PARTS = {"str": "characters", "array": "items", "object": "fields"}
"""The parts that the length of a value counts, by its type in msgspec."""
_NAMES = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
"""The types of JSON in words, by their names in msgspec."""
LISTED_MAX = 16
"""An error about an unknown field lists the valid fields if there are at most so many."""
SHOWN_BYTES_MAX = 64 << 10
"""The length of a body up to which an error about a limit shows the value: the body is decoded once
more for that."""
_AT_PATH = re.compile(r" - at (?P<key>`key` in )?`\$(?P<path>[^`]*)`$")
_STEP = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<place>\d+|\.\.\.)\]")


def problem_in(content: bytes | msgspec.Raw, kind: object, place: str, text: str) -> Problem:
    """Return the error for which msgspec has the message *text*.

    Args:
        content: The JSON, which is not a *kind*.
        kind: A struct, or another type of msgspec.
        place: The JSON pointer of *content* in the body.
        text: The message.
    """
    at = _AT_PATH.search(text)
    path = at["path"] if at else ""
    pointer, detail = place + _pointer(path), _AT_PATH.sub("", text)
    info = _type_at(inspect.type_info(kind), path)
    if unknown := _UNKNOWN_FIELD.match(detail):
        return unknown_field(unknown["name"], info, pointer)
    if wrong := _WRONG_TYPE.fullmatch(detail):
        detail = _wrong_type(wrong["wanted"].split(" | "), wrong["given"])
    elif missing := _MISSING_FIELD.match(detail):
        return missing_field(missing["name"], pointer)
    elif (refused := _NOT_ALLOWED.match(detail)) and (words := _words(info)):
        detail = f"{shortened(refused['value'])} is not one of {', '.join(words)}"
    elif at is not None and at["key"]:
        detail = _wrong_name(detail)
    else:
        detail = _outside_limit(detail, _shown_value(content, path))
    return Problem(pointer, detail)


def unknown_field(name: str, info: inspect.Type | None, place: str) -> Problem:
    """Return the error of the unknown field *name* of the object of type *info* at *place*."""
    shown = name[: QUOTED_MAX + 1]
    detail = f"unknown field {in_quotes(shown)}{_did_you_mean(shown, info)}"
    return Problem(f"{place}/{escaped(shown)}", detail)


def missing_field(name: str, place: str) -> Problem:
    """Return the error of the missing field *name* of the object at *place*."""
    return Problem(f"{place}/{name}", "the required field is missing; add it")


def escaped(name: str) -> str:
    """Return *name* as a part of a JSON pointer, in which two characters are special (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


def _wrong_type(wanted: list[str], given: str) -> str:
    """Return the detail about a value of type *given* where one of the types *wanted* is valid."""
    # Null is the same as omitting the field.
    words = [_NAMES.get(each, each) for each in wanted if each != "null" or len(wanted) == 1]
    quote = "; put it in quotes" if "str" in wanted and given in ("int", "float", "bool") else ""
    return f"needs {' or '.join(words)}, not {_NAMES.get(given, given)}{quote}"


def _wrong_name(text: str) -> str:
    """Return the detail about a field name for which msgspec has the message *text*."""
    length = _LENGTH.fullmatch(text)
    if length is None:
        return "the name of one of the fields is not valid; correct it"
    return f"the name of a field must have {_bound(length)} characters; shorten it"


def _outside_limit(text: str, value: str) -> str:
    """Return the detail about a value for which msgspec has the message *text*.

    Args:
        text: The message.
        value: The value as JSON, shortened; empty if it is unknown.
    """
    shown = f"{value} " if value else "the value "
    if bound := _BOUND.fullmatch(text):
        return f"{shown}is out of range; give a number that is {_bound(bound)}"
    if length := _LENGTH.fullmatch(text):
        parts = _PARTS.get(length["kind"], "items")
        return f"{shown}must have {_bound(length)} {parts}; change it"
    if "out of range" in text:
        return f"{shown}is too large a number; give a smaller one"
    return f"{shown}is not valid here; see docs/reference/api.md"


def _bound(limit: re.Match[str]) -> str:
    return f"{_SIGNS[limit['sign']]} {limit['limit']}"


def _shown_value(content: bytes | msgspec.Raw, path: str) -> str:
    """Return the JSON at *path* in *content*, shortened; empty if it cannot be found."""
    if len(bytes(content)) > SHOWN_BYTES_MAX or "..." in path:
        return ""
    try:
        value: Any = msgspec.json.decode(content)  # Any: the JSON of a client.
        for step in _STEP.finditer(path):
            value = value[int(step["place"])] if step["place"] else value[step["name"]]
        return shortened(msgspec.json.encode(value).decode())
    except (msgspec.DecodeError, LookupError, TypeError, RecursionError, OverflowError):
        # The first decoding ended before a later error, such as a missing bracket. Integers of more
        # than 64 bits can be decoded, and cannot be encoded.
        return ""


def _pointer(path: str) -> str:
    """Return the JSON pointer of a path in msgspec's notation, such as ``.tasks[0].name``.

    For a member of an object with free names msgspec writes ``[...]``; the pointer then names the
    object.
    """
    steps = (step["name"] or step["place"] for step in _STEP.finditer(path))
    return "".join(f"/{step}" for step in steps if step != "...")


def _type_at(info: inspect.Type | None, path: str) -> inspect.Type | None:
    """Return the type at *path* in a document of type *info*; None if it is unknown."""
    for step in _STEP.finditer(path):
        info = _member(_alternatives(info), step["name"])
    return info


def _member(alternatives: Sequence[inspect.Type], name: str | None) -> inspect.Type | None:
    """Return the type of the field *name* of an object, or of the items of a container."""
    for info in alternatives:
        match info:
            case inspect.StructType() if name is not None:
                found = [each.type for each in info.fields if each.encode_name == name]
                return found[0] if found else None
            case inspect.ListType() if name is None:
                return info.item_type
            case inspect.DictType() if name is None:
                return info.value_type
            case _:
                pass
    return None


def _alternatives(info: inspect.Type | None) -> Sequence[inspect.Type]:
    if info is None:
        return ()
    return info.types if isinstance(info, inspect.UnionType) else (info,)


def _words(info: inspect.Type | None) -> list[str]:
    """Return the words that a value of type *info* may be; empty for other types."""
    # Any: a literal may be a number, but the literals of the API are words.
    words: list[Any] = []
    for each in _alternatives(info):
        if isinstance(each, inspect.LiteralType):
            words += each.values
    return [str(word) for word in words]


def _did_you_mean(name: str, info: inspect.Type | None) -> str:
    """Return a hint for the unknown field *name* of an object of type *info*.

    The hint is the field with a similar spelling, else the field that has one of this name, else
    the list of all fields if they are few.
    """
    types = {field.encode_name: field.type for field in _fields_of(info)}
    fields = list(types)
    close = get_close_matches(name, fields, n=1)
    if close:
        return f"; did you mean {in_quotes(close[0])}?"
    for outer, inner in types.items():
        if name in (field.encode_name for field in _fields_of(inner)):
            return f"; it is a field of {in_quotes(outer)}"
    return f"; the fields are {', '.join(fields)}" if 0 < len(fields) <= LISTED_MAX else ""


def _fields_of(info: inspect.Type | None) -> list[inspect.Field]:
    """Return the fields of an object of type *info*; none for other types."""
    found = (each for each in _alternatives(info) if isinstance(each, inspect.StructType))
    return [field for each in found for field in each.fields]
