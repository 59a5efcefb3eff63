"""An event loop in a thread of its own, for callers without an event loop or with a busy one."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError
from threading import Event, Thread, current_thread
from typing import Any, TypeVar

T = TypeVar("T")

STOP_S = 5.0
"""How many seconds a stop waits for the thread, which only closes idle connections."""


class LoopStopped(RuntimeError):
    """The loop was stopped before the coroutine ended, or before it began."""

    def __init__(self) -> None:
        super().__init__("the client is closed; create another one for further calls")


class LoopThread:
    """An event loop in a thread of its own, for callers in other threads; its owner stops it.

    Args:
        at_end: A function whose result the loop awaits when it stops, before it cancels the other
            asyncio tasks.
    """

    def __init__(self, at_end: Callable[[], Awaitable[None]]) -> None:
        self._at_end = at_end
        self._has_started = Event()
        self._is_stopped = False
        self._loop: asyncio.AbstractEventLoop
        self._stopping: asyncio.Event
        # A daemon thread: a program that does not stop the loop can end nevertheless.
        self._thread = Thread(target=self._turn, name="rota-client", daemon=True)
        self._thread.start()
        self._has_started.wait()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:  # Any: what it yields and is sent
        """Return the result of *coroutine*; an interrupt cancels it.

        Raises:
            LoopStopped: The loop was stopped before *coroutine* ended.
        """
        if self._is_stopped:
            coroutine.close()
            raise LoopStopped
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except CancelledError as error:
            if self._is_stopped:
                raise LoopStopped from error
            raise
        except BaseException:
            future.cancel()
            raise
        finally:
            # The future's error refers to this frame; the cycle would keep objects alive.
            del future

    def stop(self) -> None:
        """Stop the loop and wait for its thread; a second call does nothing."""
        if not self._is_stopped:
            self._is_stopped = True
            self._loop.call_soon_threadsafe(self._stopping.set)
        if current_thread() is not self._thread:
            self._thread.join(STOP_S)

    def _turn(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._has_started.set()
        await self._stopping.wait()
        await self._at_end()
