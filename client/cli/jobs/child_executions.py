"""Executions of other jobs that the tasks of an execution run, and that have the output."""

from collections.abc import Iterator

from rota.wire.documents import ExecutionView

NAMED_MAX = 5
"""The most executions of a loop that are named."""


def about_children(execution: ExecutionView, name: str) -> str:
    """Return where the output of a task that runs another job is; empty if it runs none.

    *name* may be that of a loop, whose steps run a job each.
    """
    found = [*_children(execution, name)]
    if not found:
        return ""
    commands = "".join(f"\n  rota output {each}" for each in found[:NAMED_MAX])
    more = f"\n  and {len(found) - NAMED_MAX} more" if len(found) > NAMED_MAX else ""
    runs = "another job, whose execution has" if len(found) == 1 else "jobs, whose executions have"
    return f"task {name} runs {runs} the output:{commands}{more}"


def _children(execution: ExecutionView, name: str) -> Iterator[str]:
    for each, task in (execution.tasks or {}).items():
        is_step = each.startswith((f"{name}[", f"{name}#"))
        if (each == name or is_step) and task.child_execution_id is not None:
            yield task.child_execution_id
