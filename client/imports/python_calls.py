"""Arguments of calls in Python files, with their lines, and what the files import."""

import ast
from collections.abc import Mapping
from typing import TypeVar, cast

from rota.client.definitions import Lines
from rota.client.imports.drafts import Findings
from rota.client.imports.located import Located
from rota.client.imports.python_source import Called, Unknown, called_name, lines_of, value_of

Value = TypeVar("Value")


def arguments_of(
    findings: Findings, call: ast.Call, names: Mapping[str, object], nodes: Mapping[str, ast.expr]
) -> Located:
    """Return the arguments with names of a call, with their lines."""
    fields: dict[str, object] = {}
    lines: Lines = {(): call.lineno}
    for each in call.keywords:
        key = each.arg or f"**{ast.unparse(each.value)}"
        fields[key] = value_of(each.value, names)
        written = nodes.get(called_name(each.value), each.value)
        lines |= dict(lines_of(written, (key,)))
        lines[key,] = each.value.lineno
    return Located(findings, fields, (), lines)


def known(located: Located, key: str, kind: type[Value]) -> Value | None:
    """Return a value of this kind; None if there is none, or, with a note, if it is not written.

    Raises:
        InvalidFile: The value is of another kind.
    """
    value = located.fields.get(key)
    if value is None or (isinstance(value, kind) and (kind is bool or value is not True)):
        return value
    if not isinstance(value, Called | Unknown):
        raise located.invalid(key, f"of the kind {kind.__name__}")
    located.findings.lose(
        located.line(key),
        f"{key} is {value!r}, which is not written in the file",
        "write its value in the definition",
    )
    return None


def known_list(located: Located, key: str) -> list[object]:
    """Return a list, likewise; an empty one if there is none."""
    return cast("list[object]", known(located, key, list) or [])


def known_object(located: Located, key: str) -> dict[str, object]:
    """Return a dict, likewise; an empty one if there is none."""
    return cast("dict[str, object]", known(located, key, dict) or {})


def imports_of(tree: ast.Module) -> dict[str, str]:
    """Return the functions and modules that a file imports, as ``module:name`` or ``module``."""
    found: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {each.asname or each.name: f"{node.module}:{each.name}" for each in node.names}
        elif isinstance(node, ast.Import):
            found |= {each.asname or each.name: each.name for each in node.names}
    return found


def imported_function(value: ast.expr | None, imports: Mapping[str, str]) -> str:
    """Return ``module:function`` for a function of another module; empty for other values."""
    if isinstance(value, ast.Name) and ":" in imports.get(value.id, ""):
        return imports[value.id]
    if isinstance(value, ast.Attribute):
        module = imports.get(ast.unparse(value.value), "").replace(":", ".")
        return f"{module}:{value.attr}" if module else ""
    return ""
