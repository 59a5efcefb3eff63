r"""Client of rota for Python, and the ``rota`` command.

    >>> from rota.client import Client
    >>> with Client() as rota:
    ...     job = rota.create_job({"name": "greet", "command": "echo hello"})
    ...     execution = rota.wait(rota.trigger("greet").execution_id)
    ...     print(execution.status, rota.output(execution.execution_id))
    success b'hello\n'

`AsyncClient` has the same methods for ``await``; `make generate` writes `Client` from it. Documents
are in `rota.wire.documents`. The errors of `rota.client.errors` can be imported from here, too.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # For speed, not to avoid a cycle: `rota --help` loads no HTTP library.
    from rota.client.async_client import AsyncClient
    from rota.client.client import Client
    from rota.client.errors import (
        Conflict,
        Invalid,
        InvalidTls,
        InvalidToken,
        NodeFailed,
        NotAllowed,
        NotAuthenticated,
        NotFound,
        NotYetRunning,
        OutputBroken,
        RequestFailed,
        TooBusy,
        Unreachable,
        WaitTimedOut,
    )
    from rota.client.job_state import JobState
    from rota.client.task_functions import result, skip
    from rota.core.errors import RotaError

__all__ = [
    "AsyncClient",
    "Client",
    "Conflict",
    "Invalid",
    "InvalidTls",
    "InvalidToken",
    "JobState",
    "NodeFailed",
    "NotAllowed",
    "NotAuthenticated",
    "NotFound",
    "NotYetRunning",
    "OutputBroken",
    "RequestFailed",
    "RotaError",
    "TooBusy",
    "Unreachable",
    "WaitTimedOut",
    "result",
    "skip",
]

_HOMES = {
    "AsyncClient": "rota.client.async_client",
    "Client": "rota.client.client",
    "JobState": "rota.client.job_state",
    "RotaError": "rota.core.errors",
    "result": "rota.client.task_functions",
    "skip": "rota.client.task_functions",
}
_ERRORS = "rota.client.errors"
"""The module of all names that `_HOMES` does not list."""


def __getattr__(name: str) -> object:
    """Load a client class, an error or a function at its first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, _ERRORS)), name)
