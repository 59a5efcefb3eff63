"""Decoding of JSON as documents of the API; errors name the fields by JSON pointers.

The decoder ends at the first error. A body that is refused is therefore examined field by field, so
that all its errors are reported together, up to `PROBLEMS_MAX` and for bodies up to
`EXAMINED_BYTES_MAX`: the cost of a refusal does not grow with the body.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import inspect

from rota.core.decoding import NESTING_MAX, is_too_deep, repeated_key, second_key
from rota.core.errors import Kind, Problem, Refused, invalid, invalid_fields
from rota.wire.bodies.decoding_errors import escaped, missing_field, problem_in, unknown_field

T = TypeVar("T")

PROBLEMS_MAX = 20
"""The most errors of one body in a response, as of a valid body with an invalid job."""
EXAMINED_BYTES_MAX = 64 << 10
"""The length of a body up to which all its errors are found; of a longer one, the first is."""


def decode(content: bytes | msgspec.Raw, kind: type[T], place: str = "") -> T:
    """Return JSON *content* as a *kind*.

    Args:
        content: JSON in UTF-8.
        kind: A struct, or another type of msgspec.
        place: The JSON pointer of *content* in the body; empty if *content* is the whole body.

    Raises:
        Refused: Code ``malformed_json``: *content* is not JSON; code ``invalid_body``: *content* is
            not a *kind*; the errors have pointers to the fields.
    """
    if is_too_deep(bytes(content)):
        detail = f"the request body has more than {NESTING_MAX} levels; use fewer"
        raise invalid("invalid_body", detail)
    try:
        return _decoder(kind).decode(content)
    except msgspec.ValidationError as error:
        raise invalid_body(_problems(content, kind, place, str(error))) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        detail = f"the request body is not valid JSON in UTF-8: {error}; correct it"
        raise Refused(Kind.INVALID, "malformed_json", detail) from error


def decode_distinct(content: bytes | msgspec.Raw, kind: type[T], place: str = "") -> T:
    """Return JSON *content* as `decode` does; a key that an object has twice is refused, too.

    Content of more than `EXAMINED_BYTES_MAX` is not examined, as that blocks the event loop.
    Triggers in batches are not either: it takes as long as their decoding.

    Raises:
        Refused: As for `decode`; code ``invalid_body``, too, for a repeated key.
    """
    found = decode(content, kind, place)
    whole = bytes(content)
    if len(whole) <= EXAMINED_BYTES_MAX and (path := repeated_key(whole)):
        pointer = place + "".join(f"/{escaped(step)}" for step in path)
        raise invalid_body([Problem(pointer, second_key(path))])
    return found


def invalid_body(problems: Sequence[Problem]) -> Refused:
    """Return the refusal of a body with *problems*, of which it lists the first `PROBLEMS_MAX`."""
    listed = [*problems[:PROBLEMS_MAX]]
    if len(problems) > PROBLEMS_MAX:
        listed.append(Problem("", "only the first errors are listed; there may be more"))
    return invalid_fields("invalid_body", listed)


_decoders: dict[object, "msgspec.json.Decoder[Any]"] = {}  # Any: each decodes its own kind.


def _decoder(kind: type[T]) -> "msgspec.json.Decoder[T]":
    """Return the decoder of *kind*; decoders are cached, since making one takes 20 us."""
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    return decoder


def _problems(content: bytes | msgspec.Raw, kind: object, place: str, text: str) -> list[Problem]:
    """Return the errors of *content*, which is not a *kind*: all of them, or the first.

    Args:
        content: The JSON.
        kind: A struct, or another type of msgspec.
        place: The JSON pointer of *content* in the body.
        text: The message of msgspec about the first error.
    """
    found: list[Problem] = []
    if len(bytes(content)) <= EXAMINED_BYTES_MAX:
        found = list(islice(_problems_of_parts(content, kind, place), PROBLEMS_MAX + 1))
    return found or [problem_in(content, kind, place, text)]


def _problems_of_parts(content: bytes | msgspec.Raw, kind: object, place: str) -> Iterator[Problem]:
    """Yield the errors of the fields of an object, or of the objects of a list.

    Other values have no parts; malformed JSON has none either, nor has a list of simple values.
    """
    for each in _alternatives(kind):
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if isinstance(each, type) and issubclass(each, msgspec.Struct):
                fields = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
                yield from _problems_of_fields(fields, each, place)
            elif get_origin(each) is list and _has_objects(get_args(each)[0]):
                items = msgspec.json.decode(content, type=list[msgspec.Raw])
                decoder = msgspec.json.Decoder(get_args(each)[0])
                for number, item in enumerate(items):
                    yield from _problems_of(item, decoder, f"{place}/{number}")


def _problems_of_fields(
    given: Mapping[str, msgspec.Raw], kind: type[msgspec.Struct], place: str
) -> Iterator[Problem]:
    """Yield the errors of the fields of an object, then the fields that are missing."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for name, content in given.items():
        if name in fields:
            decoder = msgspec.json.Decoder(fields[name].type)
            yield from _problems_of(content, decoder, f"{place}/{name}")
        elif kind.__struct_config__.forbid_unknown_fields:
            yield unknown_field(name, inspect.type_info(kind), place)
    for name, field in fields.items():
        if field.required and name not in given:
            yield missing_field(name, place)


def _problems_of(
    content: msgspec.Raw,
    decoder: "msgspec.json.Decoder[Any]",  # Any: each decodes its own kind.
    place: str,
) -> Iterator[Problem]:
    """Yield the errors of a part of a body: of its own parts, else its first one."""
    try:
        decoder.decode(content)
    except msgspec.ValidationError as error:
        parts = _problems_of_parts(content, decoder.type, place)
        first = next(parts, None)
        yield first or problem_in(content, decoder.type, place, str(error))
        yield from parts


def _has_objects(kind: object) -> bool:
    alternatives = _alternatives(kind)
    return any(isinstance(each, type) and issubclass(each, msgspec.Struct) for each in alternatives)


def _alternatives(kind: object) -> list[object]:
    """Return the types that a value of type *kind* may have, without their limits."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _alternatives(arguments[0])
    if origin in (Union, UnionType):
        return [each for argument in arguments for each in _alternatives(argument)]
    return [kind]
