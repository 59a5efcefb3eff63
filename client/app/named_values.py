"""The calls and parameters that the texts of a flow name: ``results.load | sum > params.least``."""

import re
from collections.abc import Iterator

_PART = re.compile(
    r"""(?<![\w.])(?P<kind>params|results|states)
        \s*(?:\.\s*(?P<member>\w+)|\[\s*(?P<quote>['"])(?P<key>[^'"\\]*)(?P=quote)\s*\])
        |'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""",  # A literal names nothing.
    re.DOTALL | re.VERBOSE,
)
_TAG = re.compile(r"\{[{%](?P<code>.*?)[}%]\}", re.DOTALL)


def named_in(expression: str) -> Iterator[tuple[str, str]]:
    """Yield ``params``, ``results`` or ``states``, and the name of its member, in their order."""
    for part in _PART.finditer(expression):
        if part["kind"]:
            yield part["kind"], part["member"] or part["key"]


def named_in_template(template: str) -> Iterator[tuple[str, str]]:
    """Yield what the tags of *template* name, as `named_in` does."""
    for tag in _TAG.finditer(template):
        yield from named_in(tag["code"])
