"""Messages about the output of an attempt: why it is missing, and what it does not tell."""

from rota.core.model.ids import task_of_step
from rota.wire.documents import AttemptView, ExecutionView, TaskView

OVER = frozenset({"success", "failed", "skipped", "cancelled"})
"""The final states of a task."""
NAMED_MAX = 10
"""The most steps of a loop that are named."""
ENDING_BYTES = 4096
"""The bytes at the end of an output that may contain the reason of a failure, as those of a
traceback do; the longest reasons are shorter."""


def why_not_begun(execution: ExecutionView, name: str, attempt: int | None) -> str:
    """Return why a task has no attempt yet; empty if it has one, or is over or unknown."""
    task = (execution.tasks or {}).get(name)
    if task is None or task.attempts or task.status in OVER or attempt is not None:
        return ""
    return f"task {name} has not started: {task.reason or task.status}"


def about_steps(execution: ExecutionView, name: str) -> str:
    """Return the steps that have the output of a loop; empty if the task is no loop."""
    tasks = execution.tasks or {}
    task = tasks.get(name)
    if task is None or task.steps is None or task.attempts:
        return ""
    begun = [each for each in tasks if each != name and task_of_step(each) == name]
    if not begun:
        return f"task {name} is a loop without steps: {task.reason or task.status}"
    more = f" and {len(begun) - NAMED_MAX} more" if len(begun) > NAMED_MAX else ""
    named = ", ".join(begun[:NAMED_MAX])
    return (
        f"task {name} is a loop, whose steps have the output: {named}{more}; "
        f"show one with: rota output {execution.execution_id} '{begun[0]}'"
    )


def attempt_of(task: TaskView | None, number: int | None) -> AttemptView | None:
    """Return the attempt *number* of a task, None for its latest; None if there is none."""
    attempts = task.attempts if task is not None else []
    wanted = number or (attempts[-1].number if attempts else None)
    return next((each for each in attempts if each.number == wanted), None)


def note_about(attempt: AttemptView | None, content: bytes) -> str:
    """Return what the output of an attempt does not tell; empty if there is nothing to add.

    That is the reason of a failure, unless the output ends with it, as a traceback does.

    Args:
        attempt: The attempt; None if it is unknown.
        content: Its output, or at least the last `ENDING_BYTES` of it.
    """
    if attempt is None or attempt.outcome is None:
        return "" if content else "no output yet; follow it with --follow"
    why = f"{attempt.outcome}: {attempt.reason}" if attempt.reason else ""
    if not content:
        return f"no output ({why})" if why else "no output"
    is_there = attempt.reason.encode() in content[-ENDING_BYTES:]
    return "" if attempt.outcome == "success" or is_there else why
