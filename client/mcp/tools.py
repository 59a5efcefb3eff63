"""A table of tools: each is a row with the type of its input and a function."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Generic, TypeVar, cast

import msgspec

from rota.client.mcp.bounds import bounded
from rota.client.mcp.protocol import Answer, UnknownTool
from rota.core.quoting import in_quotes
from rota.wire.bodies.json_decoding import decode_distinct

C = TypeVar("C")

READ_ONLY = "read_only"


class Input(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename="camel",
):
    """The arguments of a tool."""


@dataclass(frozen=True, kw_only=True)
class Tool(Generic[C]):
    """A tool.

    Attributes:
        name: Its name.
        about: What it does, for the model.
        input: The type of its arguments, from which its JSON Schema follows.
        function: Returns the answer, an object, to a context and the arguments.
        is_change: Whether it changes anything.
    """

    name: str
    about: str
    input: type[Input]
    function: Callable[[C, Any], object]  # Any: arguments of the type *input*
    is_change: bool = False

    @property
    def listed(self) -> dict[str, object]:
        """Its description, as ``tools/list`` has it."""
        hints = {"readOnlyHint": not self.is_change, "destructiveHint": self.is_change}
        return {
            "name": self.name,
            "description": self.about,
            "inputSchema": _schema_of(self.input),
            "annotations": hints,
        }


@dataclass(frozen=True, kw_only=True)
class Called:
    """A call of a tool that has ended.

    Attributes:
        tool: The name of the tool.
        outcome: ``ok``, or the code of the error.
        took_s: Its duration in seconds.
        arguments: The arguments as sent; None if they were not decoded.
        bug: The error that is a bug; None for none.
    """

    tool: str
    outcome: str
    took_s: float
    arguments: Input | None = None
    bug: Exception | None = None


class Table(Generic[C]):
    """Tools that are called with one context; threads may share it.

    Args:
        rows: The tools.
        context: The context of all calls.
        may_change: Whether tools that change anything are listed and accepted.
        problem_of: Returns the document of an error, which has a ``code``; None for a bug.
        record: Called after each call.
    """

    def __init__(
        self,
        rows: Sequence[Tool[C]],
        context: C,
        *,
        may_change: bool,
        problem_of: Callable[[Exception], Mapping[str, object] | None],
        record: Callable[[Called], None],
    ) -> None:
        self._rows = {each.name: each for each in rows}
        self._context = context
        self._may_change = may_change
        self._problem_of = problem_of
        self._record = record

    def listed(self) -> list[dict[str, object]]:
        """Return the descriptions of the tools that may be called."""
        return [
            each.listed for each in self._rows.values() if self._may_change or not each.is_change
        ]

    def call(self, name: str, arguments: bytes) -> Answer:
        """Return the answer of a tool; a refusal of the arguments or of the API is an answer, too.

        Raises:
            UnknownTool: There is no such tool.
        """
        begun = perf_counter()

        def record(outcome: str, given: Input | None = None, bug: Exception | None = None) -> None:
            took_s = perf_counter() - begun
            self._record(
                Called(tool=name[:100], outcome=outcome, took_s=took_s, arguments=given, bug=bug)
            )

        tool = self._rows.get(name)
        if tool is None:
            record("unknown_tool")
            names = ", ".join(str(each["name"]) for each in self.listed())
            raise UnknownTool(f"there is no tool {in_quotes(name)}; the tools are {names}")
        if tool.is_change and not self._may_change:
            record(READ_ONLY)
            return Answer(_read_only(name), is_error=True)
        given: Input | None = None
        try:
            given = decode_distinct(arguments, tool.input)
            content = msgspec.to_builtins(tool.function(self._context, given))
        except Exception as error:
            problem = self._problem_of(error)
            if problem is None:
                record("internal_error", given, error)
                raise
            record(str(problem["code"]), given)
            return Answer(bounded(problem), is_error=True)
        record("ok", given)
        return Answer(bounded(content))


def _read_only(name: str) -> dict[str, object]:
    return {
        "code": READ_ONLY,
        "detail": f"the tool {name} changes something, and this server only reads; a person can "
        "start it with `rota mcp --allow-changes`",
    }


def _schema_of(kind: type[Input]) -> dict[str, object]:
    """Return the JSON Schema of the arguments, without references."""
    schema = msgspec.json.schema(kind)
    found = cast("dict[str, object]", schema["$defs"][kind.__name__])
    return {name: value for name, value in found.items() if name not in ("title", "description")}
