"""Executions without what their attempts wrote, for callers that may not read output."""

from collections.abc import Mapping

from msgspec.structs import replace

from rota.wire.documents import ExecutionView, TaskView


def without_output(view: ExecutionView) -> ExecutionView:
    """Return *view* without what its attempts wrote: output, results and exceptions."""
    tasks = None if view.tasks is None else _without_output(view.tasks)
    duplicates = view.possible_duplicates
    if duplicates is not None:
        duplicates = [replace(each, tasks=_without_output(each.tasks)) for each in duplicates]
    return replace(view, tasks=tasks, possible_duplicates=duplicates)


def _without_output(tasks: Mapping[str, TaskView]) -> dict[str, TaskView]:
    return {
        name: replace(
            task,
            attempts=[
                replace(each, output_tail="", result=None, error=None) for each in task.attempts
            ],
        )
        for name, task in tasks.items()
    }
