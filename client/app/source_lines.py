"""Functions in the source text of modules."""

import ast
from pathlib import Path


def is_second(earlier: str, later: str) -> bool:
    """Return True if the file of both places, ``file:line``, has functions that begin at these.

    A module that was changed and is imported again has a function at the later line alone. A file
    that cannot be read, such as a cell of a notebook, has none.
    """
    file, _, line = later.rpartition(":")
    before, _, line_before = earlier.rpartition(":")
    return file == before and {int(line), int(line_before)} <= _begins(file)


def _begins(file: str) -> set[int]:
    """Return the lines at which functions begin, or their first decorators."""
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return set()
    return {
        min(part.lineno for part in (each, *each.decorator_list))
        for each in ast.walk(tree)
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
