"""An asyncio event loop on virtual time, on which a program always runs the same way.

When nothing is ready, the time moves to the next timer. Callbacks run in the order in which they
were scheduled, those of timers in the order of their instants. Tasks are hashed by the order of
their creation, because `asyncio.TaskGroup` cancels its children in the order of a set, which would
otherwise follow from their addresses in memory.

Callbacks belong to a *gate*, that of the context in which they were scheduled. A simulation gives
each process one gate, with which it pauses, resumes or ends all activity of the process.
"""

import asyncio
import heapq
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from math import ceil
from typing import Any, TypeVar, TypeVarTuple, Unpack

from rota.core.timing.instants import SECOND

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

STANDSTILL = 200_000
"""Number of callbacks in one instant that counts as an endless loop."""


class Standstill(Exception):
    """Time no longer passes: everything waits without a timer, or callbacks never end."""


class Gate:
    """Lets the callbacks of one process run, or holds them.

    Args:
        name: Name of the process.

    Attributes:
        context: Everything started in it, directly or indirectly, belongs to this gate.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.context = copy_context()
        self.context.run(_gate.set, self)
        self.is_open = True
        self._is_removed = False
        self._kept: deque[asyncio.Handle] = deque()

    def close(self) -> None:
        """Hold all callbacks from now on, until the gate is opened."""
        self.is_open = False

    def open(self) -> None:
        """Run the held callbacks in their order, and hold no later ones."""
        self.is_open = True
        while self._kept:
            handle = self._kept.popleft()
            _loop().run_soon(self, handle)

    def remove(self) -> None:
        """Drop the held callbacks and all later ones: the process has ended."""
        self.is_open = False
        self._is_removed = True
        self._kept.clear()

    def keep(self, handle: asyncio.Handle) -> None:
        """Hold a callback."""
        if not self._is_removed:
            self._kept.append(handle)


_gate: ContextVar[Gate | None] = ContextVar("gate", default=None)


def current_gate() -> Gate | None:
    """Return the gate of the running callback; None for the world itself."""
    return _gate.get()


class _Task(asyncio.Task[T]):
    """A task whose hash is the number of its creation."""

    def __init__(self, number: int, coro: Coroutine[Any, Any, T], **rest: Any) -> None:
        self._number = number
        super().__init__(coro, **rest)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.AbstractEventLoop):
    """The loop. Time begins at 0 and counts whole microseconds.

    Attributes:
        now: Microseconds since the beginning.
        context: Context of the world itself, without a gate.
        failure: The first unhandled error; it ends the run.
    """

    def __init__(self) -> None:
        self.now = 0
        self.context = copy_context()
        self.failure: BaseException | None = None
        self._ready: deque[tuple[Gate | None, asyncio.Handle]] = deque()
        self._timers: list[tuple[int, int, Gate | None, asyncio.Handle]] = []
        self._timer_count = 0
        self._task_count = 0
        self._callback_count = 0

    # -- running --------------------------------------------------------------------------------

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run *main* to its end and return its result.

        Raises:
            Standstill: It will never end.
            BaseException: The error of *main*, or the unhandled error of a callback.
        """
        asyncio.set_event_loop(None)
        asyncio._set_running_loop(self)
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(finalizer=self._lose_generator)
        try:
            task: asyncio.Task[T] = self.create_task(main)
            try:
                while not task.done():
                    self._step()
                    if self.failure is not None:
                        raise self.failure
            finally:
                self._unwind(task)
            return task.result()
        finally:
            sys.set_asyncgen_hooks(*hooks)
            asyncio._set_running_loop(None)

    def _unwind(self, task: asyncio.Task[Any]) -> None:
        """Cancel *task* unless it is done, and let it clean up: else the interpreter would try."""
        task.cancel()
        with suppress(Standstill):
            while not task.done():
                self._step()

    def _step(self) -> None:
        """Run what is ready; advance the time first if nothing is."""
        if not self._ready:
            self._move_time()
        self._callback_count += len(self._ready)
        for _ in range(len(self._ready)):
            gate, handle = self._ready.popleft()
            if handle.cancelled():
                continue
            if gate is None or gate.is_open:
                handle._run()
            else:
                gate.keep(handle)
        if self._callback_count > STANDSTILL:
            raise Standstill(
                f"{self._callback_count} callbacks have run at {self.time():.6f} s and more are "
                f"ready: {[handle for _, handle in self._ready][:3]}"
            )

    def _move_time(self) -> None:
        timers = self._timers
        while timers and timers[0][3].cancelled():
            heapq.heappop(timers)
        if not timers:
            raise Standstill(f"at {self.time():.6f} s nothing is ready and nothing will ever be")
        if timers[0][0] > self.now:
            self.now = timers[0][0]
            self._callback_count = 0
        while timers and timers[0][0] <= self.now:
            _, _, gate, handle = heapq.heappop(timers)
            self._ready.append((gate, handle))

    # -- asyncio's interface of a loop ----------------------------------------------------------

    def time(self) -> float:
        """Return the time in seconds since the beginning."""
        return self.now / SECOND

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Schedule *callback* in this instant, after everything that is ready."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append((_gate_of(context), handle))
        return handle

    def run_soon(self, gate: Gate, handle: asyncio.Handle) -> None:
        """Schedule a held callback in this instant."""
        self._ready.append((gate, handle))

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Schedule *callback* *delay* seconds later."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Schedule *callback* at the first whole microsecond that is not before *when*."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        # The sum of two floats may be wrong by less than a tenth of a microsecond.
        at = max(self.now, ceil(when * SECOND - 0.1))
        self._timer_count += 1
        heapq.heappush(self._timers, (at, self._timer_count, _gate_of(context), handle))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Any,  # As in typeshed: generators, too.
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[Any]:
        """Return a task of this loop that runs *coro*."""
        self._task_count += 1
        label = None if name is None else str(name)
        return _Task(self._task_count, coro, loop=self, name=label, context=context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Record an unhandled error: it ends the run."""
        if self.failure is None:
            error = context.get("exception")
            self.failure = error or RuntimeError(f"asyncio reports: {context}")

    def get_debug(self) -> bool:
        """Return False."""
        return False

    def is_running(self) -> bool:
        """Return True: callers exist only while it runs."""
        return True

    def is_closed(self) -> bool:
        """Return False: there is nothing to close."""
        return False

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: the timer is dropped when it is due."""

    def _lose_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Report a generator that was left open: when it is collected is not deterministic."""
        self.call_exception_handler({"message": f"{generator} was not closed"})


def first_error(error: BaseException) -> BaseException:
    """Return *error*, or the first one in it if it is a group."""
    errors: Sequence[BaseException] = getattr(error, "exceptions", ())
    return first_error(errors[0]) if errors else error


def _gate_of(context: Context | None) -> Gate | None:
    return _gate.get() if context is None else context.get(_gate)


def _loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop
