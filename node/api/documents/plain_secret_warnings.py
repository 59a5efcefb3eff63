"""The warning about passwords and tokens that a job has as plain text."""

import re
from collections.abc import Iterator

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.model.job import JobSpec
from rota.core.quoting import in_quotes

NAMES_MAX = 3
"""The most names in the warning."""
TASKS_MAX = 100
"""The most tasks of a job that are checked."""

_LOOKS_SECRET = re.compile(
    r"(?:PASSWORD|PASSWD|SECRET|TOKEN|APIKEY|(?:^|[_.-])KEY)$", re.IGNORECASE
)
"""Ends of names; `TOKEN_FILE` and `PRIMARY_KEY_COLUMN` are none."""


def plain_secret_warnings(spec: JobSpec) -> list[str]:
    """Return a warning if variables or parameters look like secrets; it has no value of them."""
    names = list(dict.fromkeys(_plain_secrets(spec)))
    if not names:
        return []
    shown = ", ".join(map(in_quotes, names[:NAMES_MAX]))
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    warning = (
        f"{shown}{more} may be a secret, and readers of the job see its value: set it with "
        f"`rota secret set NAME -n {spec.namespace}`, and name it in secrets"
    )
    return [warning]


def _plain_secrets(spec: JobSpec) -> Iterator[str]:
    yield from _in_parameters(spec.parameters)
    for task in spec.tasks[:TASKS_MAX]:
        yield from (name for name, value in task.work.env if _is_plain_secret(name, value))
        yield from _in_parameters(task.work.parameters)


def _in_parameters(text: str) -> Iterator[str]:
    """Yield the names of parameters of the first level that look like secrets."""
    if not text:
        return
    try:
        parameters = msgspec.json.decode(text, type=dict[str, object])
    except UNDECODABLE:
        return  # They are no object.
    yield from (name for name, value in parameters.items() if _is_plain_secret(name, value))


def _is_plain_secret(name: str, value: object) -> bool:
    """Return True if a text has the name of a secret; paths are none."""
    is_text = isinstance(value, str) and bool(value) and not value.startswith("/")
    return is_text and _LOOKS_SECRET.search(name) is not None
