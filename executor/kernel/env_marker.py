"""Environment variables that mark every process of an attempt."""

from collections.abc import Mapping

from rota.core.model.attempt import AttemptKey
from rota.core.model.ids import ExecutionId

STORE_VARIABLE = "ROTA_STORE_ID"
_EXECUTION, _TASK, _ATTEMPT = "ROTA_EXECUTION_ID", "ROTA_TASK", "ROTA_ATTEMPT"


def mark_of(key: AttemptKey) -> dict[str, str]:
    """Return the variables that mark processes of the attempt *key*."""
    return {_EXECUTION: key.execution_id, _TASK: key.task, _ATTEMPT: str(key.number)}


def is_mark(name: str) -> bool:
    """Return True if the variable is a mark."""
    return name in (STORE_VARIABLE, _EXECUTION, _TASK, _ATTEMPT)


def key_in(environment: Mapping[str, str]) -> AttemptKey | None:
    """Return the attempt that *environment* is marked with; None if there is no mark."""
    number = environment.get(_ATTEMPT, "")
    if not number.isdecimal():
        return None
    execution_id = ExecutionId(environment.get(_EXECUTION, ""))
    return AttemptKey(execution_id, environment.get(_TASK, ""), int(number))
