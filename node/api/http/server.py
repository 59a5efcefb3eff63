"""Connections to the API: how many there may be, and how long a request's head may take.

Beyond a limit a connection is closed at once, before a byte of it is read. A request's head has to
be whole within `HEAD_S` of its first byte, or of the connection's start, however it trickles in;
its body has a limit of its own (`rota.node.api.requests.request_reader`). So a client that sends
half of something and waits holds a connection for a few seconds.
"""

import asyncio
import resource
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from rota.node.api.http.access_log import ACCESS_LOGGER, ACCESS_LOGS, IS_LOGGED
from rota.node.api.http.refusal_log import STRANGERS, Strangers
from rota.node.api.requests.problems import SAME_FOR_ALL, problem, response
from rota.node.system.background import beside
from rota.node.system.config import NodeConfig
from rota.node.system.config_values import Address
from rota.node.system.metrics import Metrics

HEAD_S = 10.0
"""A head fits into a few packets; Go's and nginx's defaults are none and 60 s."""
IDLE_S = 75.0
"""How long a connection may wait for its next request: longer than balancers keep one (60 s), so
that they and not the node close it, and no request meets a connection that is just closing."""
SHUTDOWN_S = 1.0
"""How long requests under way get when the API stops; aiohttp waits so long, and then again."""
REPORT_S = 10.0
FILES_SHARE = 2
"""One in so many of the open files that the process may have is for connections."""
TOLD_MAX = 200


Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Gate:
    """Which connections are accepted.

    Args:
        config: For its two limits.
        metrics: Where connections are counted.
        strangers: Where those that are closed are logged.
    """

    def __init__(self, config: NodeConfig, metrics: Metrics, strangers: Strangers) -> None:
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._max = min(config.connections_max, files // FILES_SHARE)
        self._per_address_max = config.connections_per_address_max
        self._closed = metrics.connections_closed
        self._addresses: Counter[str] = Counter()
        self._count = 0
        self.strangers = strangers
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
        """Count a connection no longer."""
        self._count -= 1
        self._addresses[address] -= 1
        if not self._addresses[address]:
            del self._addresses[address]

    def close(self, address: str, reason: str) -> None:
        """Take note that the node closes a connection, and why."""
        self._closed.labels(reason).inc()
        self.strangers.closed.write(remote=address, reason=reason)


class Connection(web.RequestHandler):
    """One connection: aiohttp's, with a limit of time for heads and errors as problem documents.

    That it reads aiohttp's own fields is watched by tests; there is no public way to learn that
    part of a head has come.
    """

    __slots__ = ("_address", "_gate", "_head_timer")

    def __init__(self, server: web.Server, gate: Gate, access_log: str) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=IDLE_S,
            access_log_class=ACCESS_LOGS[access_log],
            access_log=ACCESS_LOGGER,
            # A body may not become longer here than it came.
            auto_decompress=False,
        )
        self._gate = gate
        self._address: str | None = None
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, or close it at once."""
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if peer else ""
        if not self._gate.admit(address):
            assert isinstance(transport, asyncio.Transport), transport
            transport.abort()
            return
        self._address = address
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Make room for another one."""
        self._forget_head()
        if self._address is not None:
            self._gate.release(self._address)
            self._address = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read; from the first byte of a head its time runs."""
        before = self._request_count
        super().data_received(data)
        if self._request_count != before:
            self._forget_head()
        elif self._head_timer is None and self._waiter is not None and not self._waiter.done():
            self._expect_head()

    def _expect_head(self) -> None:
        self._head_timer = self._loop.call_later(HEAD_S, self._give_up)

    def _forget_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        if self._address is not None:
            self._gate.close(self._address, "slow_head")
        self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the answer to what is no request, or to one that failed outside its handler."""
        if isinstance(exc, ConnectionError):
            raise exc  # The client has gone, which is no failure of this node.
        if status >= 500:
            return super().handle_error(request, status, exc, message)
        reason = ascii((message or "").partition("\n")[0].rstrip(": "))[1:-1][:TOLD_MAX]
        self._gate.strangers.malformed.write(remote=request.remote, reason=reason)
        request[IS_LOGGED] = True
        view = problem(status, "bad_request", f"this is no HTTP request that can be read: {reason}")
        answer = response(view, request_id="", headers=dict(SAME_FOR_ALL))
        answer.force_close()
        return answer


@asynccontextmanager
async def serving(
    app: web.Application, config: NodeConfig, metrics: Metrics
) -> AsyncGenerator[Address]:
    """Serve *app* while the body runs, and yield where.

    Raises:
        OSError: The address cannot be listened on.
    """
    # Cancelled with its client: else one that has gone is waited for as long as it asked to.
    runner = web.AppRunner(app, shutdown_timeout=SHUTDOWN_S, handler_cancellation=True)
    await runner.setup()
    try:
        server, gate = runner.server, Gate(config, metrics, app[STRANGERS])
        assert server is not None
        server.request_handler = _without_strange_expectations(server.request_handler)
        listening = await asyncio.get_running_loop().create_server(
            lambda: Connection(server, gate, config.access_log),
            config.listen.host,
            config.listen.port,
            backlog=1024,
        )
        try:
            host, port = listening.sockets[0].getsockname()[:2]
            async with beside(_report(gate.strangers)):
                yield Address(host, port)
        finally:
            listening.close()
    finally:
        await runner.cleanup()


def _without_strange_expectations(handle: Handle) -> Handle:
    """Return *handle* for requests whose ``Expect`` is understood, and 417 for all others.

    aiohttp repeats what it does not understand, and fails where that is no text.
    """

    async def refuse(request: web.BaseRequest) -> web.StreamResponse:
        view = problem(417, "bad_request", "Expect can only be 100-continue")
        return response(view, request_id="", headers=dict(SAME_FOR_ALL))

    def chosen(request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        expected = request.headers.get("Expect")
        is_strange = expected is not None and expected.lower() != "100-continue"
        return refuse(request) if is_strange else handle(request)

    return chosen


async def _report(strangers: Strangers) -> None:
    while True:
        await asyncio.sleep(REPORT_S)
        strangers.report()
