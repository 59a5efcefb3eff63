"""``rota executions list`` and ``rota executions show``."""

import click
import msgspec

from rota.client.cli.display import live_table
from rota.client.cli.display.live_table import WatchCommand, watch_option
from rota.client.cli.display.printing import one_line, out
from rota.client.cli.display.show import print_facts, print_table
from rota.client.cli.display.table_columns import EXECUTION, duration, lateness, tasks_in_order
from rota.client.cli.human import absolute, now, relative, size, span, took
from rota.client.cli.inputs.options import (
    StatusChoice,
    as_time,
    complete_job,
    connect,
    everywhere_option,
    examples,
    execution_argument,
    format_option,
    namespace_option,
    url_option,
)
from rota.core.timing.instants import Instant
from rota.wire.documents import AttemptView, DuplicateView, ExecutionView, Json, TaskView

VALUE_MAX = 400
"""The most characters of parameters or a result that are shown; they take a few lines."""
TITLES = ("TASK", "STATUS", "ATTEMPT", "OUTCOME", "STARTED", "TOOK", "CPU", "MEMORY", "REASON")
STATUSES = ("queued", "running", "success", "failed", "cancelled")


@click.command(
    "list",
    cls=WatchCommand,
    epilog=examples(
        "rota executions list",
        "rota executions list report --status failed --since 2d",
        "rota executions --watch",
        "rota executions --limit 1000 -o jsonl",
    ),
)
@click.argument("job", required=False, shell_complete=complete_job)
@click.option("--status", type=StatusChoice(STATUSES), help="Only executions in this state.")
@click.option(
    "--since",
    metavar="TIME",
    callback=as_time,
    help="Only fire times since this time; a duration, such as 2h, is before now.",
)
@click.option("--until", metavar="TIME", callback=as_time, help="Only fire times before this time.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Maximum number of executions.",
)
@namespace_option
@everywhere_option
@watch_option
@format_option
@url_option
def list_executions(
    job: str | None,
    *,
    status: str | None,
    since: str | None,
    until: str | None,
    limit: int,
    namespace: str | None,
    is_everywhere: bool,
    watch_s: float | None,
    form: str,
) -> None:
    """List executions, latest fire time first."""
    within = None if is_everywhere else namespace
    is_filtered = bool(job or within or status or since or until)
    with connect() as client:
        live_table.show(
            lambda: list(
                client.executions(
                    job=job,
                    namespace=within,
                    status=status,
                    since=since,
                    until=until,
                    limit=limit,
                )
            ),
            look=EXECUTION,
            form=form,
            watch_s=watch_s,
            is_newest_first=True,
            if_none="no such executions" if is_filtered else "no executions yet",
        )


@click.command(
    "show",
    cls=WatchCommand,
    epilog=examples(
        "rota executions show @latest",
        "rota executions show report@latest -o json",
        "rota executions show report@latest --watch",
    ),
)
@execution_argument
@namespace_option
@watch_option
@format_option
@url_option
def show_execution(
    execution: str, *, namespace: str | None, watch_s: float | None, form: str
) -> None:
    """Show an execution: its tasks and their attempts."""
    from rota.client.cli.inputs.execution_names import execution_id_of

    with connect() as client:
        execution_id = execution_id_of(client, execution, namespace)
        live_table.show(
            lambda: [client.execution(execution_id)],
            look=EXECUTION,
            form=form,
            watch_s=watch_s,
            details=print_execution,
        )


def print_execution(execution: ExecutionView) -> None:
    """Print an execution with its tasks as tables."""
    at = now()
    fire = f"{absolute(execution.fire_time)} UTC, {relative(execution.fire_time, at)}"
    print_facts(
        [
            ("execution", execution.execution_id),
            ("job", f"{execution.job}, version {execution.job_version}"),
            ("status", execution.status),
            ("trigger", execution.trigger),
            ("by", execution.triggered_by.principal if execution.triggered_by else ""),
            ("fire time", fire),
            ("deferred", _deferral(execution)),
            ("interval", _interval(execution)),
            ("late", lateness(execution)),
            ("took", duration(execution, at)),
            ("done", "" if execution.finished_at else f"{execution.progress}%"),
            ("reason", execution.reason),
            ("stand-in", execution.stand_in or ""),
            ("rerun of", execution.rerun_of or ""),
            ("runs for", _parent(execution)),
            ("parameters", _shortened(execution.parameters)),
            ("expires", _expiry(execution, at)),
            *(("duplicate", _duplicate(each)) for each in execution.possible_duplicates or ()),
        ]
    )
    rows = [row for name, task in tasks_in_order(execution) for row in _rows(name, task)]
    if rows:
        out("")
        print_table(TITLES, rows, optional=("CPU", "MEMORY"))
    for name, task in tasks_in_order(execution):
        for attempt in task.attempts:
            _print_details(f"{name}, attempt {attempt.number}", attempt)


def _deferral(execution: ExecutionView) -> str:
    to = execution.deferred_to
    return f"to {absolute(to)} UTC, by jitter or a calendar" if to else ""


def _interval(execution: ExecutionView) -> str:
    if execution.interval_start is None or execution.interval_end is None:
        return ""
    return f"{absolute(execution.interval_start)} to {absolute(execution.interval_end)} UTC"


def _parent(execution: ExecutionView) -> str:
    parent = execution.parent
    return f"{parent.task} of {parent.job}, {parent.execution_id}" if parent else ""


def _expiry(execution: ExecutionView, at: Instant) -> str:
    if execution.expires_at is None or execution.finished_at:
        return ""
    return f"{absolute(execution.expires_at)} UTC, {relative(execution.expires_at, at)}"


def _duplicate(other: DuplicateView) -> str:
    """Return a line about a run on a stand-in."""
    when = f"{absolute(other.started_at)} UTC, took {took(other.started_at, other.finished_at)}"
    return f"possibly: {other.status} on {other.node_id} too, {when}"


def _rows(name: str, task: TaskView) -> list[tuple[str, ...]]:
    """Return one row for each attempt; the first has the task's name and status."""
    if not task.attempts:
        child = f"execution {task.child_execution_id}" if task.child_execution_id else ""
        return [(name, task.status, *[""] * (len(TITLES) - 3), task.reason or child)]
    if task.kept_from:
        row = _attempt_row(task.attempts[-1])
        return [(name, task.status, *row[:-1], f"kept from {task.kept_from}")]
    rows = [_attempt_row(attempt) for attempt in task.attempts]
    first = ((name, task.status, *rows[0]), *(("", "", *row) for row in rows[1:]))
    return list(first)


def _attempt_row(attempt: AttemptView) -> tuple[str, ...]:
    return (
        str(attempt.number),
        attempt.outcome or "running",
        absolute(attempt.started_at),
        took(attempt.started_at, attempt.finished_at),
        "" if attempt.cpu_seconds is None else span(attempt.cpu_seconds),
        "" if attempt.memory_peak_bytes is None else size(attempt.memory_peak_bytes),
        _state(attempt),
    )


def _print_details(title: str, attempt: AttemptView) -> None:
    """Print the details of an attempt that do not fit into a row."""
    notes = [f"not enforced: {each}" for each in attempt.unenforced]
    if attempt.out_of_memory and "memory" not in attempt.reason.lower():
        notes.insert(0, "ended by its memory limit")
    if attempt.left_running:
        notes.append(attempt.left_running)
    if attempt.result is not None:
        notes.append(f"result {_shortened(attempt.result)}")
    for note in notes:
        out(one_line(f"{title}: {note}"))
    if attempt.error is not None and attempt.error.traceback:
        out("")
        out(f"{title}:\n{attempt.error.traceback.rstrip()}")


def _shortened(value: Json) -> str:
    """Return *value* as JSON, shortened; empty for null."""
    if value is None:
        return ""
    text = msgspec.json.encode(value).decode()
    if len(text) <= VALUE_MAX:
        return text
    return f"{text[:VALUE_MAX]} ... ({size(len(text))}; all of it with -o json)"


def _state(attempt: AttemptView) -> str:
    """Return the progress of an attempt, or the reason of its outcome."""
    if attempt.outcome is None:
        return "" if attempt.progress is None else f"{attempt.progress}% done"
    return attempt.reason
