"""Arguments of calls in Python files, with their lines, and what the files import."""

import ast
from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

from rota.client.definitions import Lines
from rota.client.imports.drafts import Findings
from rota.client.imports.located import Located
from rota.client.imports.python_source import Called, Unknown, called_name, lines_of, value_of

Value = TypeVar("Value")


def arguments_of(
    findings: Findings,
    call: ast.Call,
    names: Mapping[str, object],
    nodes: Mapping[str, ast.expr],
    *,
    positions: Sequence[str] = (),
) -> Located:
    """Return the arguments of a call, with their lines.

    Args:
        findings: The findings in the file.
        call: The call.
        names: The values of the names of the file.
        nodes: Their expressions.
        positions: The names of the arguments that are given without their names; further ones
            are lost if there are any.
    """
    fields: dict[str, object] = {}
    lines: Lines = {(): call.lineno}
    given = [*zip(positions, call.args, strict=False)]
    given += [(each.arg or f"**{ast.unparse(each.value)}", each.value) for each in call.keywords]
    for key, node in given:
        value = value_of(node, names)
        if key.startswith("**") and isinstance(value, dict):
            fields |= cast("dict[str, object]", value)
            continue
        fields[key] = value
        written = nodes.get(called_name(node), node)
        lines |= dict(lines_of(written, (key,)))
        lines[key,] = node.lineno
    for extra in call.args[len(positions) :] if positions else ():
        findings.lose(
            extra.lineno,
            f"the argument {ast.unparse(extra)}, which has no name",
            "write it with its name and import again",
        )
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
