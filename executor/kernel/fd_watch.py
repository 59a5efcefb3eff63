"""Descriptors of attempts, heard by way of one descriptor of the loop.

An attempt has two, for a millisecond perhaps. asyncio takes and drops them in 14 us, an epoll of
one's own in 4 us, and all of it that is ready is heard by one callback.
"""

import asyncio
import select
from collections.abc import Callable


class FdWatch:
    """What is heard of on the loop that this is made on.

    A descriptor is removed before it is closed, and what is called adds none: the number of one
    that has just been closed would be heard as the new one.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ready: dict[int, Callable[[], None]] = {}
        self._epoll = select.epoll()
        self._loop.add_reader(self._epoll.fileno(), self._hear)

    def add(self, fd: int, ready: Callable[[], None]) -> None:
        """Have *ready* called whenever *fd* can be read, until `remove`."""
        self._epoll.register(fd, select.EPOLLIN)
        self._ready[fd] = ready

    def remove(self, fd: int) -> None:
        """Hear of *fd* no longer; no effect if nobody does."""
        if self._ready.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def close(self) -> None:
        """Hear of nothing any more."""
        if not self._epoll.closed:
            self._ready.clear()
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()

    def _hear(self) -> None:
        for fd, _ in self._epoll.poll(0):
            ready = self._ready.get(fd)
            if ready is not None:  # Else one before it in this turn has removed it.
                ready()
