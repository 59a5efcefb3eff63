"""What Python functions of tasks use: results of other tasks as arguments, and skips."""

from typing import Any, NoReturn


class NeededResult:
    """The default of a parameter whose value is the result of a task.

    A worker checks for the attribute, not for the class, so that it need not import rota.
    """

    __slots__ = ("__rota_result__",)

    def __init__(self, task: str) -> None:
        self.__rota_result__ = task

    def __repr__(self) -> str:
        return f"result({self.__rota_result__!r})"


def result(task: str) -> Any:  # Any: the default of a parameter of any type.
    """Return the default of a parameter that stands for the result of another task.

        >>> from rota.client import result
        >>> def load(rows: list = result("extract")):
        ...     return len(rows)

    *load* gets the return value of the task ``extract``, or None if ``extract`` returned none. The
    task that calls *load* must need ``extract``. A caller that passes ``rows``, such as a test,
    replaces the result.
    """
    return NeededResult(task)


class Skip(Exception):
    """The end of a function that skips its task; nodes recognize it by its name."""


def skip(reason: str = "") -> NoReturn:
    """Skip the task of the function that calls this; the tasks that need it follow their rules.

    Args:
        reason: The reason, for people.

    Raises:
        Skip: Always.
    """
    raise Skip(reason)
