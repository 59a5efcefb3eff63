"""docs/ARCHITECTURE.md names functions, classes and files that exist; facts are in one place."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.core.model.work_kinds import KINDS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "ARCHITECTURE.md"
HEADING = "## Walks through the code\n"
CHANGES = "## Changes and their files\n"
WALKS = ("Submit", "Fire", "Outcome", "Takeover")
NAME = re.compile(r"`((?:core|ring|storage|executor|node)/[\w/]+)((?:\.\w+)*)`")

PATH = re.compile(r"`((?:core|ring|wire|storage|executor|client|node|tests|docs)/[\w/.]+)`")


def names_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield each module in *text* as a path, with the dotted name in it, which may be empty."""
    for module, name in NAME.findall(text):
        yield module, name.removeprefix(".")


def section(heading: str) -> str:
    """Return a section of the page."""
    return PAGE.read_text().partition(heading)[2].partition("\n## ")[0]


def walks() -> str:
    """Return the walks."""
    return section(HEADING)


def defined_in(module: Path) -> set[str]:
    """Return the functions and classes of a module, and the methods of its classes, dotted."""
    found: set[str] = set()
    for each in ast.parse(module.read_text()).body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(each.name)
        if isinstance(each, ast.ClassDef):
            methods = (
                member.name
                for member in each.body
                if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef)
            )
            found.update(f"{each.name}.{method}" for method in methods)
    return found


def test_there_are_four_walks() -> None:
    assert tuple(re.findall(r"^\*\*(\w+)", walks(), re.MULTILINE)) == WALKS


@pytest.mark.parametrize(("module", "name"), sorted(set(names_in(walks()))))
def test_a_function_of_the_walks_exists(module: str, name: str) -> None:
    file = ROOT / f"{module}.py"
    package = ROOT / module

    assert (file.is_file() and name in {"", *defined_in(file)}) or (package.is_dir() and not name)


@pytest.mark.parametrize("path", sorted(set(PATH.findall(section(CHANGES)))))
def test_a_file_of_the_table_of_changes_exists(path: str) -> None:
    assert (ROOT / path).exists() or (ROOT / f"{path}.py").is_file()


def compared_with_executors(module: Path) -> Iterator[int]:
    """Yield the lines of a module that compare the executor of some work with a name."""
    for compare in ast.walk(ast.parse(module.read_text())):
        if not isinstance(compare, ast.Compare):
            continue
        parts = [*ast.walk(compare)]
        names = {each.value for each in parts if isinstance(each, ast.Constant)}
        attributes = {each.attr for each in parts if isinstance(each, ast.Attribute)}
        if "executor" in attributes and names & {*KINDS}:
            yield compare.lineno


def test_what_a_kind_of_work_may_have_is_in_its_row_alone() -> None:
    rooms = ("core", "node", "wire", "client")
    modules = [path for room in rooms for path in (ROOT / room).rglob("*.py")]

    found = [(path.name, line) for path in modules for line in compared_with_executors(path)]

    assert len(modules) > 100
    assert found == []
