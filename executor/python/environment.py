"""Environments of calls: calls with equal environments may share a worker."""

from collections.abc import Mapping
from typing import NamedTuple

from rota.core.model.attempt import Order
from rota.core.model.ids import namespace_of
from rota.core.model.work import Call, ResourceLimits
from rota.executor.launch.spawn import variables_of

_OF_ONE_CALL = ("ROTA_", "TRACEPARENT")
"""The prefixes of variables that are set for one call; a worker keeps all others until its end."""


class Environment(NamedTuple):
    """The properties that the workers of one pool have in common.

    Attributes:
        interpreter: The absolute path of their Python; empty for the node's own.
        path: The first folders of the module search path.
        cwd: The working directory of calls; empty for a private folder.
        variables: The variables that tasks add to the node's minimal environment.
        limits: The resource limits of a worker.
        namespace: The namespace of their jobs: code of one call can plant code for the next.
        secrets_of: The namespace of calls with secrets, or the job of calls with a token; empty for
            other calls. A worker's memory may keep a secret, so it serves no calls of others
            afterwards.
    """

    interpreter: str
    path: tuple[str, ...]
    cwd: str
    variables: tuple[tuple[str, str], ...]
    limits: ResourceLimits
    namespace: str = ""
    secrets_of: str = ""


def environment(order: Order, call: Call) -> Environment:
    """Return the environment that *call* of *order* needs."""
    work = order.work
    return Environment(
        interpreter=call.interpreter,
        path=call.path,
        cwd=work.cwd,
        variables=tuple(each for each in work.env if not each[0].startswith(_OF_ONE_CALL)),
        limits=work.limits,
        namespace=namespace_of(order.job),
        secrets_of=_secrets_of(order),
    )


def _secrets_of(order: Order) -> str:
    """Return the owner of the secrets of a worker: the job for tokens, else the namespace."""
    if order.work.has_identity:
        return order.job
    return namespace_of(order.job) if order.work.secrets is not None else ""


def variables_of_worker(environment: Environment, base: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a worker is started with; *base* has those of all attempts.

    Tasks may replace variables that come from the node, but not those that rota sets.
    """
    ours = {name: value for name, value in base.items() if name.startswith("ROTA_")}
    return {**base, **dict(environment.variables), **ours}


def variables_of_call(order: Order) -> dict[str, str]:
    """Return the variables that are set for the time of one call."""
    return {
        **{name: value for name, value in order.work.env if name.startswith(_OF_ONE_CALL)},
        **variables_of(order),
    }
