r"""Client of rota for Python, and the ``rota`` command.

    >>> from rota.client import Client
    >>> with Client() as rota:
    ...     job = rota.create_job({"name": "greet", "command": "echo hello"})
    ...     execution = rota.wait(rota.trigger("greet").execution_id)
    ...     print(execution.status, rota.output(execution.execution_id))
    success b'hello\n'

`AsyncClient` is the same with ``await``; `make generate` writes `Client` from it. Documents are in
`rota.wire.documents`, errors in `rota.client.errors`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # No cycle is dodged: `rota --help` does not load an HTTP library.
    from rota.client.async_client import AsyncClient
    from rota.client.client import Client

__all__ = ["AsyncClient", "Client"]

_HOMES = {"AsyncClient": "rota.client.async_client", "Client": "rota.client.client"}


def __getattr__(name: str) -> object:
    """Load a client at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
