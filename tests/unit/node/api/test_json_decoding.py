"""Errors about JSON that is no document: own words, with the value and the next step."""

from typing import Annotated

import msgspec
import pytest

from rota.core.errors import Refused
from rota.node.api.requests.json_decoding import SHOWN_BYTES_MAX, decode


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
