"""``rota events``: live events."""

import asyncio
from contextlib import suppress

import click

from rota.client.cli.display.printing import say
from rota.client.cli.display.show import Rows
from rota.client.cli.display.table_columns import EVENT
from rota.client.cli.inputs.execution_names import execution_id_of
from rota.client.cli.inputs.options import (
    as_seconds,
    complete_execution,
    complete_job,
    connect,
    connect_async,
    everywhere_option,
    examples,
    format_option,
    namespace_option,
    url_option,
)
from rota.wire.documents import EventView

OF_THE_STREAM = "stream."
"""The prefix of the types of events about the stream itself."""


@click.command(
    epilog=examples(
        "rota events",
        "rota events report --type execution --for 10m",
        "rota events --type execution.failed -o jsonl",
        "rota events --type task --status running --count 1",
    )
)
@click.argument("job", required=False, shell_complete=complete_job)
@click.option(
    "--type",
    "types",
    metavar="TYPE",
    multiple=True,
    help="Only events of this type: job, execution, task or fire, or one such as "
    "execution.failed. Repeatable.",
)
@click.option(
    "--status",
    metavar="STATUS",
    help="Only events of executions and tasks that enter this state.",
)
@click.option(
    "--execution",
    metavar="EXECUTION",
    shell_complete=complete_execution,
    help="Only events of this execution.",
)
@click.option(
    "--after",
    metavar="ID",
    help="Begin after the event with this id (-o wide shows ids), not with new events.",
)
@click.option(
    "--for", "for_s", metavar="DURATION", callback=as_seconds, help="End after this time."
)
@click.option("--count", type=click.IntRange(1), help="End after this number of events.")
@namespace_option
@everywhere_option
@format_option
@url_option
def events(
    job: str | None,
    *,
    types: tuple[str, ...],
    status: str | None,
    execution: str | None,
    after: str | None,
    for_s: float | None,
    count: int | None,
    namespace: str | None,
    is_everywhere: bool,
    form: str,
) -> None:
    """Show events of jobs, executions and tasks from now on, until Ctrl-C.

    If events may have been missed, a message on standard error says so.
    """
    rows = Rows(EVENT, form)
    left = count
    execution_id = _id_of(execution, namespace) if execution else None

    async def follow() -> None:
        nonlocal left
        async with connect_async() as client:
            stream = client.events(
                namespace=None if is_everywhere else namespace,
                job=job,
                execution_id=execution_id,
                types=types,
                status=status,
                after=after,
            )
            async for event in stream:
                if event.type.startswith(OF_THE_STREAM):
                    _report(event)
                    continue
                rows.print([event])
                if left is not None:
                    left -= 1
                    if not left:
                        return

    async def follow_for_a_while() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(for_s):
                await follow()

    asyncio.run(follow_for_a_while())


def _id_of(execution: str, namespace: str | None) -> str:
    with connect() as client:
        return execution_id_of(client, execution, namespace)


def _report(event: EventView) -> None:
    """Print events about the stream itself that matter to the user."""
    match event.type:
        case "stream.opened":
            say("listening")
        case "stream.gap":
            say("events may have been missed; list jobs and executions to see their current state")
        case _:
            pass
