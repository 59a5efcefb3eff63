"""Expressions and templates in the definitions of tasks: one language, that of MiniJinja.

An expression is a value: ``params.size > 3``. A template is a text with values:
``load {{ item }}``; where JSON is expected, a text that is one single ``{{ ... }}`` stands for the
value itself. Only the names of `NAMES` exist, an unknown one is an error, and no expression can
reach Python objects, files or the network. A budget (fuel) bounds the steps of each evaluation. The
dialect is that of MiniJinja 3 without its emulation of Python's methods, one of which takes
unbounded memory (``'{:>999999999}'.format(1)``: 1.9 GB, 46 s).

The results are recorded, and no replica evaluates anything again: another version of the library
may evaluate differently only what is not decided yet.
"""

import re
from collections.abc import Callable, Mapping, Set
from functools import cache
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from rota.core.quoting import shortened

if TYPE_CHECKING:
    from minijinja import Environment

Value = Any
"""A value of JSON."""
Names = Mapping[str, Value]
"""The values that expressions may name."""

NAMES = frozenset({"params", "results", "states", "item", "index", "last", "execution"})
"""All names; `rota.core.decide.flow_values` says what they are."""
FUNCTIONS = frozenset({"range"})
STATEMENTS = frozenset({"if", "elif", "else", "endif", "for", "endfor", "raw", "endraw"})
"""The statements of templates. Others, such as ``set``, could double a value again and again, and
an engine counts the steps of writing a value only when it is written."""
EXPRESSION_LENGTH_MAX = 4_096
TEMPLATE_LENGTH_MAX = 131_072
FUEL, FUEL_MIN = 50_000, 10_000
"""The most steps of one evaluation, of small and of large values: a few milliseconds. The sort of a
list of 2,000 texts takes 25,000."""
STEP_BYTES = 5_000_000_000
"""The limit of the product of steps and bytes of values: a step may read all of a value."""
WRITTEN_MAX = 1 << 20
"""The most characters that one evaluation writes, also within filters."""
JOINTS_MAX = 16
"""The most operators in one expression that join texts or lists: each copies what is before it."""
REMOVED_FILTERS = ("batch", "format", "indent", "pprint", "slice")
"""Filters that make a value of any size from a number: ``'a' | indent(999999999)``."""

_OPEN, _CLOSE = "\x02", "\x03"
_LITERAL = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""", re.DOTALL)
_RAW = re.compile(r"\{%[-+]?\s*raw\s*[-+]?%\}.*?\{%[-+]?\s*endraw\s*[-+]?%\}", re.DOTALL)
_TAG = re.compile(
    r"""\{(?P<mark>[{%])(?P<code>(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[^'"])*?)[}%]\}""",
    re.DOTALL,
)
_SINGLE = re.compile(r"\{\{(?P<text>(?:(?!\}\}|\{\{).)*)\}\}", re.DOTALL)


class ExpressionError(ValueError):
    """An expression or a template is malformed, or has no value here."""


def has_template(text: str) -> bool:
    """Return True if *text* contains an expression or a statement of a template."""
    return "{{" in text or "{%" in text


def problem_of_expression(text: str, known: Set[str] = NAMES) -> str:
    """Return what is wrong with the text of an expression over *known*; empty for nothing."""
    if not text.strip():
        return "is empty; write an expression, such as params.size > 3"
    if len(text) > EXPRESSION_LENGTH_MAX:
        return f"has {len(text):,} characters; at most {EXPRESSION_LENGTH_MAX:,} are allowed"
    if has_template(text):
        return "is an expression already; write it without {{ and }}"
    if _OPEN in text or _CLOSE in text:
        return "contains a control character; remove it"
    return _problem_of_code(text) or _problem_of(
        _engines().of_expressions, f"{_OPEN}({text}){_CLOSE}", known
    )


def problem_of_template(text: str) -> str:
    """Return what is wrong with the text of a template; empty if it can be rendered."""
    if len(text) > TEMPLATE_LENGTH_MAX:
        return f"has {len(text):,} characters; at most {TEMPLATE_LENGTH_MAX:,} are allowed"
    for tag in _TAG.finditer(_RAW.sub("", text)):
        if problem := _problem_of_code(tag["code"]):
            return problem
        words = tag["code"].strip(" \n\t-+").split(maxsplit=1)
        if tag["mark"] == "%" and words and words[0] not in STATEMENTS:
            allowed = ", ".join(sorted(STATEMENTS))
            return f"has the statement {shortened(words[0])}; the statements are {allowed}"
    return _problem_of(_engines().of_texts, text)


def _problem_of_code(code: str) -> str:
    """Return an error if *code* may need much memory: it repeats lists, or joins many values."""
    operators = _LITERAL.sub("", code)
    if "*" in operators:
        return "has the operator *, which can repeat lists; write a | times(b) for numbers"
    joints = operators.count("+") + operators.count("~")
    if joints > JOINTS_MAX:
        return f"has {joints} operators + and ~; at most {JOINTS_MAX} are allowed"
    return ""


def evaluate(text: str, names: Names) -> Value:
    """Return the value of an expression.

    Raises:
        ExpressionError: It cannot be evaluated: a name in it has no value, a type does not fit, or
            it takes more than `FUEL` steps.
    """
    _seen.clear()
    _render(_engines().of_expressions, f"{_OPEN}({text}){_CLOSE}", names, text)
    return _seen.pop()


def rendered(text: str, names: Names) -> str:
    """Return the text of a template; values that are no text are written as JSON.

    Raises:
        ExpressionError: As for `evaluate`.
    """
    return _render(_engines().of_texts, text, names, text)


def rendered_line(text: str, names: Names) -> str:
    """Return a line for a shell, in which each value is quoted unless it is marked as ``safe``.

    Raises:
        ExpressionError: As for `evaluate`.
    """
    return _render(_engines().of_lines, text, names, text)


def rendered_json(text: str, names: Names) -> str:
    """Return JSON in which each text is rendered; a text that is one ``{{ ... }}`` is its value.

    Raises:
        ExpressionError: As for `evaluate`.
    """

    def value_of(text: str) -> Value:
        single = _SINGLE.fullmatch(text.strip())
        return evaluate(single["text"], names) if single else rendered(text, names)

    return msgspec.json.encode(_with_texts(msgspec.json.decode(text), value_of)).decode()


def templates_in(text: str) -> list[str]:
    """Return the texts in JSON that are templates."""
    found: list[str] = []

    def note(text: str) -> Value:
        if has_template(text):
            found.append(text)
        return text

    _with_texts(msgspec.json.decode(text), note)
    return found


def text_of(value: Value) -> str:
    """Return *value* as text: a text as it is, all else as JSON."""
    return str(value) if isinstance(value, str) else msgspec.json.encode(value).decode()


def _with_texts(value: Value, convert: Callable[[str], Value]) -> Value:
    match value:
        case str():
            return convert(value)
        case list():
            items = cast("list[object]", value)
            return [_with_texts(each, convert) for each in items]
        case dict():
            members = cast("dict[str, object]", value)
            return {key: _with_texts(each, convert) for key, each in members.items()}
        case _:
            return value


def _problem_of(engine: "Environment", text: str, known: Set[str] = NAMES) -> str:
    from minijinja import TemplateError

    try:
        engine.add_template("checked", text)
        unknown = engine.undeclared_variables_in_template("checked") - known - FUNCTIONS
    except TemplateError as error:
        return _first_line(error)
    finally:
        engine.remove_template("checked")
    if unknown:
        first, names = min(unknown), ", ".join(sorted(known))
        return f"names {shortened(first)}, which does not exist; the names are {names}"
    return ""


def _render(engine: "Environment", source: str, names: Names, text: str) -> str:
    from minijinja import TemplateError

    _written[0] = 0
    try:
        size = max(1, len(msgspec.json.encode(names)))
        engine.fuel = max(FUEL_MIN, min(FUEL, STEP_BYTES // size))
        return engine.render_str(source, **names)
    except (TemplateError, TypeError, ValueError, OverflowError, RecursionError) as error:
        detail = f"{shortened(text.strip())}: {_first_line(error)}"
        raise ExpressionError(detail) from error


def _first_line(error: Exception) -> str:
    line = str(error).partition("\n")[0]
    return re.sub(r" \(in \S+:\d+\)$", "", line)


_seen: list[Value] = []
"""The value of the expression that was just evaluated."""


_written = [0]
"""The characters that the present evaluation has written."""


def _write(length: int) -> None:
    """Count *length* characters before they are written.

    Raises:
        ValueError: The evaluation writes too many.
    """
    _written[0] += length
    if _written[0] > WRITTEN_MAX:
        raise ValueError(f"writes more than {WRITTEN_MAX:,} characters")


def _see(value: Value) -> str:
    _seen.append(value)
    return ""


def _plain(value: Value) -> str:
    text = text_of(value)
    _write(len(text))
    return text


def _quoted(value: Value) -> str:
    # A value that the filter ``safe`` marked has this method.
    text = str(value) if hasattr(value, "__html__") else quote(text_of(value))
    _write(len(text))
    return text


def _tojson(value: Value) -> str:
    text = msgspec.json.encode(value).decode()
    _write(len(text))
    return text


def _join(values: Value, between: str = "", attribute: str | None = None) -> str:
    found: list[Value] = list(values)
    texts = [text_of(each[attribute] if attribute else each) for each in found]
    _write(sum(map(len, texts)) + len(between) * len(texts))
    return between.join(texts)


def _replace(text: Value, old: str, new: str) -> str:
    text = text_of(text)
    count = text.count(old)
    _write(len(text) + count * max(0, len(new) - len(old)))
    return str(text.replace(old, new))


def _times(one: Value, other: Value) -> Value:
    if not isinstance(one, int | float) or not isinstance(other, int | float):
        raise TypeError("times needs two numbers")
    return one * other


class _Engines(NamedTuple):
    of_texts: "Environment"
    of_lines: "Environment"
    of_expressions: "Environment"


@cache
def _engines() -> _Engines:
    """Return the engines, made at the first use: clients have definitions without MiniJinja."""
    from minijinja import Environment

    def engine(
        finalizer: Callable[[Value], str], begin: str = "{{", end: str = "}}"
    ) -> Environment:
        made = Environment(
            debug=False,
            fuel=FUEL,
            undefined_behavior="strict",
            pycompat=False,
            keep_trailing_newline=True,
            finalizer=finalizer,
            filters={"times": _times, "join": _join, "replace": _replace, "tojson": _tojson},
            variable_start_string=begin,
            variable_end_string=end,
        )
        for name in REMOVED_FILTERS:
            made.remove_filter(name)
        return made

    return _Engines(engine(_plain), engine(_quoted), engine(_see, _OPEN, _CLOSE))
