"""A worker thread that receives and returns work in batches, one per turn of the loop.

A call may hang, as on a disk that does not answer. Another thread then takes the waiting work.

The threads of an interpreter share its lock, which a waiting thread gets at the next system call of
another thread. If every process start is passed to the thread and returned separately, a warden
makes 26 futex calls and 20 context switches for each ``/bin/true``, and uses 0.49 ms. With batches
of up to 16, it makes 11 calls and 9 switches, and uses 0.34 ms.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias, TypeVar

from rota.executor.kernel.one_thread import one_thread

PART = 16
"""The largest batch. In a larger batch, the first results would wait longer for the last."""
LOOK_S = 0.02
"""The interval at which the loop takes results of an unfinished batch, in case a call hangs."""
HANGS_S = 10.0
"""The time after which a call counts as hanging: a start takes milliseconds, or as long as a slow
disk. Calls that only seemed to hang are harmless; they run beside the next ones."""
HANGING_MAX = 8
"""The most threads with calls that hang; further work then waits for one of them."""

T = TypeVar("T")
_Part: TypeAlias = deque[tuple[Callable[[], Any], Callable[[Any], None]]]
"""Waiting work. Any: each call's result has the type that its own callback takes."""

log = logging.getLogger(__name__)


class BatchingThread:
    """A thread for blocking work. Constructed on the loop that uses it.

    Args:
        name: The name of the thread.
        hangs_s: See `HANGS_S`.
    """

    def __init__(self, name: str, *, hangs_s: float = HANGS_S) -> None:
        self._loop = asyncio.get_running_loop()
        self._name = name
        self._hangs_s = hangs_s
        self._thread = one_thread(name)
        # They do not end before `close`: a thread may be the parent of what it has started.
        self._hanging: list[ThreadPoolExecutor] = []
        self._part: _Part = deque()
        self._progress_at = 0.0
        self._asked: _Part = deque()
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
        for thread in (self._thread, *self._hanging):
            thread.shutdown(wait=False)

    def _hand_over(self) -> None:
        part = deque(self._asked.popleft() for _ in range(min(PART, len(self._asked))))
        self._part, self._progress_at = part, self._loop.time()
        self._look = self._loop.call_later(LOOK_S, self._look_again)
        self._thread.submit(self._do, part)

    def _look_again(self) -> None:
        if self._done:
            self._progress_at = self._loop.time()
        self._take()
        hangs = self._loop.time() - self._progress_at > self._hangs_s
        if hangs and len(self._hanging) < HANGING_MAX:
            self._replace()
        else:
            self._look = self._loop.call_later(LOOK_S, self._look_again)

    def _replace(self) -> None:
        """Leave the call that hangs to its thread, and continue in another one."""
        log.error("thread replaced, a call hangs", extra={"of": self._name})
        self._hanging.append(self._thread)
        self._thread = one_thread(self._name)
        with suppress(IndexError):  # The thread may continue meanwhile, and take from the same end.
            while True:
                self._asked.appendleft(self._part.pop())
        self._part = deque()
        self._is_busy = bool(self._asked)
        if self._is_busy:
            self._hand_over()

    def _part_done(self, part: _Part) -> None:
        self._take()
        if part is not self._part:
            return  # It hung, and its thread was replaced.
        self._look.cancel()
        self._is_busy = bool(self._asked)
        if self._is_busy:
            self._hand_over()

    def _take(self) -> None:
        while self._done:
            self._loop.call_soon(self._done.popleft())

    def _do(self, part: _Part) -> None:
        # In the thread.
        with suppress(IndexError):
            while True:
                work, then = part.popleft()
                try:
                    self._done.append(partial(then, work()))
                except Exception as error:
                    self._done.append(partial(_raise, error))
        with suppress(RuntimeError):  # The loop was closed while a call hung.
            self._loop.call_soon_threadsafe(self._part_done, part)


def _raise(error: Exception) -> None:
    raise error
