"""Connections to the API: their limits, the time for a request's head, and error documents.

A connection beyond a limit is closed immediately, before any byte is read. The head of the first
request must be complete within `HEAD_S` of the connection's start, that of a later request within
`HEAD_S` of its first byte. Bodies have a timeout of their own
(`rota.node.api.requests.request_reader`). A client that sends an incomplete request and waits
therefore occupies a connection for some seconds only. A response that the client does not read
takes memory, which `rota.node.api.http.unread_responses` limits.
"""

import asyncio
import resource
from collections import Counter
from typing import cast

from aiohttp import web

from rota.node.api.http.access_log import ACCESS_LOGGER, ACCESS_LOGS, IS_LOGGED
from rota.node.api.http.refusal_log import RefusalLogs
from rota.node.api.http.unread_responses import UNREAD_MAX, UnreadResponses
from rota.node.api.requests.problems import SAME_FOR_ALL, problem, response
from rota.node.system.config import NodeConfig
from rota.node.system.metrics import Metrics
from rota.node.system.tls_listener import Knock

HEAD_S = 10.0
"""The time for a request's head, which fits into a few packets. Go has no limit by default, and
nginx has 60 s."""
IDLE_S = 75.0
"""How long a connection may be idle. Load balancers close idle connections after 60 s. With a
longer time here, no balancer sends a request over a connection that the node is closing."""
FILES_SHARE = 2
"""Connections may use one n-th of the process's limit on open files; this is n."""
REASON_MAX = 200


class Gate:
    """The limits on connections: in total, and for each client address.

    Args:
        config: The settings, with both limits.
        metrics: The metrics that count connections.
        refusal_logs: The logs of closed connections.
    """

    def __init__(self, config: NodeConfig, metrics: Metrics, refusal_logs: RefusalLogs) -> None:
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._max = min(config.connections_max, files // FILES_SHARE)
        self._per_address_max = config.connections_per_address_max
        self._closed = metrics.connections_closed
        self._addresses: Counter[str] = Counter()
        self._count = 0
        self.refusal_logs = refusal_logs
        self.unread = UnreadResponses(UNREAD_MAX)
        metrics.gauge("rota_http_connections", lambda: self._count)

    def admit(self, address: str) -> bool:
        """Count a connection from *address*, and return True if it is within the limits."""
        if self._count >= self._max:
            self.close(address, "total")
            return False
        if self._addresses[address] >= self._per_address_max:
            self.close(address, "address")
            return False
        self._count += 1
        self._addresses[address] += 1
        return True

    def release(self, address: str) -> None:
        """Remove a closed connection from the counts."""
        self._count -= 1
        self._addresses[address] -= 1
        if not self._addresses[address]:
            del self._addresses[address]

    def refuse_handshake(self, address: str, reason: str) -> None:
        """Count and log a connection whose handshake of TLS failed."""
        self._closed.labels("tls").inc()
        self.refusal_logs.malformed.write(remote=address, reason=reason)

    def close(self, address: str, reason: str) -> None:
        """Count and log a connection that the node closes, with the reason."""
        self._closed.labels(reason).inc()
        self.refusal_logs.closed.write(remote=address, reason=reason)


class Connection(web.RequestHandler):
    """A connection of aiohttp, with a timeout for heads, and with error documents.

    The class reads private fields of aiohttp, since no public API shows that a part of a head has
    arrived; tests check that these fields exist.

    Args:
        server: The HTTP server of the API.
        gate: The limits on connections.
        access_log: The value of the setting.
        knock: The same connection before its handshake of TLS; None without TLS.
    """

    __slots__ = ("_address", "_gate", "_head_timer", "_knock")

    def __init__(
        self, server: web.Server, gate: Gate, access_log: str, knock: Knock | None = None
    ) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=IDLE_S,
            access_log_class=ACCESS_LOGS[access_log],
            access_log=ACCESS_LOGGER,
            # A decompressed body could exceed the limit on bodies.
            auto_decompress=False,
        )
        self._gate = gate
        self._knock = knock
        self._address: str | None = None
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, or close it immediately if it exceeds a limit."""
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if peer else ""
        if self._knock is not None:
            self._knock.end()  # From here on the connection is counted as this protocol.
        if not self._gate.admit(address):
            # A cast, because the transports of uvloop are no subclass of asyncio's.
            cast("asyncio.Transport", transport).abort()
            return
        self._address = address
        super().connection_made(transport)
        self._start_head_timer()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Remove the connection from the counts."""
        self._cancel_head_timer()
        self._gate.unread.remove(self)
        if self._address is not None:
            self._gate.release(self._address)
            self._address = None
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Count the bytes that the client has not read yet; the write buffer is full."""
        super().pause_writing()
        if self.transport is not None:
            unread = self.transport.get_write_buffer_size()
            self._gate.unread.add(self, unread, self._close_unread)

    def resume_writing(self) -> None:
        """Stop counting the connection as unread; the client has read most of the buffer."""
        self._gate.unread.remove(self)
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Process received data; the first byte of a head starts the timeout of that head."""
        before = self._request_count
        super().data_received(data)
        if self._request_count != before:
            self._cancel_head_timer()
        elif self._head_timer is None and self._waiter is not None and not self._waiter.done():
            self._start_head_timer()

    def _start_head_timer(self) -> None:
        self._head_timer = self._loop.call_later(HEAD_S, self._close_slow)

    def _cancel_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _close_slow(self) -> None:
        self._head_timer = None
        if self._address is not None:
            self._gate.close(self._address, "slow_head")
        self.force_close()

    def _close_unread(self) -> None:
        if self._address is not None:
            self._gate.close(self._address, "unread")
        if self.transport is not None:
            self.transport.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the response to a malformed request, or to one that failed outside its handler."""
        if isinstance(exc, ConnectionError):
            raise exc  # The client disconnected.
        if status >= 500:
            return super().handle_error(request, status, exc, message)
        reason = ascii((message or "").partition("\n")[0].rstrip(": "))[1:-1][:REASON_MAX]
        self._gate.refusal_logs.malformed.write(remote=request.remote, reason=reason)
        request[IS_LOGGED] = True
        view = problem(status, "bad_request", f"the HTTP request is malformed: {reason}")
        malformed = response(view, request_id="", headers=dict(SAME_FOR_ALL))
        malformed.force_close()
        return malformed
