"""The kinds of work: what tasks of each executor may have.

A further executor of rota itself is a row of `KINDS` and a row of
`rota.executor.warden.hosted_executors`. An executor that another package adds has the kind `TYPED`.
"""

from collections.abc import Mapping
from typing import NamedTuple


class WorkKind(NamedTuple):
    """What a task of one executor may have.

    Attributes:
        field: The field of a task by which the executor is chosen.
        is_program: Whether it runs a program of the machine, so that it needs a command.
        has_user: Whether it runs as a named user of the machine.
        has_sandbox: Whether it can keep an attempt in a sandbox.
        has_limits: Whether it can limit the resources of an attempt.
        has_secret_files: Whether it passes secrets as files, and tokens, and masks them in output.
        has_secret_variables: Whether it passes secrets as variables. A container engine writes
            variables to its disk.
        is_of_node: Whether an attempt without a sandbox has all the rights of the node's user.
    """

    field: str = "type"
    is_program: bool = False
    has_user: bool = False
    has_sandbox: bool = False
    has_limits: bool = False
    has_secret_files: bool = False
    has_secret_variables: bool = False
    is_of_node: bool = False


TYPED = WorkKind()
"""The kind of executors that are chosen by ``type``; their tasks have parameters."""

KINDS: Mapping[str, WorkKind] = {
    "process": WorkKind(
        "command",
        is_program=True,
        has_sandbox=True,
        has_limits=True,
        has_secret_files=True,
        has_secret_variables=True,
        is_of_node=True,
    ),
    "user": WorkKind(
        "user", is_program=True, has_user=True, has_limits=True, has_secret_variables=True
    ),
    "python": WorkKind(
        "python",
        has_limits=True,
        has_secret_files=True,
        has_secret_variables=True,
        is_of_node=True,
    ),
    "container": WorkKind("container", has_limits=True, has_secret_files=True),
}
"""The kinds that have fields of their own in tasks, by the name of the executor."""

OWN_FIELDS = tuple(name for name, kind in KINDS.items() if kind.field == name)
"""Executors that are chosen by a field of the same name, and not by ``type``."""


def kind_of(executor: str) -> WorkKind:
    """Return the kind of work of an executor."""
    return KINDS.get(executor, TYPED)
