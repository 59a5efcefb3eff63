"""Answers that have no end of their own, and end when the node stops.

A server that stops waits for the answers that are under way, and some are under way for days: what
an attempt writes, followed through this node. They are broken off, so that clients see that they
are not whole, and ask again: another node, or this one when it is back.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from aiohttp import web

from rota.core.errors import Kind, Refused


class Stops(Refused):
    """The node stops."""

    def __init__(self) -> None:
        super().__init__(
            Kind.UNAVAILABLE, "stopping", "this node is stopping; ask again", retry_after_s=1
        )


class Stopping:
    """Who has to hear that the node stops."""

    def __init__(self) -> None:
        self._limits: set[asyncio.Timeout] = set()
        self._has_begun = False

    async def begin(self, app: web.Application) -> None:
        """Tell them; the application's ``on_shutdown``."""
        del app
        self._has_begun = True
        for limit in self._limits:
            limit.reschedule(asyncio.get_running_loop().time())

    @asynccontextmanager
    async def heard(self) -> AsyncGenerator[None]:
        """Break the body off when the node stops.

        Raises:
            Stops: It does.
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
            raise Stops from error


STOPPING: web.AppKey[Stopping] = web.AppKey("stopping", Stopping)
