"""``rota output``: output of tasks."""

import asyncio

import click

from rota.client.cli.display.printing import OutputCopy, one_line, say
from rota.client.cli.display.table_columns import tasks_in_order
from rota.client.cli.inputs.execution_names import execution_id_of, is_job
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
from rota.client.cli.jobs.output_notes import (
    ENDING_BYTES,
    OVER,
    about_steps,
    attempt_of,
    note_about,
    why_not_begun,
)
from rota.client.cli.jobs.recent_output import print_recent, recent_executions
from rota.client.client import Client
from rota.client.errors import WaitTimedOut
from rota.wire.documents import ExecutionView

LOOK_S = 0.2
"""The maximum delay in seconds before a new attempt is detected."""
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

    Without TASK, the output of all tasks is printed, one after another. For a task that runs
    another job, the command that prints the output of its execution is named.
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
        execution_id = execution_id_of(client, execution, namespace)
        view = client.execution(execution_id)
        names = list(view.tasks or {}) if task is None else [task]
        if len(names) > 1 and attempt is not None:
            raise click.UsageError(
                f"--attempt needs a TASK; name one of the tasks: {', '.join(names)}"
            )
        copy = OutputCopy(is_raw=is_raw)
        try:
            if is_followed and len(names) > 1:
                _note_failures(asyncio.run(_follow_all(execution_id, copy)))
            elif len(names) == 1 and (children := about_children(view, names[0])):
                say(children)
            elif len(names) == 1 and (steps := about_steps(view, names[0])):
                say(steps)
                return EX_NOT_FOUND
            elif is_followed and attempt is None:
                _follow(client, execution_id, names[0], copy)
            elif is_followed:
                _copy_attempt(client, execution_id, names[0], attempt or 1, copy)
            elif task is None and len(names) > 1:
                _print_all(client, view, copy, line_count)
            elif reason := why_not_begun(view, names[0], attempt):
                say(f"{reason}; follow it with: rota output {execution_id} --follow")
                return EX_NOT_FOUND
            else:
                content = client.output(execution_id, names[0], attempt=attempt)
                copy.write(last_lines(content, line_count), is_last=True)
                _note(view, names[0], attempt, content)
        finally:
            if copy.has_escapes:
                say(ESCAPED)
    return 0


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
        if is_job(named):
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


def _print_all(
    client: Client, execution: ExecutionView, copy: OutputCopy, line_count: int | None
) -> None:
    for name, task in tasks_in_order(execution):
        if task.attempts:
            say(f"==> {name} <==")
            content = client.output(execution.execution_id, name)
            copy.write(last_lines(content, line_count), is_last=True)
            _note(execution, name, None, content)
        elif task.child_execution_id is not None:
            say(f"==> {name} <==")
            say(about_children(execution, name))


def _note(execution: ExecutionView, name: str, attempt: int | None, content: bytes) -> None:
    """Print what the output of an attempt does not tell, if there is anything."""
    found = attempt_of((execution.tasks or {}).get(name), attempt)
    if note := note_about(found, content):
        say(one_line(note))


def _note_failures(execution: ExecutionView) -> None:
    """Print why tasks have failed; their lines are mixed, so no output ends with the reason."""
    for name, task in tasks_in_order(execution):
        if task.status == "failed" and task.reason:
            say(one_line(f"task {name} failed: {task.reason}"))


async def _follow_all(execution_id: str, copy: OutputCopy) -> ExecutionView:
    async with connect_async() as client:
        return await follow_tasks(client, execution_id, copy)


def _follow(client: Client, execution_id: str, name: str, copy: OutputCopy) -> None:
    """Copy the output of every attempt of a task until the task has ended."""
    copied, ending = 0, b""
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
            ending = _copy_attempt(client, execution_id, name, copied, copy)
        elif task.status in OVER:
            if copied:
                _note(execution, name, copied, ending)
            return
        else:
            _pause(client, execution_id)


def _copy_attempt(
    client: Client, execution_id: str, name: str, number: int, copy: OutputCopy
) -> bytes:
    """Copy the output of an attempt until it has ended; return its last `ENDING_BYTES`."""
    ending = b""
    for part in client.output(execution_id, name, attempt=number, follow=True):
        copy.write(part)
        ending = (ending + part)[-ENDING_BYTES:]
    copy.write(b"", is_last=True)
    return ending


def _pause(client: Client, execution_id: str) -> None:
    try:
        client.wait(execution_id, timeout_s=LOOK_S)
    except WaitTimedOut:
        return
