"""Schemas of parameters: what they accept, and that hostile ones cost little."""

from typing import Any

import pytest

from rota.wire.bodies.parameter_schema import (
    COST_MAX,
    misspelt_names,
    problems_of_schema,
    problems_of_value,
    with_defaults,
)

Json = Any  # Any: schemas and values, as the functions take them.

OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"default": 2}}}


def alternatives(width: int) -> Json:
    """Return alternatives of alternatives of alternatives, none of which matches -1."""
    schema: Json = {"items": {"anyOf": [{"const": number} for number in range(10)]}}
    for _ in range(3):
        schema = {"anyOf": [schema] * width}
    return schema


def test_errors_are_listed_with_their_places() -> None:
    found = problems_of_value(OBJECT, {"a": "x"}, "/parameters")

    [problem] = found
    assert problem.pointer == "/parameters/a"
    assert problem.detail.startswith('the value is not of type "integer": "x"; change it')


def test_a_name_that_is_similar_to_one_that_lacks_is_an_error() -> None:
    days: Json = {"properties": {"day": {}, "dry": {}}}

    [problem] = misspelt_names(days, {"dya": 1, "dry": 2, "new": 3}, "/parameters")

    assert problem.pointer == "/parameters/dya"
    assert problem.detail == "there is no parameter 'dya'; did you mean 'day'?"
    assert misspelt_names(days, {"day": 1, "days": 2}, "") == []
    assert misspelt_names({**days, "additionalProperties": True}, {"dya": 1}, "") == []


def test_an_error_shows_a_long_value_shortened() -> None:
    schema: Json = {"properties": {"a": {"maxLength": 3}, "b": {"maxItems": 1}}}

    found = problems_of_value(schema, {"a": "x" * 2_000, "b": ["y" * 1_000] * 2}, "/parameters")

    assert [len(each.detail) < 250 for each in found] == [True, True]
    assert "longer than 3 characters" in found[0].detail


def test_the_place_of_an_error_is_an_escaped_pointer() -> None:
    schema: Json = {"properties": {"a/b~c": {"type": "integer"}}}

    assert problems_of_value(schema, {"a/b~c": "x"}, "/p")[0].pointer == "/p/a~1b~0c"
    assert problems_of_schema({"properties": {"a/b": {"$ref": "#"}}}, "")[0].pointer == (
        "/properties/a~1b/$ref"
    )


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        pytest.param({"items": {"enum": list(range(10_000))}}, [-1] * 3_000, id="words"),
        pytest.param(alternatives(7), [-1] * 1_500, id="alternatives"),
        pytest.param(
            {"allOf": [{"contains": {"const": n}} for n in range(200)]}, [-1] * 30_000, id="members"
        ),
        pytest.param({"pattern": "(a|aa)*b"}, "a" * 100_000, id="pattern"),
    ],
)
def test_a_long_value_that_does_not_match_is_refused_without_a_list(
    schema: Json, value: Json
) -> None:
    assert problems_of_schema(schema, "") == []

    # A list of the errors would take minutes, or all memory.
    [problem] = problems_of_value(schema, value, "/parameters")

    assert problem.pointer == "/parameters"
    assert problem.detail.startswith("do not match their schema, and are too long")


def test_patterns_are_limited() -> None:
    anything: Json = {}
    schema: Json = {
        "patternProperties": {f"^{n}": anything for n in range(60)},
        "items": {"allOf": [{"pattern": f"^{n}"} for n in range(60)]},
    }

    [problem] = problems_of_schema(schema, "/parameters")

    assert str(problem) == "/parameters: has 120 patterns; at most 100 are allowed"


def test_what_cannot_be_checked_in_time_is_refused() -> None:
    schema: Json = {"allOf": [{"items": {"minimum": -n}} for n in range(1_500)]}
    value = list(range(20_000))
    assert len(str(schema)) * len(str(value)) > COST_MAX

    [problem] = problems_of_value(schema, value, "/parameters")

    assert problem.detail.startswith("are too long to be checked with their schema")


@pytest.mark.parametrize(
    ("value", "whole"),
    [
        (None, {"b": 2}),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"b": 3}, {"b": 3}),
        ([1], [1]),
    ],
)
def test_defaults_are_added_to_objects(value: Json, whole: Json) -> None:
    assert with_defaults(OBJECT, value) == whole


def test_a_schema_without_defaults_adds_nothing() -> None:
    assert with_defaults({"properties": {"a": True}}, None) is None
    assert with_defaults({}, {"x": 1}) == {"x": 1}


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"properties": {"a": {"$ref": "#/$defs/x"}}}, "/properties/a/$ref"),
        ({"$id": "https://example.org"}, "/$id"),
        ({"pattern": "(a"}, "/pattern"),
        ({"pattern": r"(a)\1"}, "/pattern"),
        ({"required": "a"}, "/required"),
        ({"items": {"type": ["string", "text"]}}, "/items/type"),
    ],
)
def test_a_schema_that_is_none_is_refused_with_the_place(schema: Json, pointer: str) -> None:
    [problem, *_] = problems_of_schema(schema, "")

    assert problem.pointer.startswith(pointer)
