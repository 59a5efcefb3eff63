"""Values that are written in Python files, found in their syntax; the files are never executed."""

import ast
import re
import warnings
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from rota.client.definitions import Lines, ValuePath
from rota.client.imports.drafts import Findings, Source

NUMBERS_MAX = 10.0**15
"""The largest number that is computed; the files are not trusted."""
VALUES_MAX = 100_000
"""The most values and characters within the value of a name."""
_ZONES = frozenset({"ZoneInfo", "timezone", "Timezone", "gettz", "tz"})
"""The functions and classes whose first argument is the name of a time zone."""
_UTC = re.compile(r"(?i)(^|\.)(tz)?utc(\(\))?$")


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that only the execution of the file would give.

    Attributes:
        text: Its expression in the file.
    """

    text: str

    def __repr__(self) -> str:
        """Return the expression, for errors and notes."""
        return self.text


@dataclass(frozen=True, slots=True)
class Called:
    """A call in the file.

    Attributes:
        name: The last part of the name of what is called.
        args: The values of its positional arguments.
        kwargs: The values of its arguments with names.
        line: Its line, from 1.
        text: Its expression in the file.
    """

    name: str
    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    line: int
    text: str

    def __repr__(self) -> str:
        """Return the expression, for errors and notes."""
        return self.text


def parse_python(source: Source, findings: Findings) -> ast.Module:
    """Return the syntax of a file.

    Raises:
        InvalidFile: The file is no Python.
    """
    try:
        with warnings.catch_warnings():
            # Python warns of escapes in the texts of the file.
            warnings.simplefilter("ignore")
            return ast.parse(source.text)
    except SyntaxError as error:
        raise findings.invalid(error.lineno or 1, f"the file is no Python: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        detail = str(error) or "it is nested too deeply"
        raise findings.invalid(1, f"the file is no Python: {detail}") from None


@contextmanager
def shallow(findings: Findings) -> Generator[None]:
    """Refuse a file whose expressions are nested more deeply than they can be followed.

    Raises:
        InvalidFile: They are.
    """
    try:
        yield
    except RecursionError:
        raise findings.invalid(1, "expressions are nested too deeply; use fewer levels") from None


def called_name(node: ast.expr) -> str:
    """Return the last part of a name such as ``a.b.c``; empty text for other expressions."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def assigned_in(tree: ast.Module) -> dict[str, ast.expr]:
    """Return the expressions that a module assigns to names, outside of functions.

    Names that it assigns several times, or in conditions and loops, are left out: their values
    depend on the place where they are read.
    """
    found: dict[str, ast.expr] = {}
    varying: set[str] = set()
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                if name in found and ast.dump(found[name]) != ast.dump(value):
                    varying.add(name)
                found[name] = value
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                pass
            case _:
                varying |= {
                    each.id
                    for each in ast.walk(node)
                    if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
                }
    return {name: value for name, value in found.items() if name not in varying}


def conditional_in(tree: ast.Module) -> set[ast.AST]:
    """Return what a module executes in conditions and loops, without ``if __name__ == ...``."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        if node in found:
            continue  # It is within one that was walked.
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.If | ast.For | ast.AsyncFor | ast.While):
            found |= {*ast.walk(node)}
    return found


def names_of(tree: ast.Module) -> dict[str, object]:
    """Return the values of the names that a module assigns, as far as they are written in it."""
    found: dict[str, object] = {}
    for name, value in assigned_in(tree).items():
        known = value_of(value, found)
        found[name] = known if _is_small(known) else Unknown(name)
    return found


def _is_small(value: object) -> bool:
    """Return True if *value* has few values within it: names of names can repeat them."""
    rest, number = [value], 0
    while rest and number <= VALUES_MAX:
        each = rest.pop()
        number += len(each) if isinstance(each, str) else 1
        if isinstance(each, list):
            rest += cast("list[object]", each)
        elif isinstance(each, dict):
            rest += cast("dict[str, object]", each).values()
    return number <= VALUES_MAX


def value_of(node: ast.expr, names: Mapping[str, object]) -> object:
    """Return the value of an expression: of literals, *names*, sums and calls.

    A call of ``timedelta`` is a timedelta, and one of ``dict`` a dict; every other call is a
    `Called`. What is not written in the file is an `Unknown`.
    """
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return [value_of(item, names) for item in items]
        case ast.Dict():
            return _dict_of(node, names)
        case ast.UnaryOp() | ast.BinOp():
            return _computed(node, names)
        case ast.Call():
            return _call_of(node, names)
        case _:
            return Unknown(ast.unparse(node))


def is_json(value: object) -> bool:
    """Return True if *value* is JSON, without values that only the execution would give."""
    if isinstance(value, dict):
        members = cast("dict[object, object]", value)
        return all(isinstance(key, str) and is_json(each) for key, each in members.items())
    if isinstance(value, list):
        return all(map(is_json, cast("list[object]", value)))
    return value is None or isinstance(value, str | int | float)


def is_written(value: object) -> bool:
    """Return True if nothing in *value* is known only when the file is executed."""
    if isinstance(value, dict):
        return all(map(is_written, cast("dict[str, object]", value).values()))
    if isinstance(value, list):
        return all(map(is_written, cast("list[object]", value)))
    return not isinstance(value, Called | Unknown)


def zone_name(value: object) -> str | None:
    """Return the name of a time zone, as text or as a call such as ``ZoneInfo("Asia/Tokyo")``.

    None if the file does not name it.
    """
    if isinstance(value, Called) and value.name in _ZONES and value.args:
        value = value.args[0]
    if isinstance(value, Called | Unknown):
        return "UTC" if _UTC.search(repr(value)) else None
    return value if isinstance(value, str) else None


def _dict_of(node: ast.Dict, names: Mapping[str, object]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, item in zip(node.keys, node.values, strict=True):
        value = value_of(item, names)
        if key is None and isinstance(value, dict):
            found |= cast("dict[str, object]", value)
            continue
        name = None if key is None else value_of(key, names)
        if isinstance(name, str):
            found[name] = value
        elif is_written(name):
            found[_key_text(key, item)] = value
        else:
            # Its value is not known either, because the name of the value is not.
            found[_key_text(key, item)] = Unknown(f"{{{name!r}: {ast.unparse(item)}}}")
    return found


def _key_text(key: ast.expr | None, item: ast.expr) -> str:
    if key is None:
        return f"**{ast.unparse(item)}"
    return str(key.value) if isinstance(key, ast.Constant) else ast.unparse(key)


def _computed(node: ast.UnaryOp | ast.BinOp, names: Mapping[str, object]) -> object:
    unknown = Unknown(ast.unparse(node))
    if isinstance(node, ast.UnaryOp):
        value = value_of(node.operand, names)
        is_negative = isinstance(node.op, ast.USub) and _is_number(value)
        return -cast("float", value) if is_negative else unknown
    left, right = value_of(node.left, names), value_of(node.right, names)
    if isinstance(left, str) and isinstance(right, str) and isinstance(node.op, ast.Add):
        return left + right
    if not (_is_number(left) and _is_number(right)):
        return unknown
    first, second = cast("float", left), cast("float", right)
    match node.op:
        case ast.Add():
            return first + second
        case ast.Sub():
            return first - second
        case ast.Mult() if abs(first) < NUMBERS_MAX and abs(second) < NUMBERS_MAX:
            return first * second
        case ast.Div() if second and max(abs(first), abs(second)) < NUMBERS_MAX:
            return first / second
        case _:
            return unknown


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _call_of(node: ast.Call, names: Mapping[str, object]) -> object:
    call = Called(
        called_name(node.func),
        tuple(value_of(each, names) for each in node.args),
        {each.arg or "**": value_of(each.value, names) for each in node.keywords},
        node.lineno,
        ast.unparse(node),
    )
    if call.name == "dict" and not call.args:
        return dict(call.kwargs)
    if call.name == "timedelta":
        return _span(call)
    return call


def _span(call: Called) -> object:
    args = cast("tuple[float, ...]", call.args)
    try:
        return timedelta(*args, **cast("dict[str, float]", call.kwargs))
    except (TypeError, ValueError, OverflowError):
        return Unknown(call.text)


def lines_of(node: ast.expr, path: ValuePath = ()) -> Iterator[tuple[ValuePath, int]]:
    """Yield the line of each value in a literal, by the keys and numbers that lead to it."""
    yield path, node.lineno
    match node:
        case ast.Dict():
            for key, item in zip(node.keys, node.values, strict=True):
                for place, line in lines_of(item, (*path, _key_text(key, item))):
                    is_named = key is not None and len(place) == len(path) + 1
                    yield place, key.lineno if is_named and key is not None else line
        case ast.List(elts=items) | ast.Tuple(elts=items):
            for number, item in enumerate(items):
                yield from lines_of(item, (*path, number))
        case ast.Call(keywords=keywords) if called_name(node.func) == "dict":
            for each in keywords:
                yield from lines_of(each.value, (*path, each.arg or "**"))
        case _:
            pass


def located_lines(node: ast.expr) -> Lines:
    """Return the lines of all values in a literal."""
    return dict(lines_of(node))
