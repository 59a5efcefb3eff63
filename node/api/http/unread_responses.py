"""Limit on the memory of responses that clients do not read.

What the kernel does not take is kept in memory until the client reads on, and a client need not. A
connection counts from the moment its buffer is full until it is nearly empty. Beyond the limit the
connections that have waited longest are closed: those of clients that do read wait briefly.
"""

from collections.abc import Callable, Hashable

UNREAD_MAX = 128 << 20
"""Bytes of all connections. The response, its parts and their copies take three times as much."""


class UnreadResponses:
    """The connections whose clients do not read, in the order in which they stopped.

    Args:
        limit: Bytes of all connections; that of one connection alone is permitted.
    """

    def __init__(self, limit: int = UNREAD_MAX) -> None:
        self._limit = limit
        self._waiting: dict[Hashable, tuple[int, Callable[[], None]]] = {}
        self.byte_count = 0

    def add(self, connection: Hashable, byte_count: int, close: Callable[[], None]) -> None:
        """Count a connection, and close the oldest ones beyond the limit.

        Args:
            connection: The connection.
            byte_count: Bytes in its buffer.
            close: Closes it; called at most once.
        """
        self.remove(connection)
        self._waiting[connection] = (byte_count, close)
        self.byte_count += byte_count
        while self.byte_count > self._limit and len(self._waiting) > 1:
            oldest = next(iter(self._waiting))
            _, close_oldest = self._waiting[oldest]
            self.remove(oldest)
            close_oldest()

    def remove(self, connection: Hashable) -> None:
        """Count a connection no longer: its client reads on, or it is closed."""
        byte_count, _ = self._waiting.pop(connection, (0, None))
        self.byte_count -= byte_count
