"""The tables of tools: their form, their defaults, and the page that lists them."""

import re
from pathlib import Path
from typing import Any, cast

import pytest

from rota.client.cli.mcp.changing import CHANGING
from rota.client.cli.mcp.desk import Desk
from rota.client.cli.mcp.reading import READING
from rota.client.mcp.tools import Tool

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "agents.md"
ALL = (*READING, *CHANGING)


def test_every_tool_is_in_a_table_of_the_page() -> None:
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", PAGE.read_text(), re.MULTILINE)

    listed = [name for row in rows for name in re.findall(r"\w+", row)]
    assert sorted(listed) == sorted(each.name for each in ALL)


@pytest.mark.parametrize("tool", ALL, ids=lambda tool: tool.name)
def test_the_schema_of_a_tool_has_no_references_and_no_other_arguments(tool: Tool[Desk]) -> None:
    schema = cast("dict[str, Any]", tool.listed["inputSchema"])  # Any: JSON

    assert (schema["type"], schema["additionalProperties"]) == ("object", False)
    assert "$ref" not in str(schema)
    texts = [each for each in schema["properties"].values() if each.get("type") == "string"]
    assert all("maxLength" in each for each in texts)


@pytest.mark.parametrize("tool", CHANGING, ids=lambda tool: tool.name)
def test_a_tool_that_changes_only_shows_the_effect_by_default(tool: Tool[Desk]) -> None:
    schema = cast("dict[str, Any]", tool.listed["inputSchema"])  # Any: JSON

    assert schema["properties"]["preview"]["default"] is True
    assert tool.is_change
    assert tool.listed["annotations"] == {"readOnlyHint": False, "destructiveHint": True}


def test_no_tool_that_reads_has_a_preview() -> None:
    properties = [cast("dict[str, Any]", each.listed["inputSchema"]) for each in READING]

    assert not any("preview" in each["properties"] for each in properties)
    assert not any(each.is_change for each in READING)
