"""Services and other background work."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Protocol


class Service(Protocol):
    """Background work of a node."""

    async def run(self) -> None:
        """Do the work until cancelled."""
        ...


@asynccontextmanager
async def beside(work: Coroutine[None, None, None]) -> AsyncGenerator[None]:
    """Do *work* while the body runs; an exception of the body is raised without a group."""
    raised: BaseException | None = None
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work)
        try:
            yield
        except BaseException as error:
            raised = error
        task.cancel()
    if raised is not None:
        raise raised
