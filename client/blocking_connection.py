"""Connection and streams for callers without an event loop; they run in a thread."""

import asyncio
import weakref
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import suppress
from typing import TypeVar

from rota.client.loop_thread import LoopStopped, LoopThread
from rota.client.streams import streams
from rota.client.streams.events import EventReader
from rota.client.streams.output import FollowedOutput
from rota.client.transport.call import Call
from rota.client.transport.connection import Connection
from rota.client.transport.credentials import Credentials
from rota.client.transport.trust import Trust
from rota.wire.documents import EventView

T = TypeVar("T")
Item = TypeVar("Item")


class BlockingConnection:
    """A `Connection` with an event loop in a thread of its own; threads may share it.

    Args:
        urls: The endpoints, at least one.
        repeats_max: See `Tries`.
        credentials: See `Connection`.
        trust: See `Connection`.

    Attributes:
        endpoints: The endpoints, in the order in which they are tried.
        inner: The connection; only the event loop may use it.
    """

    def __init__(
        self,
        urls: Sequence[str],
        repeats_max: int,
        credentials: Credentials | None = None,
        trust: Trust | None = None,
    ) -> None:
        self.inner = Connection(urls, repeats_max, credentials, trust)
        self.endpoints = self.inner.endpoints
        self._thread = LoopThread(self.inner.close)
        # A client that is garbage-collected without `close` leaks neither thread nor sockets.
        self._finalizer = weakref.finalize(self, self._thread.stop)

    def close(self) -> None:
        """Close the sockets: streams end, and no call is possible after that."""
        self._finalizer()

    def ask(self, call: Call[T], timeout_s: float, *, repeats_max: int | None = None) -> T:
        """Return the result of *call*.

        Raises:
            RequestFailed: The call failed; the subclass depends on the error.
            LoopStopped: This connection is closed.
        """
        return self._thread.run(self.inner.ask(call, timeout_s, repeats_max=repeats_max))

    def iterate(self, items: AsyncGenerator[Item, None]) -> Generator[Item, None, None]:
        """Yield *items*, which the loop produces, until they end or this connection is closed.

        Raises:
            LoopStopped: This connection was closed before the first item.
        """
        lock = asyncio.Lock()

        async def take() -> Item | None:
            async with lock:
                return await anext(items, None)

        async def leave() -> None:
            # After an interrupt, the reader of the last item may still be finishing.
            async with lock:
                await items.aclose()

        has_begun = False
        try:
            while (item := self._thread.run(take())) is not None:
                has_begun = True
                yield item
        except LoopStopped:
            if not has_begun:
                raise
        finally:
            with suppress(LoopStopped):
                self._thread.run(leave())


def follow_events(
    connection: BlockingConnection, reader: EventReader, timeout_s: float
) -> Generator[EventView, None, None]:
    """Yield events as `streams.follow_events` does."""
    return connection.iterate(streams.follow_events(connection.inner, reader, timeout_s))


def follow_output(
    connection: BlockingConnection, output: FollowedOutput, timeout_s: float
) -> Generator[bytes, None, None]:
    """Yield new parts of *output* as `streams.follow_output` does."""
    return connection.iterate(streams.follow_output(connection.inner, output, timeout_s))
