"""Tests of jobs: their schedules, retries and flows on virtual time, by the rules of a node.

The names are loaded at their first use, since pytest imports this package in all of its runs.
"""

TYPE_CHECKING = False  # Without typing, as in `rota`.
if TYPE_CHECKING:  # For speed, not to avoid a cycle: each run of pytest would load the core.
    from rota.client.definitions import InvalidFile
    from rota.core.errors import Refused
    from rota.testing.attempts import AttemptEnd, AttemptStart
    from rota.testing.records import PastAttempt, PastExecution, PastFire, PastTask
    from rota.testing.scheduler import VirtualScheduler

__all__ = [
    "AttemptEnd",
    "AttemptStart",
    "InvalidFile",
    "PastAttempt",
    "PastExecution",
    "PastFire",
    "PastTask",
    "Refused",
    "VirtualScheduler",
]

_MODULES = {
    "AttemptEnd": "rota.testing.attempts",
    "AttemptStart": "rota.testing.attempts",
    "InvalidFile": "rota.client.definitions",
    "PastAttempt": "rota.testing.records",
    "PastExecution": "rota.testing.records",
    "PastFire": "rota.testing.records",
    "PastTask": "rota.testing.records",
    "Refused": "rota.core.errors",
    "VirtualScheduler": "rota.testing.scheduler",
}


def __getattr__(name: str) -> object:
    """Load a public name at its first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    from rota.client.extras import named_extras

    with named_extras():
        return getattr(import_module(_MODULES[name]), name)
