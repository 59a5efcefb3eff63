"""Interruption of endless responses when the node stops.

A server that stops waits for the responses in progress. Some of them would take days, such as the
output of a running attempt that a client follows through this node. These responses are cut off.
The client detects that its response is incomplete, and repeats the request to another node, or to
this node after its restart.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from aiohttp import web

from rota.core.errors import Kind, Refused


class NodeStopping(Refused):
    """The node is stopping."""

    def __init__(self) -> None:
        super().__init__(
            Kind.UNAVAILABLE,
            "stopping",
            "this node is stopping; send the request again",
            retry_after_s=1,
        )


class Stopping:
    """The responses to interrupt when the node stops."""

    def __init__(self) -> None:
        self._limits: set[asyncio.Timeout] = set()
        self._has_begun = False

    async def begin(self, app: web.Application) -> None:
        """Interrupt all responses; the application's ``on_shutdown`` handler."""
        del app
        self._has_begun = True
        for limit in self._limits:
            limit.reschedule(asyncio.get_running_loop().time())

    @asynccontextmanager
    async def interrupting(self) -> AsyncGenerator[None]:
        """Interrupt the body of the context when the node stops.

        Raises:
            NodeStopping: The body was interrupted.
        """
        limit = asyncio.timeout(0 if self._has_begun else None)
        try:
            async with limit:
                self._limits.add(limit)
                try:
                    yield
                finally:
                    self._limits.discard(limit)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise NodeStopping from error


STOPPING: web.AppKey[Stopping] = web.AppKey("stopping", Stopping)
