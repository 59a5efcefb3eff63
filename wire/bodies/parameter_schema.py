"""JSON Schemas of parameters, and their check.

A schema comes from a client, so its check must cost little, whatever the schema contains. Without
references, each part of a schema is compared with each part of a value at most once, and patterns
are matched in linear time, so the product of both lengths limits the cost. As measured, a product
of 1e9 bytes² takes 100 ms to check whether a value matches, but a product of 6e6 takes a second and
100 MB to list the errors of nested alternatives. Errors are therefore listed only for a small
product.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import cast

import jsonschema_rs
import msgspec

from rota.core.errors import Problem, invalid_fields
from rota.core.model.job import JobSpec
from rota.core.near_names import did_you_mean
from rota.core.quoting import in_quotes, shortened
from rota.wire.bodies.decoding_errors import escaped
from rota.wire.documents import Json

PROBLEMS_MAX = 20
"""The most errors of one value that are reported."""
COST_MAX = 500_000_000
"""The limit of the product of the lengths of schema and value in bytes; a check takes about 50 ms
then."""
LISTED_COST_MAX = 300_000
"""The limit of the same product up to which errors are listed one by one."""
PATTERNS_MAX = 100
"""The most patterns of a schema; the compilation of each takes about 40 us."""
COMPILED_MAX = 128
"""The most compiled schemas that are cached."""
DEPTH_MAX = 32
"""The most levels of a schema."""
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef", "$id", "$anchor", "$dynamicAnchor", "$schema")
"""Keywords that a schema must not have: they repeat parts of a schema, or name other schemas."""

MASK = "the value"
"""The words for a value in the messages of the library, which would contain all of a value."""
NEXT_STEP = "change it to match the schema of the parameters"
_NO_SCHEMA = "is not a JSON Schema (draft 2020-12); correct it"


def problems_of_schema(schema: Mapping[str, Json], pointer: str) -> list[Problem]:
    """Return the errors of a schema; *pointer* is its JSON pointer."""
    problems = list(islice(_problems_of_keywords(schema, pointer, 0), PROBLEMS_MAX))
    patterns = _pattern_count(schema) if not problems else 0
    if patterns > PATTERNS_MAX:
        problems = [
            Problem(pointer, f"has {patterns} patterns; at most {PATTERNS_MAX} are allowed")
        ]
    if problems:
        return problems
    try:
        _validator(msgspec.json.encode(schema))
    except jsonschema_rs.ValidationError as error:
        return [Problem(_pointer_to(pointer, error), f"{_NO_SCHEMA} ({_fault_of(error)})")]
    except ValueError as error:
        return [Problem(pointer, f"{_NO_SCHEMA} ({shortened(str(error))})")]
    return []


def problems_of_value(schema: Mapping[str, Json], value: Json, pointer: str) -> list[Problem]:
    """Return the errors of *value* by a valid *schema*; *pointer* is the pointer of *value*."""
    text = msgspec.json.encode(schema)
    cost = len(text) * len(msgspec.json.encode(value))
    if cost > COST_MAX:
        detail = (
            "are too long to be checked with their schema; shorten them, or simplify the schema"
        )
        return [Problem(pointer, detail)]
    validator = _validator(text)
    if validator.is_valid(value):
        return []
    if cost > LISTED_COST_MAX:
        detail = (
            "do not match their schema, and are too long for a list of the errors; "
            "check them with a JSON Schema validator"
        )
        return [Problem(pointer, detail)]
    errors = islice(validator.iter_errors(value), PROBLEMS_MAX)
    return [
        Problem(_pointer_to(pointer, error), f"{_fault_of(error)}; {NEXT_STEP}") for error in errors
    ]


def completed(schema: Mapping[str, Json], given: Json) -> tuple[Json, list[Problem]]:
    """Return the parameters *given* with the defaults of a valid *schema*, and their errors."""
    pointer, whole = "/parameters", with_defaults(schema, given)
    if "properties" in schema and whole is not None and _object(whole) is None:
        return whole, [Problem(pointer, "the parameters are not an object; send one")]
    problems = misspelt_names(schema, given, pointer) or problems_of_value(schema, whole, pointer)
    return whole, problems


def checked(schema: Mapping[str, Json] | None, given: Json) -> Json:
    """Return the parameters of a trigger, with the defaults of *schema*; None for no schema.

    Raises:
        Refused: Code ``invalid_parameters``: the parameters do not match the schema.
    """
    if schema is None:
        return given
    whole, problems = completed(schema, {} if given is None else given)
    if problems:
        raise invalid_fields("invalid_parameters", problems)
    return whole


def own_parameters(spec: JobSpec, given: Json) -> Json:
    """Return the parameters of a trigger, with the defaults of the schema of the job itself.

    None stands for the parameters of the job, which were checked with it; a job may lack them.

    Raises:
        Refused: As of `checked`.
    """
    if given is None and spec.parameters:
        return None
    schema = msgspec.json.decode(spec.parameters_schema) if spec.parameters_schema else None
    return checked(schema, given)


def misspelt_names(schema: Mapping[str, Json], value: Json, pointer: str) -> list[Problem]:
    """Return an error for each member of *value* with about the name of a property that it lacks.

    A schema that describes other members (`additionalProperties`, `patternProperties`) permits all
    names.
    """
    properties, given = _object(schema.get("properties")) or {}, _object(value) or {}
    if "additionalProperties" in schema or "patternProperties" in schema:
        return []
    lacking = [name for name in properties if name not in given]
    unknown = islice((name for name in given if name not in properties), PROBLEMS_MAX)
    hints = ((name, did_you_mean(name, lacking)) for name in unknown)
    return [
        Problem(f"{pointer}/{escaped(name)}", f"there is no parameter {in_quotes(name)}; {hint}")
        for name, hint in hints
        if hint
    ]


def _pointer_to(pointer: str, error: jsonschema_rs.ValidationError) -> str:
    """Return the JSON pointer of the value of an error; *pointer* is that of the root."""
    return pointer + "".join(f"/{escaped(str(part))}" for part in error.instance_path)


def _fault_of(error: jsonschema_rs.ValidationError) -> str:
    """Return the error in words, with its value if that is not an object or a list, shortened."""
    text, value = shortened(error.message), error.instance
    if MASK not in text or isinstance(value, dict | list):
        return text
    return f"{text}: {shortened(msgspec.json.encode(value).decode())}"


def with_defaults(schema: Mapping[str, Json], value: Json) -> Json:
    """Return *value* with the schema's defaults for the properties that it lacks.

    Only the members of *value* itself get defaults, not the members of nested objects. None, which
    stands for no parameters, becomes an object if the schema has any default.
    """
    properties, given = _object(schema.get("properties")), _object(value)
    if properties is None or (given is None and value is not None):
        return value
    described = {name: _object(each) or {} for name, each in properties.items()}
    defaults = {name: each["default"] for name, each in described.items() if "default" in each}
    return {**defaults, **(given or {})} if defaults else value


def _object(value: Json) -> dict[str, Json] | None:
    return cast("dict[str, Json]", value) if isinstance(value, dict) else None


@lru_cache(COMPILED_MAX)
def _validator(schema: bytes) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(
        msgspec.json.decode(schema),
        validate_formats=True,
        retriever=_refuse,
        pattern_options=jsonschema_rs.RegexOptions(),
        mask=MASK,
    )


def _refuse(uri: str) -> Json:
    raise ValueError(f"the schema refers to {uri}, and other documents are not read")


def _pattern_count(part: Json) -> int:
    if isinstance(part, list):
        return sum(map(_pattern_count, cast("Sequence[Json]", part)))
    fields = _object(part)
    if fields is None:
        return 0
    own = len(_object(fields.get("patternProperties")) or {}) + ("pattern" in fields)
    return own + sum(map(_pattern_count, fields.values()))


def _problems_of_keywords(part: Json, pointer: str, depth: int) -> Iterator[Problem]:
    if depth > DEPTH_MAX:
        yield Problem(pointer, f"is nested more than {DEPTH_MAX} levels deep; use fewer levels")
        return
    if isinstance(part, Mapping):
        for name, each in cast("Mapping[str, Json]", part).items():
            if name in REFERENCES:
                detail = "is not supported; write the schema in its place"
                yield Problem(f"{pointer}/{escaped(name)}", detail)
            else:
                place = f"{pointer}/{escaped(name)}"
                yield from _problems_of_keywords(each, place, depth + 1)
    elif isinstance(part, list):
        for number, each in enumerate(cast("Sequence[Json]", part)):
            yield from _problems_of_keywords(each, f"{pointer}/{number}", depth + 1)
