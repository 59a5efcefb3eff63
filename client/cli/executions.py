"""``rota executions``: list, show, cancel, wait."""

import click

from rota.client.cli.groups import ListingGroup
from rota.client.cli.human import absolute, now, relative, took
from rota.client.cli.looks import EXECUTION, duration, lateness, tasks_in_order
from rota.client.cli.options import (
    as_seconds,
    as_time,
    connect,
    examples,
    format_option,
    namespace_option,
    url_option,
)
from rota.client.cli.show import print_facts, print_table, say, show_many, show_one
from rota.client.wire import AttemptView, ExecutionView, TaskView

STATUSES = ("queued", "running", "success", "failed", "cancelled")


@click.group(
    cls=ListingGroup,
    epilog=examples(
        "rota executions",
        "rota executions list report --status failed",
        "rota executions show @latest",
        "rota executions wait report@latest",
    ),
)
def executions() -> None:
    """List, show, cancel and wait for executions; alone: list the latest.

    An execution is named by its id; @latest is the latest of all, JOB@latest that of a job.
    """


@executions.command(
    "list",
    epilog=examples(
        "rota executions list",
        "rota executions list report --status failed --since 2d",
        "rota executions --limit 1000 -o jsonl",
    ),
)
@click.argument("job", required=False)
@click.option("--status", type=click.Choice(STATUSES), help="Only those in it.")
@click.option(
    "--since",
    metavar="TIME",
    callback=as_time,
    help="Fire times from then on, or so long ago, such as 2h.",
)
@click.option("--until", metavar="TIME", callback=as_time, help="Fire times before then.")
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="At most so many."
)
@namespace_option
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
    form: str,
) -> None:
    """List executions, latest fire time first."""
    with connect() as client:
        found = client.executions(
            job=job, namespace=namespace, status=status, since=since, until=until, limit=limit
        )
        views = list(found)
    if not views and form in ("table", "wide"):
        say("no such executions" if job or status or since or until else "no executions yet")
        return
    show_many(views, EXECUTION, form)


@executions.command(
    "show", epilog=examples("rota executions show @latest", "rota executions show ID -o json")
)
@click.argument("execution")
@namespace_option
@format_option
@url_option
def show_execution(execution: str, namespace: str | None, form: str) -> None:
    """Show an execution: its tasks and their attempts."""
    from rota.client.cli.named import execution_id_of

    with connect() as client:
        view = client.execution(execution_id_of(client, execution, namespace))
    if form in ("table", "wide"):
        print_execution(view)
    else:
        show_one(view, EXECUTION, form)


@executions.command(
    "cancel", short_help="End executions.", epilog=examples("rota executions cancel report@latest")
)
@click.argument("named", metavar="EXECUTION...", nargs=-1, required=True)
@namespace_option
@format_option
@url_option
def cancel_executions(named: tuple[str, ...], namespace: str | None, form: str) -> None:
    """End executions: their tasks get TERM, and KILL if they do not obey."""
    from rota.client.cli.named import execution_id_of

    with connect() as client:
        ids = [execution_id_of(client, each, namespace) for each in named]
        views = [client.cancel(each) for each in ids]
    show_many(views, EXECUTION, form)


@executions.command(
    "wait", epilog=examples("rota executions wait report@latest", "rota executions wait ID ID")
)
@click.argument("named", metavar="EXECUTION...", nargs=-1, required=True)
@click.option(
    "--timeout",
    "timeout_s",
    metavar="DURATION",
    callback=as_seconds,
    help="How long to wait, such as 10m.",
)
@namespace_option
@format_option
@url_option
def wait_for_executions(
    named: tuple[str, ...], timeout_s: float | None, namespace: str | None, form: str
) -> int:
    """Wait until executions have ended; exit with 1 unless all succeed."""
    from rota.client.cli.named import execution_id_of

    with connect() as client:
        ids = [execution_id_of(client, each, namespace) for each in named]
        views = client.wait_many(ids, timeout_s=timeout_s)
    show_many(views, EXECUTION, form)
    return 0 if all(view.status == "success" for view in views) else 1


def print_execution(execution: ExecutionView) -> None:
    """Print an execution with its tasks, for people."""
    at = now()
    fire = f"{absolute(execution.fire_time)} UTC, {relative(execution.fire_time, at)}"
    print_facts(
        [
            ("execution", execution.execution_id),
            ("job", f"{execution.job}, version {execution.job_version}"),
            ("status", execution.status),
            ("trigger", execution.trigger),
            ("fire time", fire),
            ("late", lateness(execution)),
            ("took", duration(execution, at)),
            ("done", "" if execution.finished_at else f"{execution.progress}%"),
            ("reason", execution.reason),
        ]
    )
    rows = [row for name, task in tasks_in_order(execution) for row in _rows(name, task)]
    if rows:
        click.echo()
        print_table(("TASK", "STATUS", "ATTEMPT", "OUTCOME", "STARTED", "TOOK", "REASON"), rows)


def _rows(name: str, task: TaskView) -> list[tuple[str, ...]]:
    """Return one row for each attempt, the task's name and status in the first."""
    if not task.attempts:
        return [(name, task.status, "", "", "", "", task.reason)]
    rows = [_attempt_row(attempt) for attempt in task.attempts]
    first = ((name, task.status, *rows[0]), *(("", "", *row) for row in rows[1:]))
    return list(first)


def _attempt_row(attempt: AttemptView) -> tuple[str, ...]:
    return (
        str(attempt.number),
        attempt.outcome or "running",
        absolute(attempt.started_at),
        took(attempt.started_at, attempt.finished_at),
        attempt.reason,
    )
