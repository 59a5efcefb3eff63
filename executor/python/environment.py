"""Environments of calls: calls with equal environments may share a worker."""

from collections.abc import Mapping
from typing import NamedTuple

from rota.core.model.attempt import Call, Order, ResourceLimits
from rota.executor.launch.spawn import variables_of

_OF_ONE_CALL = ("ROTA_", "TRACEPARENT")
"""How the variables begin that rota gives to each attempt; all others are a worker's for life."""


class Environment(NamedTuple):
    """What the workers of one pool have in common.

    Attributes:
        interpreter: Absolute path of their Python; empty for the node's own.
        path: Folders that modules are looked for in first.
        cwd: Where calls begin; empty for a private folder.
        variables: What tasks add to the node's minimal environment.
        limits: What a worker may use.
    """

    interpreter: str
    path: tuple[str, ...]
    cwd: str
    variables: tuple[tuple[str, str], ...]
    limits: ResourceLimits


def environment(order: Order, call: Call) -> Environment:
    """Return the environment that *call* of *order* needs."""
    work = order.work
    return Environment(
        interpreter=call.interpreter,
        path=call.path,
        cwd=work.cwd,
        variables=tuple(each for each in work.env if not each[0].startswith(_OF_ONE_CALL)),
        limits=work.limits,
    )


def variables_of_worker(environment: Environment, base: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a worker begins with; *base* is what all attempts have.

    Tasks may replace what comes from the node, but not the names that rota gives.
    """
    ours = {name: value for name, value in base.items() if name.startswith("ROTA_")}
    return {**base, **dict(environment.variables), **ours}


def variables_of_call(order: Order) -> dict[str, str]:
    """Return the variables that are set for the time of one call."""
    return {
        **{name: value for name, value in order.work.env if name.startswith(_OF_ONE_CALL)},
        **variables_of(order),
    }
