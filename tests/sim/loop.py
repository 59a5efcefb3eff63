"""An asyncio event loop on virtual time: nothing waits, and one program always runs the same way.

When nothing is ready, the time of the next timer has come. Callbacks run in the order in which
they were asked for, those of timers in the order of their instants. Tasks are hashed by the order
of their creation, because `asyncio.TaskGroup` cancels its children in the order of a set, which
otherwise follows from where in memory they happen to lie.

Callbacks belong to a *gate*, that of the context in which they were asked for. A simulation gives
each process one, and so can stop all that a process does, and let it go on or never again.
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
"""So many callbacks in one instant are a loop that never ends."""


class Standstill(Exception):
    """Time no longer passes: everyone waits for somebody, or somebody never waits."""


class Gate:
    """Lets the callbacks of one process run, or not.

    Args:
        name: Whose.

    Attributes:
        context: Whatever is begun in it, and whatever that begins, belongs to this gate.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.context = copy_context()
        self.context.run(_gate.set, self)
        self.is_open = True
        self._is_removed = False
        self._kept: deque[asyncio.Handle] = deque()

    def close(self) -> None:
        """Keep back what is due from now on, until the gate is opened."""
        self.is_open = False

    def open(self) -> None:
        """Let everything run that was kept back, in its order, and what comes after it."""
        self.is_open = True
        while self._kept:
            handle = self._kept.popleft()
            _loop().run_soon(self, handle)

    def remove(self) -> None:
        """Drop all that was kept back and whatever comes: the process is no more."""
        self.is_open = False
        self._is_removed = True
        self._kept.clear()

    def keep(self, handle: asyncio.Handle) -> None:
        """Keep a callback back."""
        if not self._is_removed:
            self._kept.append(handle)


_gate: ContextVar[Gate | None] = ContextVar("gate", default=None)


def current_gate() -> Gate | None:
    """Return the gate of whoever is running; None for the world itself."""
    return _gate.get()


class _Task(asyncio.Task[T]):
    """A task whose place in a set follows from when it was created."""

    def __init__(self, number: int, coro: Coroutine[Any, Any, T], **rest: Any) -> None:
        self._number = number
        super().__init__(coro, **rest)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.AbstractEventLoop):
    """The loop. Time begins at 0 and counts whole microseconds.

    Attributes:
        now: Microseconds since the beginning.
        context: Of the world itself: what is begun in it belongs to no gate.
        failure: The first error that nobody handled; it ends the run.
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
            BaseException: What *main* raises, or what some callback raised and nobody handled.
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
        """Run what is ready, and move the time on when nothing is."""
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

    # -- what asyncio asks of a loop ------------------------------------------------------------

    def time(self) -> float:
        """Return the time in seconds since the beginning."""
        return self.now / SECOND

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Have *callback* called in this instant, after everything that is ready."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append((_gate_of(context), handle))
        return handle

    def run_soon(self, gate: Gate, handle: asyncio.Handle) -> None:
        """Have a callback that was kept back called in this instant."""
        self._ready.append((gate, handle))

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Have *callback* called *delay* seconds later."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Have *callback* called at *when*, at the first whole microsecond that is not before."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        # A tenth of a microsecond is what the sum of two floats may be off.
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
        """Take an error that nobody handled: it ends the run."""
        if self.failure is None:
            error = context.get("exception")
            self.failure = error or RuntimeError(f"asyncio reports: {context}")

    def get_debug(self) -> bool:
        """Return False."""
        return False

    def is_running(self) -> bool:
        """Return True: nobody sees it otherwise."""
        return True

    def is_closed(self) -> bool:
        """Return False: there is nothing to close."""
        return False

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: it is dropped when its time comes."""

    def _lose_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Report a generator that was left open: when it is found depends on the memory."""
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
