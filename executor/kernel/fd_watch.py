"""A watch on the descriptors of attempts through a single descriptor of the loop.

An attempt has two descriptors, often only for a millisecond. asyncio needs 14 us to add and remove
them, a separate epoll 4 us, and one callback handles all descriptors that are ready.
"""

import asyncio
import select
from collections.abc import Callable


class FdWatch:
    """The watched descriptors, on the loop that runs when the object is constructed.

    A descriptor must be removed before it is closed, and callbacks must not add descriptors: an
    event of a closed descriptor would be taken for an event of a new one with the same number.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ready: dict[int, Callable[[], None]] = {}
        self._epoll = select.epoll()
        self._loop.add_reader(self._epoll.fileno(), self._hear)

    def add(self, fd: int, ready: Callable[[], None]) -> None:
        """Call *ready* whenever *fd* can be read, until `remove`."""
        self._epoll.register(fd, select.EPOLLIN)
        self._ready[fd] = ready

    def remove(self, fd: int) -> None:
        """Stop watching *fd*; no effect if it is not watched."""
        if self._ready.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def close(self) -> None:
        """Stop watching all descriptors."""
        if not self._epoll.closed:
            self._ready.clear()
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()

    def _hear(self) -> None:
        for fd, _ in self._epoll.poll(0):
            ready = self._ready.get(fd)
            if ready is not None:  # Otherwise an earlier callback of this turn has removed it.
                ready()
