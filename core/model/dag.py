"""The graph of a job's tasks, and its checks."""

import heapq
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Protocol

from rota.core.errors import Problem
from rota.core.near_names import did_you_mean
from rota.core.quoting import in_quotes, shortened

_SHOWN_MAX = 10
"""The largest number of task names in one message."""
_HINTS_MAX = 3
"""The most unknown needs of a job for which similar names are suggested."""


class Vertex(Protocol):
    """The part of a task's definition that this module uses."""

    @property
    def name(self) -> str:
        """The task's name, unique in its job."""
        ...

    @property
    def needs(self) -> tuple[str, ...]:
        """The names of the tasks that this task needs."""
        ...


def dependents(tasks: Iterable[Vertex]) -> dict[str, tuple[str, ...]]:
    """Return, for each needed task, the names of the tasks that need it, in the given order."""
    found: dict[str, list[str]] = {}
    for task in tasks:
        for needed in task.needs:
            found.setdefault(needed, []).append(task.name)
    return {name: tuple(names) for name, names in found.items()}


def problems_of_graph(tasks: tuple[Vertex, ...]) -> Iterator[Problem]:
    """Yield the errors of the graph: duplicate names, unknown needs, a cycle with its path.

    The pointers refer to the API's ``tasks`` list. Problems are found lazily, so a caller that
    needs only the first few does not wait for the others.
    """
    is_sound = True
    for problem in chain(_duplicates(tasks), _unknown_needs(tasks)):
        is_sound = False
        yield problem
    cycle = _find_cycle(tasks) if is_sound else ()
    if cycle:
        number = next(i for i, task in enumerate(tasks) if task.name == cycle[0])
        detail = f"the needs of the tasks form a cycle: {path_of(cycle)}; remove one of these needs"
        yield Problem(f"/tasks/{number}/needs", detail)


def path_of(cycle: tuple[str, ...]) -> str:
    """Return the path of a circle, with at most `_SHOWN_MAX` names."""
    left_out = len(cycle) - _SHOWN_MAX
    if left_out <= 0:
        return " -> ".join(cycle)
    return " -> ".join((*cycle[: _SHOWN_MAX - 1], f"({left_out:,} more)", cycle[-1]))


def _duplicates(tasks: tuple[Vertex, ...]) -> Iterator[Problem]:
    names: set[str] = set()
    for number, task in enumerate(tasks):
        if task.name in names:
            yield Problem(
                f"/tasks/{number}/name",
                f"another task has the name {in_quotes(task.name)}; choose another name",
            )
        names.add(task.name)
        for place in repetitions(task.needs):
            detail = f"the task {in_quotes(task.needs[place])} is already listed; remove it here"
            yield Problem(f"/tasks/{number}/needs/{place}", detail)


def repetitions(names: Iterable[str]) -> Iterator[int]:
    """Yield the index of each name that also occurs at an earlier index."""
    seen: set[str] = set()
    for place, name in enumerate(names):
        if name in seen:
            yield place
        seen.add(name)


def _unknown_needs(tasks: tuple[Vertex, ...]) -> Iterator[Problem]:
    names = {task.name for task in tasks}
    first: list[str] = []
    hints_left = _HINTS_MAX
    for number, task in enumerate(tasks):
        for place, needed in enumerate(task.needs):
            if needed not in names:
                # Computed once for all needs. One name more than is shown, because the name of the
                # task itself is left out.
                first = first or heapq.nsmallest(_SHOWN_MAX + 1, names)
                others = (other.name for other in tasks if other is not task)
                hint = did_you_mean(needed, others) if hints_left > 0 else ""
                hints_left -= 1
                yield Problem(
                    f"/tasks/{number}/needs/{place}", _unknown_need(task.name, needed, first, hint)
                )


def _unknown_need(name: str, needed: str, first: list[str], hint: str) -> str:
    missing = f"task {in_quotes(name)} needs {in_quotes(needed)}, which is not a task of this job"
    if hint:
        return f"{missing}; {hint}"
    others = [shortened(other) for other in first if other != name][:_SHOWN_MAX]
    known = f"its other tasks are {', '.join(others)}" if others else "it has no other task"
    return f"{missing} ({known})"


def _find_cycle(tasks: tuple[Vertex, ...]) -> tuple[str, ...]:
    """Return the names of one cycle, the first one repeated at the end; empty if there is none.

    The search is depth-first without recursion, because a job may be a chain of thousands of tasks.
    """
    needs = {task.name: task.needs for task in tasks}
    finished: set[str] = set()
    for start in needs:
        path: list[str] = []
        on_path: set[str] = set()
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            name, is_leaving = stack.pop()
            if is_leaving:
                path.pop()
                on_path.discard(name)
                finished.add(name)
            elif name in on_path:
                return (*path[path.index(name) :], name)
            elif name not in finished:
                path.append(name)
                on_path.add(name)
                stack.append((name, True))
                stack.extend((needed, False) for needed in needs[name])
    return ()
