"""Values that exist only while a flow runs, as its definition names them.

A *tree* is JSON in which placeholders may stand anywhere but as keys.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NoReturn, cast

from rota.client.app.errors import InvalidFlow

Json = Any  # Any: JSON has values of many types.
Tree = Any  # Any: JSON and placeholders.
Kind = Any  # Any: an annotation, which need not be a class.

_BEFORE_A_TAG = re.compile(r"\{(?=[{%#])")


class Placeholder:
    """A value that exists only while a flow runs.

    Attributes:
        expression: The expression that has this value in the job.
    """

    expression: str = ""

    def expect(self, kind: Kind) -> None:
        """Note the annotated type of a parameter that gets this value."""

    def argument(self) -> Json:
        """Return what stands for this value as an argument of a Python task."""
        return f"{{{{ {self.expression} }}}}"


def placeholders_in(tree: Any) -> Iterator[Placeholder]:  # Any: a tree, or what is no JSON yet
    """Yield the placeholders in *tree*, in its lists, tuples, sets and dicts."""
    if isinstance(tree, Placeholder):
        yield tree
    elif isinstance(tree, (list, tuple, set, frozenset)):
        for each in cast("Iterable[Tree]", tree):
            yield from placeholders_in(each)
    elif isinstance(tree, dict):
        yield from placeholders_in(list(cast("dict[str, Tree]", tree).values()))


def refuse_placeholders(function: str, args: Iterable[Any], kwargs: Mapping[str, Any]) -> None:
    """Check that a call outside of a flow has no placeholder as an argument.

    Those inside arguments are not searched, for speed: their use is refused.

    Raises:
        InvalidFlow: It has one.
    """
    for each in (*args, *kwargs.values()):
        if not isinstance(each, Placeholder):
            continue
        raise InvalidFlow(
            f"{each!r} is an argument of {function} outside of the definition of its flow, where "
            "it has no value; move this call into the 'with' of the flow, or use flow.local() or "
            "the result of flow.delay()"
        )


def templated(tree: Tree) -> Json:
    """Return *tree* in the form of a job's arguments: each placeholder becomes a template."""
    return _mapped(tree, lambda value: Placeholder.argument(value), _literal)


def argument(tree: Tree) -> Json:
    """Return *tree* as one whole argument of a Python task of a job."""
    return tree.argument() if isinstance(tree, Placeholder) else templated(tree)


def valued(tree: Tree, value_of: Callable[[Placeholder], Json]) -> Json:
    """Return *tree* with values in place of its placeholders."""
    return _mapped(tree, value_of, str)


def _mapped(
    tree: Tree, of_placeholder: Callable[[Placeholder], Json], of_text: Callable[[str], str]
) -> Json:
    match tree:
        case Placeholder():
            return of_placeholder(tree)
        case str():
            return of_text(tree)
        case list():
            items = cast("list[object]", tree)
            return [_mapped(each, of_placeholder, of_text) for each in items]
        case dict():
            members = cast("dict[str, Tree]", tree)
            return {name: _mapped(each, of_placeholder, of_text) for name, each in members.items()}
        case _:
            return tree


def _literal(text: str) -> str:
    """Return the template whose text is *text*: a node takes braces for the begin of a tag."""
    return _BEFORE_A_TAG.sub('{{ "{" }}', text)


def _refusing(use: str) -> Callable[..., NoReturn]:
    def refuse(self: Placeholder, *_: object) -> NoReturn:
        raise InvalidFlow(
            f"{self!r} has no value while the flow is defined, and {use} needs one; do this in the "
            "function of a task, and pass it as an argument"
        )

    return refuse


def _equal(self: Placeholder, other: object) -> bool:
    return True if self is other else _refusing("==")(self)


def _attribute(self: Placeholder, name: str) -> NoReturn:
    raise AttributeError(
        f"{self!r} has no attribute {name!r}: its value exists only while the flow runs; use it in "
        "the function of a task, and pass it as an argument"
    )


_USES = {
    "__bool__": "a condition (if, and, or, not)",
    "__iter__": "a loop or an unpacking",
    "__len__": "len()",
    "__contains__": "the operator in",
    "__getitem__": "an item [...]",
    "__str__": "text (an f-string, str())",
    "__format__": "text (an f-string, str())",
    "__int__": "int()",
    "__float__": "float()",
    "__index__": "an index",
    "__await__": "await",
    "__neg__": "the operator -",
}
_OPERATORS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "and": "&",
    "or": "|",
    "pow": "**",
}
_COMPARISONS = {"__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">=", "__ne__": "!="}


def _refuse_uses() -> None:
    """Make each use of a placeholder as a value an error; type checkers refuse most of them."""
    operators = {
        f"__{side}{name}__": f"the operator {sign}"
        for name, sign in _OPERATORS.items()
        for side in ("", "r")
    }
    comparisons = {name: f"the operator {sign}" for name, sign in _COMPARISONS.items()}
    for name, use in {**_USES, **operators, **comparisons}.items():
        setattr(Placeholder, name, _refusing(use))
    setattr(Placeholder, "__eq__", _equal)  # noqa: B010 - type checkers refuse an assignment
    setattr(Placeholder, "__getattr__", _attribute)  # noqa: B010 - likewise


_refuse_uses()
