"""A worker thread that receives and returns work in batches, one per turn of the loop.

The threads of an interpreter share its lock, which a waiting thread gets at the next system call of
another thread. If every process start is passed to the thread and returned separately, a warden
makes 26 futex calls and 20 context switches for each ``/bin/true``, and uses 0.49 ms. With batches
of up to 16, it makes 11 calls and 9 switches, and uses 0.34 ms.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from rota.executor.kernel.one_thread import one_thread

PART = 16
"""The largest batch. In a larger batch, the first results would wait longer for the last."""
LOOK_S = 0.02
"""The interval at which the loop takes results of an unfinished batch, in case a call hangs."""

T = TypeVar("T")


class BatchingThread:
    """A thread for blocking work. Constructed on the loop that uses it.

    Args:
        name: The name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = one_thread(name)
        # Any: each call's result has the type that its own callback takes, see `ask`.
        self._asked: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self._done: deque[Callable[[], None]] = deque()
        self._is_busy = False

    def ask(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        """Run *work* in the thread, in order, then call *then* with its result on the loop.

        An exception in *work* is raised on the loop, where it is logged.
        """
        self._asked.append((work, then))
        if not self._is_busy:
            self._is_busy = True
            self._loop.call_soon(self._hand_over)

    def close(self) -> None:
        """Drop waiting work; end the thread after its present batch."""
        self._asked.clear()
        self._thread.shutdown(wait=False)

    def _hand_over(self) -> None:
        part = [self._asked.popleft() for _ in range(min(PART, len(self._asked)))]
        self._look = self._loop.call_later(LOOK_S, self._look_again)
        self._thread.submit(self._do, part)

    def _look_again(self) -> None:
        self._take()
        self._look = self._loop.call_later(LOOK_S, self._look_again)

    def _part_done(self) -> None:
        self._look.cancel()
        self._take()
        self._is_busy = bool(self._asked)
        if self._is_busy:
            self._hand_over()

    def _take(self) -> None:
        while self._done:
            self._loop.call_soon(self._done.popleft())

    def _do(self, part: list[tuple[Callable[[], Any], Callable[[Any], None]]]) -> None:
        # In the thread.
        for work, then in part:
            try:
                self._done.append(partial(then, work()))
            except Exception as error:
                self._done.append(partial(_raise, error))
        self._loop.call_soon_threadsafe(self._part_done)


def _raise(error: Exception) -> None:
    raise error
