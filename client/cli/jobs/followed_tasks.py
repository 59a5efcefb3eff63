"""Output of all tasks of an execution at the same time, as it is written."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from rota.client.async_client import AsyncClient
from rota.client.cli.display.printing import OutputCopy
from rota.client.errors import WaitTimedOut
from rota.wire.documents import ExecutionView

LOOK_S = 0.2
"""The maximum delay in seconds before a new attempt is detected."""
LINE_BYTES_MAX = 64 << 10
"""The most bytes of a line that are kept until its end; a longer line is printed in parts."""


@dataclass
class Lines:
    """The output of one attempt, printed in whole lines, each with a prefix.

    Attributes:
        prefix: The text before each line.
        print: Prints whole lines.
    """

    prefix: bytes
    print: Callable[[bytes], None]
    _rest: bytes = field(default=b"", init=False)

    def add(self, part: bytes) -> None:
        """Print the lines that *part* completes."""
        *lines, self._rest = (self._rest + part).split(b"\n")
        if len(self._rest) > LINE_BYTES_MAX:
            lines.append(self._rest)
            self._rest = b""
        if lines:
            self.print(b"".join(b"%s%s\n" % (self.prefix, line) for line in lines))

    def end(self) -> None:
        """Print an incomplete last line."""
        if self._rest:
            self.add(b"\n")


async def follow_tasks(
    client: AsyncClient,
    execution_id: str,
    copy: OutputCopy,
    *,
    on_view: Callable[[ExecutionView], None] = lambda view: None,
) -> ExecutionView:
    """Print the output of all attempts of an execution until it has ended, and return it.

    If there are several tasks, each line has the task as prefix; after the first attempt, the
    prefix has the number of the attempt.

    Args:
        client: A client of the node.
        execution_id: The execution.
        copy: Prints the output.
        on_view: Called repeatedly with the state of the execution.

    Raises:
        RotaError: A request failed.
    """
    try:
        async with asyncio.TaskGroup() as group:
            view = await _follow(client, execution_id, copy, group, on_view)
    except ExceptionGroup as errors:
        # All errors have the same cause, usually a lost connection.
        raise errors.exceptions[0] from errors
    copy.write(b"", is_last=True)
    return view


async def _follow(
    client: AsyncClient,
    execution_id: str,
    copy: OutputCopy,
    group: asyncio.TaskGroup,
    on_view: Callable[[ExecutionView], None],
) -> ExecutionView:
    """Copy the output of each attempt in a task of *group* until the execution has ended."""
    seen: set[tuple[str, int]] = set()
    while True:
        view = await _look(client, execution_id)
        tasks = view.tasks or {}
        attempts = [(name, each.number) for name, task in tasks.items() for each in task.attempts]
        for name, number in attempts:
            if (name, number) not in seen:
                seen.add((name, number))
                lines = Lines(_prefix(name, number, is_alone=len(tasks) == 1), copy.write)
                group.create_task(_copy(client, execution_id, (name, number), lines))
        on_view(view)
        if view.finished_at is not None:
            return view


def _prefix(name: str, number: int, *, is_alone: bool) -> bytes:
    attempt = f"#{number}" if number > 1 else ""
    if is_alone:
        return f"{attempt} | ".encode() if attempt else b""
    return f"{name}{attempt} | ".encode()


async def _look(client: AsyncClient, execution_id: str) -> ExecutionView:
    """Return the execution when it has ended, or after a pause of `LOOK_S`."""
    try:
        return await client.wait(execution_id, timeout_s=LOOK_S)
    except WaitTimedOut as error:
        [view] = error.executions
        return view


async def _copy(
    client: AsyncClient, execution_id: str, attempt: tuple[str, int], lines: Lines
) -> None:
    name, number = attempt
    parts = client.output(execution_id, name, attempt=number, follow=True)
    async with aclosing(parts):
        async for part in parts:
            lines.add(part)
    lines.end()
