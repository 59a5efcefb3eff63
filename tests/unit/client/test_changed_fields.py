"""Names of the fields that differ in two definitions."""

from typing import Any

import pytest

from rota.client.cli.jobs.history import changed_fields

TASKS = [{"name": "a", "command": "x"}, {"name": "b", "command": "y"}]
OTHER = [TASKS[0], {"name": "b", "command": "z"}]


@pytest.mark.parametrize(
    ("before", "after", "fields"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1, "b": 2}, {"b": 3, "c": 4}, ["a", "b", "c"]),
        ({"env": {"A": "1", "B": "2"}}, {"env": {"A": "1", "B": "3"}}, ["env.B"]),
        ({"retries": 1}, {"retries": {"limit": 1}}, ["retries"]),
        (
            {"tasks": TASKS},
            {"tasks": OTHER},
            ["tasks.b.command"],
        ),
        ({"tasks": TASKS}, {"tasks": TASKS[:1]}, ["tasks.b"]),
        ({"needs": ["a", "b"]}, {"needs": ["b"]}, ["needs"]),
        ({"list": [{"name": "a"}, {"name": "a"}]}, {"list": []}, ["list"]),
        ({"tasks": TASKS}, {"tasks": TASKS[::-1]}, []),
    ],
)
def test_values_that_differ_are_named(
    before: dict[str, Any], after: dict[str, Any], fields: list[str]
) -> None:
    assert [*changed_fields(before, after)] == fields
