"""Progress of an execution, line by line, on standard error."""

from rota.client.cli.display.printing import one_line, out, say
from rota.client.cli.display.table_columns import tasks_in_order
from rota.client.cli.human import now, span, took
from rota.client.client import Client
from rota.client.errors import WaitTimedOut
from rota.core.timing.instants import SECOND, parse_instant
from rota.wire.documents import AttemptView, ExecutionView

LOOK_S = 0.3
"""The maximum delay of progress lines in seconds; the end is reported immediately."""
OUTPUT_LINES_MAX = 30
"""The most lines of output that are shown of a failed task; `rota output` shows all lines."""


def follow(client: Client, execution_id: str, timeout_s: float | None) -> ExecutionView:
    """Print the progress of an execution's tasks until it has ended, and return the execution.

    Raises:
        WaitTimedOut: The execution has not ended after *timeout_s*.
    """
    facts, left_s = Facts(), timeout_s
    while True:
        look_s = LOOK_S if left_s is None else min(LOOK_S, left_s)
        try:
            execution = client.wait(execution_id, timeout_s=look_s)
        except WaitTimedOut as error:
            execution = error.executions[0]
        facts.show(execution)
        if execution.finished_at is not None:
            return execution
        if left_s is not None:
            left_s -= look_s
            if left_s <= 0:
                raise WaitTimedOut([execution], timeout_s or 0.0)


class Facts:
    """Facts about the tasks of an execution; each fact is printed once."""

    def __init__(self) -> None:
        self._shown: set[str] = set()

    def show(self, execution: ExecutionView) -> None:
        """Print the facts that are new."""
        for key, fact in _facts(execution):
            if key not in self._shown:
                self._shown.add(key)
                say(one_line(f"  {fact}"))


def ending(attempt: AttemptView) -> str:
    """Return the end of an attempt in a few words; ``running`` if it has not ended."""
    if attempt.outcome == "failed" and attempt.exit_code is not None:
        return f"failed with exit code {attempt.exit_code}"
    if attempt.outcome == "failed" and attempt.signal is not None:
        return f"failed by signal {attempt.signal}"
    if attempt.outcome == "failed" and attempt.reason:
        return f"failed ({attempt.reason})"
    if attempt.outcome in ("cancelled", "lost") and attempt.reason:
        # An attempt is not always cancelled on request: the lease of its node may have ended.
        return f"{attempt.outcome} ({attempt.reason})"
    return attempt.outcome or "running"


def print_output_of_only_task(execution: ExecutionView) -> None:
    """Print the end of the output of an execution's only task, if there is one."""
    if len(execution.tasks or {}) != 1:
        return
    [(name, task)] = tasks_in_order(execution)
    if not task.attempts or not task.attempts[-1].output_tail:
        return
    attempt = task.attempts[-1]
    is_all = attempt.output_bytes <= len(attempt.output_tail.encode())
    more = "" if is_all else f"end of the output; for all: rota output {execution.execution_id}"
    say(f"--- {more or f'output of {name}'} ---")
    out(attempt.output_tail, end="" if attempt.output_tail.endswith("\n") else "\n")


def print_failed_output(execution: ExecutionView) -> None:
    """Print the last lines of output of failed tasks."""
    for name, task in tasks_in_order(execution):
        if task.status != "failed" or not task.attempts:
            continue
        attempt = task.attempts[-1]
        lines = attempt.output_tail.splitlines()[-OUTPUT_LINES_MAX:]
        is_all = attempt.output_bytes <= len("\n".join(lines).encode()) + 1
        say(f"--- {'' if is_all else 'end of the '}output of {name}, attempt {attempt.number} ---")
        say("\n".join(lines) or "(nothing)")


def _facts(execution: ExecutionView) -> list[tuple[str, str]]:
    """Return the facts so far, in order, each with a key by which it is printed once."""
    facts: list[tuple[str, str, str]] = []
    for name, task in (execution.tasks or {}).items():
        for attempt in task.attempts:
            nth = f"attempt {attempt.number} " if attempt.number > 1 else ""
            key = f"{name} {attempt.number}"
            if attempt.finished_at is None:
                facts.append((attempt.started_at, f"{key} started", f"{name}: {nth}started"))
            else:
                lasted = took(attempt.started_at, attempt.finished_at)
                ended = f"{name}: {nth}{ending(attempt)} after {lasted}"
                facts.append((attempt.finished_at, f"{key} ended", ended))
        if task.retry_at is not None:
            left_s = max(0, parse_instant(task.retry_at) - now()) / SECOND
            what = "waits, at most" if task.status == "waiting" else "next attempt in"
            again = f"{name}: {what} {span(left_s)}"
            facts.append((task.retry_at, f"{name} {task.retry_at}", again))
        if task.status == "skipped":
            at = execution.finished_at or ""
            facts.append((at, f"{name} skipped", f"{name}: skipped, {task.reason}"))
    return [(key, fact) for _, key, fact in sorted(facts)]
