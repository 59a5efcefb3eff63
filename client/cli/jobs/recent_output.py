"""``rota output --since``: output of the attempts that ran since an instant.

Lines of output have no times, so an attempt is selected as a whole if it still runs, or has ended
since that instant.
"""

from collections.abc import Callable, Generator, Sequence
from itertools import islice

from rota.client.cli.display.printing import say
from rota.client.cli.display.table_columns import tasks_in_order
from rota.client.client import Client
from rota.core.timing.instants import parse_instant
from rota.wire.documents import AttemptView, ExecutionView

EXECUTIONS_MAX = 100
"""The most executions of a job whose output is printed, to limit the requests of a command."""
EXAMINED_MAX = 1_000
"""The most executions of a job that are examined. They are listed by fire time, and an execution
with an early fire time may have ended late."""


def recent_executions(
    client: Client, job: str, *, namespace: str | None, since: str
) -> Sequence[str]:
    """Return the ids of a job's executions that ran since an instant, oldest fire time first.

    If there are more than `EXECUTIONS_MAX`, the latest are returned, and a message says so.
    """
    listed = client.executions(job=job, namespace=namespace, limit=EXAMINED_MAX)
    recent = (
        each.execution_id
        for each in listed
        if each.started_at is not None and _is_recent(each.finished_at, since)
    )
    found = list(islice(recent, EXECUTIONS_MAX + 1))
    if len(found) > EXECUTIONS_MAX:
        say(
            f"more than {EXECUTIONS_MAX} executions ran since then; these are the latest. To list "
            f"all: rota executions list {job} --since {since} --limit {EXAMINED_MAX}"
        )
    return found[EXECUTIONS_MAX - 1 :: -1]


def print_recent(
    client: Client,
    execution_ids: Sequence[str],
    *,
    task: str | None,
    since: str,
    write: Callable[[bytes], None],
) -> None:
    """Print the output of the recent attempts of executions, each after a line with its name.

    Args:
        client: The client of the node.
        execution_ids: The executions, in the order of printing.
        task: The only task whose output is printed; None for all.
        since: An attempt is recent if it still runs or has ended since this instant.
        write: Prints the output of an attempt.

    Raises:
        RotaError: None of the executions has the task.
    """
    has_task, has_output = task is None, False
    for execution_id in execution_ids:
        execution = client.execution(execution_id)
        has_task |= task in (execution.tasks or {})
        for name, attempt in _recent_attempts(execution, since):
            if task is None or name == task:
                has_output = True
                say(f"==> {execution_id} {name}, attempt {attempt.number} <==")
                write(client.output(execution_id, name, attempt=attempt.number))
    if task is not None and execution_ids and not has_task:
        # This request fails with the node's error about the unknown task.
        client.output(execution_ids[-1], task)
    if not has_output:
        say(f"no attempt ran since {since}")


def _recent_attempts(
    execution: ExecutionView, since: str
) -> Generator[tuple[str, AttemptView], None, None]:
    for name, task in tasks_in_order(execution):
        for attempt in task.attempts:
            if _is_recent(attempt.finished_at, since):
                yield name, attempt


def _is_recent(ended_at: str | None, since: str) -> bool:
    return ended_at is None or parse_instant(ended_at) >= parse_instant(since)
