"""``rota output``: output of tasks."""

import asyncio

import click

from rota.client.cli.display.printing import OutputCopy, say
from rota.client.cli.display.table_columns import tasks_in_order
from rota.client.cli.inputs.execution_names import LATEST, execution_id_of
from rota.client.cli.inputs.options import (
    as_time,
    connect,
    connect_async,
    examples,
    execution_argument,
    namespace_option,
    url_option,
)
from rota.client.cli.jobs.child_executions import about_children
from rota.client.cli.jobs.followed_tasks import follow_tasks
from rota.client.cli.jobs.recent_output import print_recent, recent_executions
from rota.client.client import Client
from rota.client.errors import WaitTimedOut
from rota.core.model.ids import is_execution_id
from rota.wire.documents import ExecutionView

LOOK_S = 0.2
"""The maximum delay in seconds before a new attempt is detected."""
OVER = frozenset({"success", "failed", "skipped", "cancelled"})
"""The final states of a task."""

ESCAPED = "hint: control characters are shown as escapes; --raw sends the bytes to the terminal"
EX_NOT_FOUND = 3


@click.command(
    epilog=examples(
        "rota output report",
        "rota output report load --tail 20",
        "rota output report@latest load --follow",
        "rota output ID load --attempt 1",
        "rota output report --since 1h",
    )
)
@execution_argument
@click.argument("task", required=False)
@click.option(
    "--attempt", type=click.IntRange(1), help="Number of the attempt.  [default: the latest]"
)
@click.option(
    "--tail",
    "line_count",
    metavar="N",
    type=click.IntRange(1),
    help="Only the last N lines of each task.",
)
@click.option(
    "--since",
    metavar="TIME",
    callback=as_time,
    help="All attempts that have ended since this time or still run, each with a header; if a job "
    "is named, those of all its executions. A duration, such as 1h, is before now.",
)
@click.option(
    "-f",
    "--follow",
    "is_followed",
    is_flag=True,
    help="Follow the output through all attempts; lines of several tasks have the task as prefix.",
)
@click.option(
    "--raw",
    "is_raw",
    is_flag=True,
    help="Send the bytes unchanged to a terminal, with control sequences. Files and pipes always "
    "get the unchanged bytes.",
)
@namespace_option
@url_option
def output(
    execution: str,
    task: str | None,
    *,
    attempt: int | None,
    line_count: int | None,
    since: str | None,
    is_followed: bool,
    is_raw: bool,
    namespace: str | None,
) -> int:
    """Print the standard output and standard error of the tasks of an execution.

    EXECUTION is an id, @latest or JOB@latest; JOB alone means JOB@latest. Without TASK, the output
    of all tasks is printed, one after another. For a task that runs another job, the command that
    prints the output of its execution is named.
    """
    if is_followed and line_count is not None:
        raise click.UsageError(
            "--tail cannot be combined with --follow, which prints all lines; omit one of them"
        )
    if since is not None and (is_followed or attempt is not None):
        raise click.UsageError(
            "--since cannot be combined with --follow or --attempt; omit one of them"
        )
    if since is not None:
        _print_since(execution, task, namespace, since=since, line_count=line_count, is_raw=is_raw)
        return 0
    with connect() as client:
        execution_id = execution_id_of(client, _with_latest(execution), namespace)
        view = client.execution(execution_id)
        names = list(view.tasks or {}) if task is None else [task]
        if len(names) > 1 and attempt is not None:
            raise click.UsageError(
                f"--attempt needs a TASK; name one of the tasks: {', '.join(names)}"
            )
        copy = OutputCopy(is_raw=is_raw)
        try:
            if is_followed and len(names) > 1:
                asyncio.run(_follow_all(execution_id, copy))
            elif len(names) == 1 and (children := about_children(view, names[0])):
                say(children)
            elif is_followed and attempt is None:
                _follow(client, execution_id, names[0], copy)
            elif is_followed:
                _copy_attempt(client, execution_id, names[0], attempt or 1, copy)
            elif task is None and len(names) > 1:
                _print_all(client, view, copy, line_count)
            elif reason := _why_not_begun(view, names[0], attempt):
                say(f"{reason}; follow it with: rota output {execution_id} --follow")
                return EX_NOT_FOUND
            else:
                content = client.output(execution_id, names[0], attempt=attempt)
                copy.write(last_lines(content, line_count), is_last=True)
                if not content:
                    say(_about_nothing(view, names[0], attempt))
        finally:
            if copy.has_escapes:
                say(ESCAPED)
    return 0


def _why_not_begun(execution: ExecutionView, name: str, attempt: int | None) -> str:
    """Return why a task has no attempt yet; empty if it has one, or is over or unknown."""
    task = (execution.tasks or {}).get(name)
    if task is None or task.attempts or task.status in OVER or attempt is not None:
        return ""
    return f"task {name} has not started: {task.reason or task.status}"


def _about_nothing(execution: ExecutionView, name: str, attempt: int | None) -> str:
    """Return a note about an attempt without output."""
    attempts = (execution.tasks or {})[name].attempts
    found = next(
        (each for each in attempts if each.number == (attempt or attempts[-1].number)), None
    )
    if found is None or found.outcome is None:
        return "no output yet; follow it with --follow"
    why = f" ({found.outcome}: {found.reason})" if found.reason else ""
    return f"no output{why}"


def last_lines(content: bytes, count: int | None) -> bytes:
    """Return the last *count* lines of *content*, of which the last may be incomplete.

    None for *count* returns all lines.
    """
    if count is None:
        return content
    start = len(content) - content.endswith(b"\n")
    for _ in range(count):
        start = content.rfind(b"\n", 0, start)
        if start < 0:
            return content
    return content[start + 1 :]


def _print_since(
    named: str,
    task: str | None,
    namespace: str | None,
    *,
    since: str,
    line_count: int | None,
    is_raw: bool,
) -> None:
    """Print the output since an instant, of an execution or of all executions of a job."""
    copy = OutputCopy(is_raw=is_raw)
    with connect() as client:
        if _is_job(named):
            ids = recent_executions(client, named, namespace=namespace, since=since)
        else:
            ids = [execution_id_of(client, named, namespace)]
        try:
            print_recent(
                client,
                ids,
                task=task,
                since=since,
                write=lambda content: copy.write(last_lines(content, line_count), is_last=True),
            )
        finally:
            if copy.has_escapes:
                say(ESCAPED)


def _is_job(named: str) -> bool:
    return "@" not in named and not is_execution_id(named)


def _with_latest(named: str) -> str:
    """Return the name of an execution; the name of a job becomes that of its latest execution."""
    return f"{named}@{LATEST}" if _is_job(named) else named


def _print_all(
    client: Client, execution: ExecutionView, copy: OutputCopy, line_count: int | None
) -> None:
    for name, task in tasks_in_order(execution):
        if task.attempts:
            say(f"==> {name} <==")
            content = client.output(execution.execution_id, name)
            copy.write(last_lines(content, line_count), is_last=True)
        elif task.child_execution_id is not None:
            say(f"==> {name} <==")
            say(about_children(execution, name))


async def _follow_all(execution_id: str, copy: OutputCopy) -> None:
    async with connect_async() as client:
        await follow_tasks(client, execution_id, copy)


def _follow(client: Client, execution_id: str, name: str, copy: OutputCopy) -> None:
    """Copy the output of every attempt of a task until the task has ended."""
    copied = 0
    while True:
        execution = client.execution(execution_id)
        task = (execution.tasks or {}).get(name)
        if task is None:
            # This request fails with the node's error about the unknown task.
            client.output(execution_id, name)
            return
        if len(task.attempts) > copied:
            copied += 1
            if copied > 1:
                say(f"==> attempt {copied} <==")
            _copy_attempt(client, execution_id, name, copied, copy)
        elif task.status in OVER:
            return
        else:
            _pause(client, execution_id)


def _copy_attempt(
    client: Client, execution_id: str, name: str, number: int, copy: OutputCopy
) -> None:
    for part in client.output(execution_id, name, attempt=number, follow=True):
        copy.write(part)
    copy.write(b"", is_last=True)


def _pause(client: Client, execution_id: str) -> None:
    try:
        client.wait(execution_id, timeout_s=LOOK_S)
    except WaitTimedOut:
        return
