"""Errors about JSON that is no document: own words, with the value and the next step."""

from typing import Annotated

import msgspec
import pytest

from rota.core.errors import Refused
from rota.wire.bodies.decoding_errors import SHOWN_BYTES_MAX
from rota.wire.bodies.json_decoding import EXAMINED_BYTES_MAX, PROBLEMS_MAX, decode
from rota.wire.documents import JobBody


class Part(msgspec.Struct):
    """A part of a document with limits."""

    count: Annotated[int, msgspec.Meta(ge=0, le=9)] = 0
    ratio: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    word: Annotated[str, msgspec.Meta(max_length=3)] = ""
    words: Annotated[list[str], msgspec.Meta(min_length=1)] = []
    labels: dict[Annotated[str, msgspec.Meta(max_length=3)], str] = {}


class Whole(msgspec.Struct):
    """A document with a list."""

    name: str
    parts: list[Part] = []


def detail_of(content: bytes) -> str:
    """Return the detail of the refusal of *content*."""
    with pytest.raises(Refused) as refused:
        decode(content, Whole)
    assert refused.value.code == "invalid_body"
    return refused.value.detail


@pytest.mark.parametrize(
    ("part", "detail"),
    [
        ('{"count": -1}', "/count: -1 is out of range; give a number that is at least 0"),
        ('{"count": 10}', "/count: 10 is out of range; give a number that is at most 9"),
        ('{"ratio": 0}', "/ratio: 0 is out of range; give a number that is more than 0.0"),
        ('{"word": "abcd"}', '/word: "abcd" must have at most 3 characters; change it'),
        ('{"words": []}', "/words: [] must have at least 1 items; change it"),
        (
            '{"labels": {"abcd": ""}}',
            "/labels: the name of a field must have at most 3 characters; shorten it",
        ),
    ],
)
def test_a_value_outside_a_limit_is_named_with_the_limit(part: str, detail: str) -> None:
    assert detail_of(f'{{"name": "x", "parts": [{{}}, {part}]}}'.encode()) == f"/parts/1{detail}"


def test_a_missing_field_is_named() -> None:
    assert detail_of(b"{}") == "/name: the required field is missing; add it"


def test_a_long_body_is_not_decoded_again_for_the_value() -> None:
    padding = b" " * SHOWN_BYTES_MAX

    detail = detail_of(b'{"name": "x", "parts": [{"count": -1}]}' + padding)

    assert detail == "/parts/0/count: the value is out of range; give a number that is at least 0"


def test_a_body_with_a_later_error_is_refused_without_the_value() -> None:
    detail = detail_of(b'{"name": "x", "parts": [{"count": -1}}')

    assert detail.startswith("/parts/0/count: the value is out of range")


def problems_of(content: bytes, kind: type[msgspec.Struct] = JobBody) -> list[tuple[str, str]]:
    """Return pointer and detail of each error of *content*, and check that none is left out."""
    with pytest.raises(Refused) as refused:
        decode(content, kind)
    problems = refused.value.problems
    first, more = str(problems[0]), len(problems) - 1
    assert refused.value.detail == (f"{first} (and {more} more, see errors)" if more else first)
    return [(each.pointer, each.detail) for each in problems]


def test_all_wrong_fields_are_named_in_their_order() -> None:
    found = problems_of(
        b'{"comand": "x", "retries": "three", "timeout": [], "tasks": [{"name": "a"},'
        b' {"name": 1, "python": {"function": 2, "arg": []}}, {"need": ["a"]}], "priority": 3.5}'
    )

    assert found == [
        ("/comand", "unknown field 'comand'; did you mean 'command'?"),
        ("/retries", "needs a whole number or an object, not text"),
        ("/timeout", "needs a whole number or a number or text, not a list"),
        ("/tasks/1/name", "needs text, not a whole number; put it in quotes"),
        ("/tasks/1/python/function", "needs text, not a whole number; put it in quotes"),
        ("/tasks/1/python/arg", "unknown field 'arg'; did you mean 'args'?"),
        ("/tasks/2/need", "unknown field 'need'; did you mean 'needs'?"),
        ("/tasks/2/name", "the required field is missing; add it"),
        ("/priority", "needs a whole number, not a number"),
    ]


def test_a_limit_of_a_list_and_of_its_items_is_named() -> None:
    content = b'{"parts": [{"count": 10, "word": "abcd", "labels": {"abcd": ""}}, 3]}'

    assert [pointer for pointer, _ in problems_of(content, Whole)] == [
        *("/parts/0/count", "/parts/0/word", "/parts/0/labels", "/parts/1", "/name")
    ]


def test_many_errors_are_listed_up_to_a_limit() -> None:
    fields = ",".join(f'"f{number}": 1' for number in range(2 * PROBLEMS_MAX))

    found = problems_of(f"{{{fields}}}".encode())

    assert [pointer for pointer, _ in found] == [*(f"/f{n}" for n in range(PROBLEMS_MAX)), ""]
    assert found[-1][1] == "only the first errors are listed; there may be more"


def test_of_a_long_body_only_the_first_error_is_searched() -> None:
    content = b'{"retries": "a", "timeout": []}'
    assert len(problems_of(content)) == 2

    assert len(problems_of(content + b" " * EXAMINED_BYTES_MAX)) == 1
