"""Misspelt fields in the bodies of all operations, at every level."""

from collections.abc import Iterator

import msgspec
import pytest
from msgspec import inspect

from rota.core.errors import Refused
from rota.node.api.app import OPERATIONS
from rota.wire.bodies.json_decoding import decode
from rota.wire.documents import CloudEventBody, TaskBody, WebhookPayload

BODIES = sorted(
    {each.body.kind for each in OPERATIONS if each.body} - {CloudEventBody, WebhookPayload},
    key=lambda kind: kind.__name__,
)
"""The bodies, but for events and webhooks, which may have any members."""


def parts_of(info: inspect.Type) -> Iterator[type[msgspec.Struct]]:
    """Yield the types of the objects in a document of type *info*."""
    match info:
        case inspect.StructType():
            yield info.cls
            for field in info.fields:
                yield from parts_of(field.type)
        case inspect.UnionType():
            for each in info.types:
                yield from parts_of(each)
        case inspect.ListType():
            yield from parts_of(info.item_type)
        case inspect.DictType():
            yield from parts_of(info.value_type)
        case _:
            pass


@pytest.mark.parametrize("body", BODIES)
def test_the_right_name_of_every_misspelt_field_is_suggested(body: type[msgspec.Struct]) -> None:
    for part in parts_of(inspect.type_info(body)):
        for name in part.__struct_encode_fields__:
            if len(name) > 2:
                with pytest.raises(Refused, match=f"did you mean '{name}'"):
                    decode(f'{{"{name}x": null}}'.encode(), part)


@pytest.mark.parametrize(("name", "outer"), [("args", "python"), ("memory", "limits")])
def test_the_field_that_has_a_field_of_that_name_is_suggested(name: str, outer: str) -> None:
    with pytest.raises(Refused, match=f"unknown field '{name}'; it is a field of '{outer}'"):
        decode(f'{{"{name}": null}}'.encode(), TaskBody)
