"""Work that goes on beside something else, and ends with it."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager


@asynccontextmanager
async def beside(work: Coroutine[None, None, None]) -> AsyncGenerator[None]:
    """Do *work* while the body runs; what the body raises leaves as it is, in no group."""
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
