"""Streams over several connections."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from rota.client.errors import RequestFailed, Unreachable
from rota.client.streams.events import SILENCE_S as EVENTS_SILENCE_S
from rota.client.streams.events import EventReader
from rota.client.streams.output import SILENCE_S as OUTPUT_SILENCE_S
from rota.client.streams.output import FollowedOutput
from rota.client.transport.call import Call
from rota.client.transport.connection import Connection
from rota.client.transport.tries import Reopening
from rota.wire.documents import EventView

REPEATS_MAX = 1_000_000
"""The most retries of a stream that was open: practically unlimited, so only the timeout counts."""


async def follow_events(
    connection: Connection, reader: EventReader, timeout_s: float
) -> AsyncGenerator[EventView, None]:
    """Yield events until *connection* is closed.

    Raises:
        RequestFailed: The stream cannot be opened, or cannot be reopened within *timeout_s*.
    """
    stream = _Stream(connection, timeout_s, EVENTS_SILENCE_S)
    while not stream.is_closed:
        async with aclosing(stream.parts(reader.next_call())) as parts:
            async for part in parts:
                for event in reader.read(part):
                    stream.reopening.news()
                    yield event
        await stream.pause()


async def follow_output(
    connection: Connection, output: FollowedOutput, timeout_s: float
) -> AsyncGenerator[bytes, None]:
    """Yield new parts of *output* until it ends, or *connection* is closed.

    Raises:
        OutputBroken: The output cannot be continued.
        RequestFailed: The stream cannot be opened, or cannot be reopened within *timeout_s*.
    """
    stream = _Stream(connection, timeout_s, OUTPUT_SILENCE_S)
    while not stream.is_closed:
        async with aclosing(stream.parts(output.next_call())) as parts:
            async for part in parts:
                new = output.new_of(part)
                if new:
                    stream.reopening.news()
                    yield new
        if stream.failure is None and not stream.is_closed:
            output.end()
            return
        await stream.pause()


class _Stream:
    """A stream over a sequence of connections.

    Attributes:
        reopening: The times at which the stream is opened again.
        failure: The error of the last connection; None if it ended normally.
    """

    def __init__(self, connection: Connection, timeout_s: float, silence_s: float) -> None:
        self.reopening = Reopening(timeout_s)
        self.failure: RequestFailed | None = None
        self._connection = connection
        self._life = connection.life
        self._timeout_s = timeout_s
        self._silence_s = silence_s
        self._opened_at: float | None = None
        self._request = ("", "")

    @property
    def is_closed(self) -> bool:
        return self._connection.life != self._life

    async def parts(self, call: Call[Any]) -> AsyncGenerator[bytes, None]:  # Any: it is not read
        """Open a connection, and yield its data until it ends or is lost."""
        self.failure = None
        self._request = call.method, call.path
        is_open = False
        try:
            stream = await self._connection.open(
                call,
                self._timeout_s,
                silence_s=self._silence_s,
                repeats_max=None if self._opened_at is None else REPEATS_MAX,
            )
            is_open = True
            self._opened_at = asyncio.get_running_loop().time()
            async with aclosing(stream):
                async for part in stream:
                    yield part
        except RequestFailed as failure:
            self.failure = failure
            if not (is_open or self.is_closed):
                raise

    async def pause(self) -> None:
        """Wait until the stream may be opened again.

        Raises:
            RequestFailed: No further try is allowed.
        """
        if self.is_closed or self._opened_at is None:
            return
        now = asyncio.get_running_loop().time()
        pause_s = self.reopening.pause_s(opened_at=self._opened_at, now=now)
        if pause_s is None:
            detail = (
                "each connection was lost soon after it was opened; check the node's log, and any "
                "proxy before the node, then try again"
            )
            failure = self.failure or Unreachable(detail, may_have_arrived=True)
            failure.name_request(*self._request)
            raise failure
        await asyncio.sleep(pause_s)
