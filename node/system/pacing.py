"""Pauses in long computations of a handler, so that the event loop serves other work."""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from time import perf_counter
from typing import TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

SLICE_S = 0.005
"""The longest computation without a pause; fires of other jobs are late by a few of these at
most."""


class Pace:
    """The pauses of one request: the handler calls `rest` often, which pauses after each slice.

    After a pause, a computation waits for those that paused before it: the event loop runs one
    slice in each iteration, however many requests compute.
    """

    def __init__(self, now: Callable[[], float] = perf_counter) -> None:
        self._now = now
        self._until = now() + SLICE_S

    async def rest(self) -> None:
        """Wait for the next slice, if the slice of `SLICE_S` is used up."""
        if self._now() >= self._until:
            await self.next_slice()

    async def next_slice(self) -> None:
        """Wait for the next slice; a computation that is always long begins with this."""
        loop = asyncio.get_running_loop()
        slices = _slices.get(loop)
        if slices is None:
            slices = _slices[loop] = _Slices()
        await slices.wait()
        self._until = self._now() + SLICE_S


class _Slices:
    """The waits for slices, of which one ends in each iteration of the event loop, in order."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Wait for a slice."""
        loop = asyncio.get_running_loop()
        begin: asyncio.Future[None] = loop.create_future()
        self._waiting.append(begin)
        if len(self._waiting) == 1:
            loop.call_soon(self._begin_next, loop)
        await begin

    def _begin_next(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._waiting[0].done():  # Otherwise the request was cancelled.
            self._waiting[0].set_result(None)
        self._waiting.popleft()
        if self._waiting:
            loop.call_soon(self._begin_next, loop)


_slices: WeakKeyDictionary[asyncio.AbstractEventLoop, _Slices] = WeakKeyDictionary()


async def paced(steps: Generator[None, None, T], pace: Pace | None = None) -> T:
    """Return the result of *steps*, with pauses between them."""
    pace = pace or Pace()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await pace.rest()
