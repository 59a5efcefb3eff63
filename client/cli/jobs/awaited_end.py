"""The wait for the end of an execution that a command has started."""

import asyncio
from typing import TYPE_CHECKING

from rota.client.cli.display.printing import OutputCopy, say
from rota.client.cli.display.progress import (
    Facts,
    follow,
    print_failed_output,
    print_output_of_only_task,
)
from rota.client.cli.display.show import show_one
from rota.client.cli.display.table_columns import EXECUTION
from rota.client.cli.human import took
from rota.client.cli.inputs.options import connect_async
from rota.client.cli.jobs.execution_views import print_execution
from rota.client.cli.jobs.followed_tasks import follow_tasks
from rota.client.errors import NodeFailed, TooBusy, Unreachable, WaitTimedOut
from rota.wire.documents import ExecutionView

if TYPE_CHECKING:  # No cycle is dodged: help texts do not load an HTTP library.
    from rota.client.client import Client


def wait_for_end(
    client: "Client", execution_id: str, form: str, *, is_followed: bool, timeout_s: float | None
) -> int:
    """Wait for the end of an execution and print it; return the exit status.

    Args:
        client: Of the node.
        execution_id: The execution.
        form: In which it is printed.
        is_followed: Whether the output of all tasks is printed as it is written.
        timeout_s: The maximum wait; None for any.

    Raises:
        WaitTimedOut: It has not ended after *timeout_s*.
    """
    say(f"execution {execution_id}")
    try:
        if is_followed:
            execution = asyncio.run(_followed(execution_id, timeout_s))
        else:
            execution = follow(client, execution_id, timeout_s)
    except KeyboardInterrupt:
        say(f"it continues; end it with: rota executions cancel {execution_id}")
        raise
    except (Unreachable, TooBusy, NodeFailed) as error:
        error.add_note(
            f"the execution continues; wait for it with: rota executions wait {execution_id}"
        )
        raise
    return _print_end(execution, form, is_followed=is_followed)


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
    """Return an execution when it has ended; print the output of its tasks until then.

    Raises:
        WaitTimedOut: It has not ended after *timeout_s*.
    """
    facts, copy = Facts(), OutputCopy(is_raw=False)
    async with connect_async() as client:
        try:
            async with asyncio.timeout(timeout_s):
                return await follow_tasks(client, execution_id, copy, on_view=facts.show)
        except TimeoutError as error:
            view = await client.execution(execution_id)
            raise WaitTimedOut([view], timeout_s or 0.0) from error
