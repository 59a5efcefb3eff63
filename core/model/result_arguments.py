"""Arguments of Python functions that are results of other tasks: ``{"result": "extract"}``."""

from collections.abc import Iterable, Iterator

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.errors import Problem
from rota.core.model.work import Call
from rota.core.quoting import in_quotes

_MEMBER = "result"


class _Arguments(msgspec.Struct):
    args: list[msgspec.Raw] = []
    kwargs: dict[str, msgspec.Raw] = {}


class _ResultOf(msgspec.Struct, forbid_unknown_fields=True):
    result: str


def problems_of_result_arguments(
    call: Call, needs: Iterable[str], pointer: str
) -> Iterator[Problem]:
    """Yield a problem for each argument of *call* that is the result of a task not in *needs*.

    Args:
        call: The function of the task.
        needs: The names of the tasks that the task needs.
        pointer: The JSON pointer of the task's field ``python``.
    """
    if f'"{_MEMBER}"' not in call.arguments:
        return
    known = frozenset(needs)
    for place, task in _results_in(call.arguments):
        if task not in known:
            yield Problem(
                f"{pointer}/{place}",
                f"is the result of the task {in_quotes(task)}, which this task does not need; add "
                "that task to needs",
            )


def _results_in(arguments: str) -> Iterator[tuple[str, str]]:
    try:
        given = msgspec.json.decode(arguments, type=_Arguments)
    except UNDECODABLE:  # The worker reports it.
        return
    places = [(f"args/{number}", value) for number, value in enumerate(given.args)]
    places += [(f"kwargs/{name}", value) for name, value in given.kwargs.items()]
    for place, value in places:
        try:
            found = msgspec.json.decode(value, type=_ResultOf)
        except UNDECODABLE:  # Another value.
            continue
        yield place, found.result
