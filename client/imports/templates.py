"""Text of other schedulers in definitions, where ``{{`` and ``{%`` begin templates of rota."""

import re
from typing import Any, cast

from rota.client.definitions import Definition

_TEMPLATE = re.compile(r"\{\{|\{%")
_END = re.compile(r"(\{)(%[-+]?\s*endraw)")
_RAW, _END_RAW = "{% raw %}", "{% endraw %}"


def literal(text: str) -> str:
    """Return a template of rota whose value is *text*.

    >>> literal("docker ps --format {{.Names}}")
    '{% raw %}docker ps --format {{.Names}}{% endraw %}'
    """
    if not _TEMPLATE.search(text):
        return text
    # The end of raw text within raw text is split: after its brace raw text begins again.
    divided = _END.sub(rf"\1{_END_RAW}{_RAW}\2", text)
    return f"{_RAW}{divided}{_END_RAW}"


def literal_value(value: object) -> object:
    """Return JSON whose texts are templates with the values of the texts of *value*."""
    if isinstance(value, str):
        return literal(value)
    if isinstance(value, list):
        return [literal_value(each) for each in cast("list[object]", value)]
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        return {key: literal_value(each) for key, each in members.items()}
    return value


def literal_work(fields: Definition) -> Definition:
    """Return the fields of a job or task, whose command, environment and input are no templates.

    A line for the shell that looks like a template becomes a list: a quoted ``{{`` in a line is
    refused.
    """
    found = dict(fields)
    command: Any = fields.get("command")  # Any: as in `Definition`
    if isinstance(command, str) and _TEMPLATE.search(command):
        command = ["/bin/sh", "-c", command]
    if isinstance(command, list):
        found["command"] = [literal(each) for each in cast("list[str]", command)]
    if fields.get("env"):
        env = cast("dict[str, str]", fields["env"])
        found["env"] = {name: literal(value) for name, value in env.items()}
    if fields.get("stdin"):
        found["stdin"] = literal(fields["stdin"])
    return found
