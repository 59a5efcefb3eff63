"""The wait for the end of an execution that a command has started."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rota.client.cli.display.printing import OutputCopy, say
from rota.client.cli.display.progress import (
    Facts,
    follow,
    print_failed_output,
    print_output_of_only_task,
)
from rota.client.cli.display.show import show_one
from rota.client.cli.display.table_columns import EXECUTION, TRIGGERED
from rota.client.cli.human import took
from rota.client.cli.inputs.options import as_seconds, connect_async
from rota.client.cli.jobs.execution_views import print_execution
from rota.client.cli.jobs.followed_tasks import follow_tasks
from rota.client.errors import NodeFailed, TooBusy, Unreachable, WaitTimedOut
from rota.wire.documents import ExecutionView, TriggeredView

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client


F = TypeVar("F", bound=Callable[..., Any])  # Any: options apply to any command


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """How a command waits for the execution that it starts.

    Attributes:
        is_waited_for: Whether the command waits.
        is_followed: Whether the command waits, and prints the output of all tasks as it is written.
        timeout_s: The maximum wait in seconds; None for no limit.
        is_dry: Whether the command starts nothing.

    Raises:
        click.UsageError: A dry run is to be waited for, or a wait is limited that there is not.
    """

    is_waited_for: bool
    is_followed: bool
    timeout_s: float | None
    is_dry: bool

    def __post_init__(self) -> None:
        if self.is_dry and (self.is_waited_for or self.is_followed):
            raise click.UsageError(
                "--dry-run starts no execution to wait for; omit it, or --wait and --follow"
            )
        if self.timeout_s is not None and not (self.is_waited_for or self.is_followed):
            raise click.UsageError("--timeout limits a wait; add --wait or --follow, or omit it")


def waiting_options(command: F) -> F:
    """Add the options of `Waiting`, except ``--dry-run``."""
    options = (
        click.option(
            "--wait",
            "is_waited_for",
            is_flag=True,
            help="Wait for the end of the execution, and print its output if it has a single task; "
            "exit with 1 unless it succeeds.",
        ),
        click.option(
            "-f",
            "--follow",
            "is_followed",
            is_flag=True,
            help="Wait for its end, and print the output of all tasks as it is written.",
        ),
        click.option(
            "--timeout",
            "timeout_s",
            metavar="DURATION",
            callback=as_seconds,
            help="Maximum wait, such as 10m.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def show_started(client: "Client", made: TriggeredView, waiting: Waiting, form: str) -> int:
    """Print an execution that a command has started, or its end; return the exit status.

    Raises:
        WaitTimedOut: The execution has not ended after the maximum wait.
    """
    if waiting.is_waited_for or waiting.is_followed:
        return _wait(client, made.execution_id, waiting, form)
    show_one(made, TRIGGERED, form)
    if waiting.is_dry:
        say("dry run: nothing is changed")
    return 0


def _wait(client: "Client", execution_id: str, waiting: Waiting, form: str) -> int:
    say(f"execution {execution_id}")
    try:
        if waiting.is_followed:
            execution = asyncio.run(_followed(execution_id, waiting.timeout_s))
        else:
            execution = follow(client, execution_id, waiting.timeout_s)
    except KeyboardInterrupt:
        say(f"the execution continues; end it with: rota executions cancel {execution_id}")
        raise
    except (Unreachable, TooBusy, NodeFailed) as error:
        error.add_note(
            f"the execution continues; wait for it with: rota executions wait {execution_id}"
        )
        raise
    return _print_end(execution, form, is_followed=waiting.is_followed)


def _print_end(execution: ExecutionView, form: str, *, is_followed: bool) -> int:
    """Print an execution that has ended; return the exit status."""
    is_table, is_success = form in ("table", "wide"), execution.status == "success"
    if not is_table:
        show_one(execution, EXECUTION, form)
    elif not is_followed:
        print_execution(execution)
    if is_followed:
        say(f"{execution.status} after {took(execution.started_at, execution.finished_at)}")
    elif is_success and is_table:
        print_output_of_only_task(execution)
    elif not is_success:
        print_failed_output(execution)
    return 0 if is_success else 1


async def _followed(execution_id: str, timeout_s: float | None) -> ExecutionView:
    """Print the output of an execution's tasks until it has ended, and return the execution.

    Raises:
        WaitTimedOut: The execution has not ended after *timeout_s*.
    """
    facts, copy = Facts(), OutputCopy(is_raw=False)
    async with connect_async() as client:
        try:
            async with asyncio.timeout(timeout_s):
                return await follow_tasks(client, execution_id, copy, on_view=facts.show)
        except TimeoutError as error:
            view = await client.execution(execution_id)
            raise WaitTimedOut([view], timeout_s or 0.0) from error
