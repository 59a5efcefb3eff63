"""Connections over HTTP: their number, and the time for what a client sends and reads.

They are limited before Host and token are known. A connection beyond the limit is closed
immediately. The head of the first request must be complete within `HEAD_S` of the connection's
start, that of a later one within `HEAD_S` of its first byte.
"""

import asyncio
import resource

from aiohttp import web

from rota.client.cli.mcp.sampled_log import SampledLog

HEAD_S = 10.0
IDLE_S = 30.0
"""How long a connection may be idle between two requests."""
UNREAD_S = 30.0
"""How long a client may leave an answer unread that does not fit into the buffers."""
LINGER_S = 2.0
"""How long the rest of a refused body is read, so that its client reads the answer."""
CONNECTIONS_MAX = 64
FILES_SHARE = 8
"""Connections may use one n-th of the process's limit on open files; this is n.

As many may be accepted, and not yet be closed, in each of two rounds of the event loop.
"""
REASON_MAX = 200


def connections_max() -> int:
    """Return the most connections at a time."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return CONNECTIONS_MAX if files < 0 else max(1, min(CONNECTIONS_MAX, files // FILES_SHARE))


class Gate:
    """The limit on connections, and the log of what is refused.

    Args:
        most: The most connections at a time.
        refused: The log.
    """

    def __init__(self, most: int, refused: SampledLog) -> None:
        self.most = most
        self.refused = refused
        self._count = 0

    def admit(self) -> bool:
        """Count a connection, and return True if it is within the limit."""
        if self._count >= self.most:
            return False
        self._count += 1
        return True

    def release(self) -> None:
        """Remove a closed connection from the count."""
        self._count -= 1


class Connection(web.RequestHandler):
    """A connection of aiohttp, with the limits of this module.

    The class reads private fields of aiohttp, as the server of nodes does, since no public API
    shows that a part of a head has arrived.

    Args:
        server: The HTTP server.
        gate: The limit on connections.
    """

    __slots__ = ("_gate", "_head_timer", "_is_admitted", "_unread_timer")

    def __init__(self, server: web.Server, gate: Gate) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=IDLE_S,
            lingering_time=LINGER_S,
            # A decompressed body could exceed the limit on messages.
            auto_decompress=False,
        )
        self._gate = gate
        self._is_admitted = False
        self._head_timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, or close it immediately if it exceeds the limit."""
        assert isinstance(transport, asyncio.Transport)
        self._is_admitted = self._gate.admit()
        if not self._is_admitted:
            self._gate.refused.write("connection closed", reason="too many connections")
            transport.abort()
            return
        super().connection_made(transport)
        self._head_timer = self._loop.call_later(HEAD_S, self._close_slow)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Remove the connection from the count."""
        self._cancel_head_timer()
        self._cancel_unread_timer()
        if self._is_admitted:
            self._gate.release()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Process received data; the first byte of a head starts the timeout of that head."""
        before = self._request_count
        super().data_received(data)
        if self._request_count != before:
            self._cancel_head_timer()
        elif self._head_timer is None and self._waiter is not None and not self._waiter.done():
            self._head_timer = self._loop.call_later(HEAD_S, self._close_slow)

    def pause_writing(self) -> None:
        """Start the timeout of an answer that the client does not read."""
        super().pause_writing()
        if self._unread_timer is None:
            self._unread_timer = self._loop.call_later(UNREAD_S, self._close_unread)

    def resume_writing(self) -> None:
        """End the timeout; the client has read most of the answer."""
        self._cancel_unread_timer()
        super().resume_writing()

    def _cancel_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _cancel_unread_timer(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def _close_slow(self) -> None:
        self._head_timer = None
        self._gate.refused.write("connection closed", reason="slow head")
        self.force_close()

    def _close_unread(self) -> None:
        self._unread_timer = None
        self._gate.refused.write("connection closed", reason="unread answer")
        if self.transport is not None:
            self.transport.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the answer to a malformed request, or to one that failed outside its handler."""
        if isinstance(exc, ConnectionError):
            raise exc  # The client disconnected.
        if status >= 500:
            return super().handle_error(request, status, exc, message)
        reason = ascii((message or "").partition("\n")[0].rstrip(": "))[1:-1][:REASON_MAX]
        self._gate.refused.write("request malformed", remote=request.remote, reason=reason)
        detail = f"the HTTP request is malformed: {reason}"
        malformed = web.json_response({"detail": detail}, status=status)
        malformed.force_close()
        return malformed
