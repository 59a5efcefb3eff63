"""Limits of every text that a client sends: declared in its type, kept by the decoder."""

from collections.abc import Iterator

import msgspec
import pytest
from msgspec import inspect

from rota.core.errors import Refused
from rota.core.quoting import QUOTED_MAX, in_quotes, quoted, shortened
from rota.wire import documents
from rota.wire.bodies.json_decoding import decode
from rota.wire.documents import JobBody
from rota.wire.documents.document import Body

BODIES = [
    kind
    for kind in vars(documents).values()
    if isinstance(kind, type) and issubclass(kind, Body) and kind is not Body
]
COUNTED_BY_THE_NODE = {"tasks", "items", "executionIds", "args"}
"""Lists with limits of their own: `TASKS_MAX`, `ITEMS_MAX`, `PARAMETERS_MAX`."""


@pytest.mark.parametrize("kind", BODIES, ids=lambda kind: kind.__name__)
def test_every_text_and_every_list_of_a_body_has_a_limit(kind: type[Body]) -> None:
    struct = inspect.type_info(kind)
    assert isinstance(struct, inspect.StructType)
    unlimited = [
        field.encode_name
        for field in struct.fields
        if field.encode_name not in COUNTED_BY_THE_NODE
        and not all(_is_limited(each) for each in _parts(field.type))
    ]

    assert unlimited == []


def _is_limited(info: inspect.Type) -> bool:
    match info:
        case inspect.StrType() | inspect.ListType() | inspect.DictType():
            return info.max_length is not None
        case _:
            return True


def _parts(info: inspect.Type) -> Iterator[inspect.Type]:
    """Yield *info* and the types of its parts, without other bodies."""
    yield info
    match info:
        case inspect.UnionType():
            for each in info.types:
                yield from _parts(each)
        case inspect.ListType():
            yield from _parts(info.item_type)
        case inspect.DictType():
            yield from _parts(info.key_type)
            yield from _parts(info.value_type)
        case inspect.Metadata():
            yield from _parts(info.type)
        case _:
            pass


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schedule", "@every " + "1" * 400_000 + "s"),
        ("timezone", "Europe/" + "a" * 400_000),
        ("name", "a" * 400_000),
        ("labels", {"a" * 400_000: "b"}),
        ("labels", {f"label-{number}": "" for number in range(101)}),
        ("env", {f"V{number}": "" for number in range(1_001)}),
        ("command", ["x"] * 10_001),
        ("grace", "9" * 400_000),
        ("misfire", "a" * 400_000),
        ("b" * 400_000, 1),
    ],
)
def test_an_overlong_text_is_refused_in_a_short_message(field: str, value: object) -> None:
    body = {"name": "long", "command": "true", field: value}

    with pytest.raises(Refused) as refused:
        decode(msgspec.json.encode(body), JobBody)

    assert refused.value.code == "invalid_body"
    assert len(refused.value.detail) < 1_000


def test_a_quotation_is_short_and_printable() -> None:
    assert shortened("plain") == "plain"
    assert quoted("a\x1b[2J\n") == '"a\\x1b[2J\\n"'
    assert in_quotes("\u202e") == "'\\u202e'"
    assert len(shortened("x" * 10**6)) == QUOTED_MAX
    assert len(shortened("\x00" * 10**6)) == QUOTED_MAX
    assert shortened("x" * 10**6).endswith("...")
