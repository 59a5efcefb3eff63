"""The types of the web page's documents are those of the node's OpenAPI document."""

from pathlib import Path

import pytest
from tools import ui_types
from tools.ui_types import FILE, types_of

from rota.node.api.app import OPERATIONS
from rota.node.api.reference.openapi import describe
from rota.node.api.reference.schemas import Schema, reference_to

ROOT = Path(__file__).resolve().parents[4]


def test_the_types_of_the_page_are_up_to_date() -> None:
    made = types_of(describe(OPERATIONS)["components"]["schemas"])

    assert (ROOT / FILE).read_text() == made, "run: make docs"


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "integer"}, "number"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string | null"),
        (
            {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
            "(string | null)[]",
        ),
        (
            {"type": "object", "additionalProperties": reference_to("InnerView")},
            "Record<string, Inner>",
        ),
        ({"type": "object"}, "Record<string, unknown>"),
        ({"enum": ["up", "gone"]}, '"up" | "gone"'),
        ({"default": None}, "unknown"),
    ],
)
def test_a_schema_is_written_as_a_type(
    monkeypatch: pytest.MonkeyPatch, schema: Schema, written: str
) -> None:
    monkeypatch.setattr(ui_types, "READ", ("OuterView",))
    inner = {"properties": {"id": {"type": "string"}}}

    made = types_of({"OuterView": {"properties": {"field": schema}}, "InnerView": inner})

    assert f"export type Outer = {{\n  field: {written}\n}}\n" in made
    assert ("export type Inner = {\n  id: string\n}\n" in made) == ("Inner" in written)
