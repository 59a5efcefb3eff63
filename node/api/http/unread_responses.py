"""Limit on the memory of responses that clients do not read.

Bytes that the kernel does not accept stay in memory until the client reads, which a client need not
do. A connection counts from the moment its buffer is full until the buffer is nearly empty. Beyond
the limit, the connections that have waited longest are closed, since the connections of clients
that read wait only briefly.
"""

from collections.abc import Callable, Hashable

UNREAD_MAX = 128 << 20
"""The limit of all connections in bytes. The memory used may be three times as much: the response,
its parts and their copies."""


class UnreadResponses:
    """The connections whose clients do not read, in the order in which they stopped reading.

    Args:
        limit: The limit of all connections in bytes; one connection alone may exceed it.

    Attributes:
        byte_count: The unread bytes of all connections.
    """

    def __init__(self, limit: int = UNREAD_MAX) -> None:
        self._limit = limit
        self._waiting: dict[Hashable, tuple[int, Callable[[], None]]] = {}
        self.byte_count = 0

    def add(self, connection: Hashable, byte_count: int, close: Callable[[], None]) -> None:
        """Add a connection; close the oldest connections while the limit is exceeded.

        Args:
            connection: The connection.
            byte_count: The number of bytes in its buffer.
            close: Closes the connection; called at most once.
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
        """Stop counting a connection, because its client reads again or it is closed."""
        byte_count, _ = self._waiting.pop(connection, (0, None))
        self.byte_count -= byte_count
