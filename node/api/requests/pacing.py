"""Pauses in long computations of a handler, for the rest of the node's loop."""

import asyncio
from collections.abc import Callable, Generator
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")

SLICE_S = 0.005
"""What a handler computes at a time; fires of other jobs are late by a few of these at most."""


class Pace:
    """The pauses of one request: it asks often, and pauses when its slice is over."""

    def __init__(self, now: Callable[[], float] = perf_counter) -> None:
        self._now = now
        self._until = now() + SLICE_S

    async def rest(self) -> None:
        """Let the loop do what waits, if `SLICE_S` has passed since it last could."""
        if self._now() >= self._until:
            await asyncio.sleep(0)
            self._until = self._now() + SLICE_S


async def paced(steps: Generator[None, None, T], pace: Pace | None = None) -> T:
    """Return the result of *steps*, with rests between them."""
    pace = pace or Pace()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await pace.rest()


def finished(steps: Generator[None, None, T]) -> T:
    """Return the result of *steps*, without rests."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
