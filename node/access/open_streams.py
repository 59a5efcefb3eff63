"""Interruption of open streams when their caller loses its access.

A stream, such as the events of the cluster, may be open for days. It ends when the key of its
caller is revoked or expires, when the certificate of its caller ends, and when the grants of the
caller change, so that the caller opens it again with its new grants.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

from rota.core.errors import Kind, Refused
from rota.node.access.principal import Principal

CHECK_S = 0.5
"""The period of the check for keys and certificates that have expired."""


class AccessEnded(Refused):
    """The caller of a stream has lost its access, or its grants have changed."""

    def __init__(self) -> None:
        super().__init__(
            Kind.UNAUTHENTICATED,
            "unauthenticated",
            "the key of this stream was revoked or has expired, its certificate has ended, or the "
            "roles of its principal have changed; open it again with a valid token or certificate",
        )


class OpenStreams:
    """The open streams of this node.

    Args:
        is_alive: Returns True if a principal still has its token and the same grants.
    """

    def __init__(self, is_alive: Callable[[Principal], bool]) -> None:
        self._is_alive = is_alive
        self._streams: dict[asyncio.Timeout, Principal] = {}
        self._changed = asyncio.Event()

    def check_soon(self) -> None:
        """Check all streams in the next turns of the event loop, because documents changed."""
        self._changed.set()

    async def run(self) -> None:
        """Interrupt the streams whose principal has lost its access, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_S):
                    await self._changed.wait()
            self._changed.clear()
            for limit, principal in tuple(self._streams.items()):
                if not self._is_alive(principal):
                    limit.reschedule(loop.time())

    @asynccontextmanager
    async def interrupting(self, principal: Principal) -> AsyncGenerator[None]:
        """Interrupt the body of the context when *principal* loses its access.

        Raises:
            AccessEnded: The body was interrupted.
        """
        limit = asyncio.timeout(None)
        try:
            async with limit:
                self._streams[limit] = principal
                try:
                    yield
                finally:
                    del self._streams[limit]
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise AccessEnded from error
