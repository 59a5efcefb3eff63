"""The replica changes the roles of primary and backup through their methods alone."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[4] / "core" / "replication"


def assigned(module: Path) -> Iterator[str]:
    """Yield each attribute of an object other than `self` that a module assigns."""
    for node in ast.walk(ast.parse(module.read_text())):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and not (isinstance(node.value, ast.Name) and node.value.id == "self")
        ):
            yield f"{module.name}:{node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize("name", ["replica", "reconfiguration"])
def test_no_attribute_of_another_object_is_assigned(name: str) -> None:
    assert list(assigned(FOLDER / f"{name}.py")) == []
