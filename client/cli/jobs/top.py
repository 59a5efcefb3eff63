"""``rota top``: the tasks that run now, refreshed each second."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import click
import msgspec

from rota.client.cli.display import live_table
from rota.client.cli.display.show import Column, Look
from rota.client.cli.display.table_columns import tasks_in_order
from rota.client.cli.human import relative
from rota.client.cli.inputs.options import (
    connect,
    everywhere_option,
    examples,
    format_option,
    namespace_option,
    url_option,
)
from rota.wire.documents import ExecutionView

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client

REFRESH_S = 1.0
EXECUTIONS_MAX = 20
"""The default number of executions: each takes a request with every refresh."""
AT_WORK = frozenset({"running", "backing_off", "waiting", "ready"})
"""The states of tasks that are shown: those that run, and those that would if they could."""


class RunningTask(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A task at work.

    Attributes:
        job: The ``namespace/name`` of its job.
        execution_id: Its execution.
        task: Its name.
        state: ``running``, ``backing_off``, ``waiting`` or ``ready``.
        node_id: The node of its latest attempt; empty if it has none.
        since: When its latest attempt started, or its execution; null if neither has.
    """

    job: str
    execution_id: str
    task: str
    state: str
    node_id: str = ""
    since: str | None = None


LOOK: Look[RunningTask] = Look(
    name=lambda view: view.execution_id,
    columns=(
        Column("JOB", lambda view, _: view.job),
        Column("EXECUTION", lambda view, _: view.execution_id),
        Column("TASK", lambda view, _: view.task),
        Column("NODE", lambda view, _: view.node_id),
        Column("SINCE", lambda view, at: relative(view.since, at)),
        Column("STATE", lambda view, _: view.state),
    ),
)


@click.command(epilog=examples("rota top", "rota top --once -o json"))
@click.option("--once", "is_once", is_flag=True, help="Show the present state once, and end.")
@click.option(
    "--limit",
    type=click.IntRange(1, 200),
    default=EXECUTIONS_MAX,
    show_default=True,
    help="Maximum number of executions, the latest.",
)
@namespace_option
@everywhere_option
@format_option
@url_option
def top(
    *, is_once: bool, limit: int, namespace: str | None, is_everywhere: bool, form: str
) -> None:
    """Show the tasks that run now, refreshed each second until Ctrl-C.

    Without a terminal, a row is printed for each task that is new or has changed.
    """
    within = None if is_everywhere else namespace
    with connect() as client:
        live_table.show(
            lambda: list(tasks_at_work(_running(client, within, limit))),
            look=LOOK,
            form=form,
            watch_s=None if is_once else REFRESH_S,
            if_none="nothing runs",
        )


def _running(client: "Client", namespace: str | None, limit: int) -> Iterator[ExecutionView]:
    """Yield the running executions with their tasks."""
    from rota.client.errors import NotFound

    listed = client.executions(namespace=namespace, status="running", limit=limit)
    for each in list(listed):
        with suppress(NotFound):  # Deleted since the list was made.
            yield client.execution(each.execution_id)


def tasks_at_work(executions: Iterable[ExecutionView]) -> Iterator[RunningTask]:
    """Yield the tasks that run, or would if they could, in the order of their executions."""
    for execution in executions:
        for name, task in tasks_in_order(execution):
            if task.status in AT_WORK:
                latest = task.attempts[-1] if task.attempts else None
                yield RunningTask(
                    job=execution.job,
                    execution_id=execution.execution_id,
                    task=name,
                    state=task.status,
                    node_id=latest.node_id if latest else "",
                    since=latest.started_at if latest else execution.started_at,
                )
