"""The graph of a flow while it is defined: calls of tasks, their order, and parameters."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Generic, Self, TypedDict, TypeVar, cast

from rota.client.app.errors import InvalidFlow
from rota.client.app.named_values import named_in, named_in_template
from rota.client.app.placeholders import Json, Kind, Placeholder, Tree, placeholders_in
from rota.client.app.signatures import Signature
from rota.core.model.ids import NAME_RULE, is_name
from rota.core.model.trigger_rules import TriggerRule
from rota.core.near_names import did_you_mean

T_co = TypeVar("T_co", covariant=True)

Body = dict[str, Json]


def _is_text(value: object) -> bool:
    return value is None or isinstance(value, str)


class Conditions(TypedDict, total=False):
    """When a task of a flow starts, and what its failure does, as in `Placement`."""

    trigger_rule: str
    when: str
    allow_failure: bool


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The settings that a call of a task has in a flow alone.

    Attributes:
        name: The name of its task in the flow; None for that of the function.
        trigger_rule: The rule under which it starts; None for ``all_success``.
        when: The expression under which it starts; otherwise it is skipped. None for none.
        allow_failure: Whether its failure counts as a success; None for no.
        repeat: The fields of a loop of rounds; None for none.
        max_parallel: How many items of a `map` may run at the same time; None for 100.
        tolerated_failures: How many items of a `map` may fail; None for none.

    Raises:
        InvalidFlow: The name or the rule is invalid.
    """

    name: str | None = None
    trigger_rule: str | None = None
    when: str | None = None
    allow_failure: bool | None = None
    repeat: Body | None = None
    max_parallel: int | None = None
    tolerated_failures: int | None = None

    def __post_init__(self) -> None:
        if self.name is not None and not is_name(self.name):
            raise InvalidFlow(f"the name {self.name!r} of a task is invalid; use {NAME_RULE}")
        if not _is_text(self.when):
            raise InvalidFlow(f"when is {self.when!r}; write an expression as text")
        rules = [each.value for each in TriggerRule]
        if self.trigger_rule is not None and self.trigger_rule not in rules:
            hint = did_you_mean(self.trigger_rule, rules) or f"the rules are {', '.join(rules)}"
            raise InvalidFlow(f"there is no trigger rule {self.trigger_rule!r}; {hint}")

    def fields(self) -> Body:
        """Return the fields of a task that has these settings, without those of a `map`."""
        fields = {
            "triggerRule": self.trigger_rule,
            "when": self.when,
            "allowFailure": self.allow_failure,
            "repeat": self.repeat,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def expressions(self) -> list[str]:
        """Return the expressions in these settings."""
        return [each for each in (self.when, (self.repeat or {}).get("until")) if each]


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """What a call in a flow does.

    Attributes:
        function: The name of the function, or of a wait.
        signature: Its parameters and its result; None for a wait.
        by_worker: The function as a worker calls it, with JSON; None if only a node can do this.
        fields: Makes the fields of a task of a job from the arguments.
        placement: Its settings in the flow.
        positional: The arguments by position.
        named: The arguments by name.
        items: The items of a `map`, of which `ITEM` is one; None for a single call.
        template: The text of a wait, which may name results and parameters.
    """

    function: str
    signature: Signature | None
    fields: Callable[[list[Tree], dict[str, Tree]], Body]
    placement: Placement
    positional: list[Tree]
    named: dict[str, Tree]
    items: Tree = None
    by_worker: Callable[..., Any] | None = None
    template: str = ""

    def result(self, value: Json) -> Any:  # Any: a result of any type
        """Return the result of the call, converted to its type: a list for a `map`."""
        if self.signature is None:
            return value
        if self.items is None:
            return self.signature.decoded_result(value)
        return [None if each is None else self.signature.decoded_result(each) for each in value]

    def body(self) -> Body:
        """Return the fields of the task of the job, but for its name and what it needs."""
        placement = self.placement
        body = {**self.fields(self.positional, self.named), **placement.fields()}
        if self.items is not None:
            loop = {
                "items": _items(self.items),
                "maxParallel": placement.max_parallel,
                "toleratedFailures": placement.tolerated_failures,
            }
            body["foreach"] = {name: value for name, value in loop.items() if value is not None}
        return body

    def texts_name(self) -> Iterator[tuple[str, str]]:
        """Yield what its expressions and its template name."""
        for expression in self.placement.expressions():
            yield from named_in(expression)
        yield from named_in_template(self.template)


class Call(Placeholder, Generic[T_co]):
    """A call of a task in a flow, which stands for its result in the arguments of other calls.

    ``a >> b`` starts b after a, ``a >> [b, c]`` both after a, and ``[b, c] >> d`` d after both.

    Attributes:
        name: The name of its task in the flow.
        graph: The flow.
        step: What it does.
        result: The call itself, with the type of its result: for the arguments of other calls.
    """

    def __init__(self, graph: "Graph", name: str, step: Step) -> None:
        self.name = name
        self.expression = f'results["{name}"]'
        self.graph = graph
        self.step = step

    def __repr__(self) -> str:
        return f"<call {self.name} of the flow {self.graph.name}>"

    def argument(self) -> Json:
        """Return the form that a worker replaces by the result, also by one of a megabyte."""
        return {"result": self.name}

    @property
    def result(self) -> T_co:
        """The call itself, as an argument for a parameter of the type of its result."""
        return cast("T_co", self)

    def __rshift__(self, after: "Ordered") -> "Ordered":
        """Start *after* when this call has ended, and return *after*."""
        chain(self, after)
        return after

    def __rrshift__(self, before: "Sequence[Call[Any]]") -> Self:
        """Start this call when all of *before* have ended, and return this call."""
        chain(before, self)
        return self


AnyCall = Call[Any]  # Any: a flow has calls of all types.
Ordered = TypeVar("Ordered", bound=AnyCall | Sequence[AnyCall])


class Param(Placeholder):
    """A parameter of a flow.

    Attributes:
        name: The name.
        graph: The flow.
        kind: The annotated type of the first parameter of a function that gets it.
    """

    def __init__(self, graph: "Graph", name: str) -> None:
        self.name = name
        self.expression = f"params.{name}"
        self.kind: Kind = Any
        self.graph = graph

    def __repr__(self) -> str:
        return f"<parameter {self.name} of the flow {self.graph.name}>"

    def expect(self, kind: Kind) -> None:
        """Note the annotated type of a parameter that gets this value: the first one counts."""
        if self.kind is Any:
            self.kind = kind


class Item(Placeholder):
    """The item of a step of a `map`."""

    expression = "item"

    def __repr__(self) -> str:
        return "<item>"


ITEM = Item()


class Graph:
    """The calls of one flow and their order.

    Attributes:
        name: The name of the flow.
        is_open: Whether the flow is being defined.
        calls: The calls by name, in the order of their definition.
        needs: The names of the calls that each call needs.
        params: The parameters that are used.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_open = False
        self.calls: dict[str, AnyCall] = {}
        self.needs: dict[str, list[str]] = {}
        self.params: dict[str, Param] = {}

    def add(self, step: Step) -> AnyCall:
        """Add a call, after those whose results it gets or names, and return it.

        Raises:
            InvalidFlow: Its name is taken, an argument is of another flow, or a text names no call.
        """
        self._check_open()
        used = list(placeholders_in([step.positional, step.named, step.items]))
        used += [self._value(kind, name) for kind, name in step.texts_name()]
        for each in used:
            if isinstance(each, (Call, Param)):
                self._check_own(cast("Call[object] | Param", each))
        name = self._name_for(step)
        call = AnyCall(self, name, step)
        self.calls[name] = call
        needs = [each.name for each in used if isinstance(each, Call)]
        self.needs[name] = list(dict.fromkeys(needs))
        return call

    def order(self, first: AnyCall, second: AnyCall) -> None:
        """Start *second* after *first*.

        Raises:
            InvalidFlow: A circle, a call of another flow, or the flow is complete.
        """
        for each in (first, second):
            self._check_own(each)
        self._check_open()
        if path := self._path(second.name, first.name):
            raise InvalidFlow(
                f"{first.name} >> {second.name} makes a circle in the flow {self.name}: "
                f"{' >> '.join([*path, second.name])}; leave one of these out"
            )
        if first.name not in self.needs[second.name]:
            self.needs[second.name].append(first.name)

    def param(self, name: str) -> Param:
        """Return the parameter *name*, which is a new one at its first use.

        Raises:
            InvalidFlow: It is not used in the complete flow.
        """
        if name not in self.params:
            self._check_open()
            self.params[name] = Param(self, name)
        return self.params[name]

    def ordered(self) -> Iterator[tuple[AnyCall, list[str]]]:
        """Yield each call after those that it needs, with their names."""
        done: set[str] = set()
        while len(done) < len(self.calls):
            name = next(
                name
                for name in self.calls
                if name not in done and done.issuperset(self.needs[name])
            )
            done.add(name)
            yield self.calls[name], self.needs[name]

    def _value(self, kind: str, name: str) -> "AnyCall | Param":
        """Return what a text names: a parameter, or an earlier call."""
        if kind == "params":
            return self.param(name)
        if name not in self.calls:
            hint = did_you_mean(name, self.calls) or f"it has {', '.join(self.calls) or 'none'}"
            raise InvalidFlow(
                f'{kind}["{name}"] names no call that is in the flow {self.name} already; {hint}'
            )
        return self.calls[name]

    def _path(self, start: str, end: str) -> list[str]:
        """Return the calls from *start* to *end*, each of which is needed by the next one."""
        ways, seen = [[end]], {end}
        while ways:
            way = ways.pop()
            if way[0] == start:
                return way
            for name in self.needs[way[0]]:
                if name not in seen:
                    seen.add(name)
                    ways.append([name, *way])
        return []

    def _name_for(self, step: Step) -> str:
        chosen = step.placement.name
        if chosen is not None and chosen in self.calls:
            raise InvalidFlow(
                f"the flow {self.name} has a call named {chosen!r} already; choose another name"
            )
        own = step.function.strip("_")
        if chosen is None and not is_name(own):
            call = f"{step.function}.options(name=...)" if step.signature else "name=..."
            raise InvalidFlow(f"{step.function!r} cannot name a task; give the call a name: {call}")
        name, number = chosen or own, 1
        while name in self.calls:
            number += 1
            name = f"{own}-{number}"
        return name

    def _check_own(self, value: "AnyCall | Param") -> None:
        if value.graph is not self:
            raise InvalidFlow(
                f"{value!r} cannot be used in the flow {self.name}; a flow has calls and "
                "parameters of its own: call the task in this flow, too"
            )

    def _check_open(self) -> None:
        if not self.is_open:
            raise InvalidFlow(
                f"the flow {self.name} is complete; add calls, their order and parameters in its "
                "'with'"
            )


_current: ContextVar[Graph | None] = ContextVar("flow", default=None)


def current() -> Graph | None:
    """Return the graph of the flow that is being defined here."""
    return _current.get()


@contextmanager
def defining(graph: Graph) -> Generator[None]:
    """Add the calls of tasks to *graph*."""
    graph.is_open = True
    try:
        with _in(graph):
            yield
    finally:
        graph.is_open = False


def running() -> AbstractContextManager[None]:
    """Let the calls of tasks run their functions, also in the definition of a flow."""
    return _in(None)


@contextmanager
def _in(graph: Graph | None) -> Generator[None]:
    token = _current.set(graph)
    try:
        yield
    finally:
        _current.reset(token)


def chain(*ordered: object) -> None:
    """Start each call, or list of calls, after the one before it.

    Raises:
        InvalidFlow: There is something else, or a circle.
    """
    for before, after in pairwise(map(_calls, ordered)):
        for first in before:
            for second in after:
                first.graph.order(first, second)


def _calls(ordered: object) -> list[AnyCall]:
    """Return the calls of one side of ``>>``.

    Raises:
        InvalidFlow: There is something else.
    """
    given = cast("Sequence[object]", ordered) if isinstance(ordered, (list, tuple)) else [ordered]
    calls: list[AnyCall] = []
    for each in given:
        if not isinstance(each, Call):
            raise InvalidFlow(
                f"{each!r} is not a call in a flow; >> orders calls and lists of calls, such as "
                "first >> [second, third]"
            )
        calls.append(cast("Call[object]", each))
    return calls


def _items(items: Tree) -> Json:
    """Return the items of a loop: an expression if they are known only when the flow runs."""
    if isinstance(items, Placeholder):
        return items.expression
    if any(True for _ in placeholders_in(items)):
        return f"[{', '.join(each.expression for each in items)}]"
    return items
