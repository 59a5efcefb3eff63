"""Pauses in long computations of a handler, so that the event loop serves other work."""

import asyncio
from collections.abc import Callable, Generator
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")

SLICE_S = 0.005
"""The longest computation without a pause; fires of other jobs are late by a few of these at
most."""


class Pace:
    """The pauses of one request: the handler calls `rest` often, and it pauses once a slice."""

    def __init__(self, now: Callable[[], float] = perf_counter) -> None:
        self._now = now
        self._until = now() + SLICE_S

    async def rest(self) -> None:
        """Return to the event loop once, if the slice of `SLICE_S` is used up."""
        if self._now() >= self._until:
            await asyncio.sleep(0)
            self._until = self._now() + SLICE_S


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


def finished(steps: Generator[None, None, T]) -> T:
    """Return the result of *steps*, without pauses."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
