"""The HTTP server on the peer port: which requests are considered at all, and how many.

Nodes and wardens send two kinds of request here, without a browser and without compression. What
looks like a browser's is refused before its body, or an upgrade, is looked at: a web page must not
reach this port. What is refused is counted, and logged within a limit.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

from aiohttp import web

from rota.node.links.connection_limits import Door
from rota.node.links.link import CLOSE_S
from rota.node.peers import death_proof
from rota.node.system.clock import Clock
from rota.node.system.metrics import LinkMetrics
from rota.node.system.sampled_log import SampledLog

log = logging.getLogger(__name__)

PATH = "/peer"
BROWSERS_OWN = "sec-fetch-"
"""Every current browser sends such headers, and no page can prevent or forge them."""
SERVER = {"Server": "rota"}
"""In every answer: without it aiohttp sends its version, and that of Python."""
REPORT_S = 10.0
"""How often lines left out of the log are reported."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class PeerPort:
    """The server on the peer port.

    Args:
        clock: Limits the log.
        metrics: Counts refusals.
    """

    def __init__(self, *, clock: Clock, metrics: LinkMetrics) -> None:
        self._metrics = metrics
        self._log = SampledLog(log, "peer refused", now=clock.elapsed)
        self._door = Door(self._limited)

    @asynccontextmanager
    async def listening(
        self, host: str, port: int, accept: Handler, accept_death: Handler
    ) -> AsyncGenerator[int]:
        """Listen on an address; gives the port, which matters where it was 0.

        Args:
            host: The address to listen on.
            port: The port to listen on; 0: any free one.
            accept: Handles a request for a link.
            accept_death: Handles the proof that a process has ended.

        Raises:
            OSError: The address cannot be listened on.
        """
        app = web.Application(middlewares=[self._guard], client_max_size=death_proof.BYTES_MAX)
        app.router.add_get(PATH, accept)
        app.router.add_post(death_proof.PATH, accept_death)
        app.on_response_prepare.append(_add_headers)
        # A client that hangs up cancels nothing: each link notices its end by itself, and logs it.
        runner = web.AppRunner(app, shutdown_timeout=CLOSE_S)
        await runner.setup()
        try:
            http = runner.server
            assert http is not None, "set up"
            http.request_handler = self._without_expectations(http.request_handler)
            protocol = partial(self._door.protocol, lambda: _Connection(http, self.refused))
            server = await asyncio.get_running_loop().create_server(protocol, host, port)
            try:
                yield int(server.sockets[0].getsockname()[1])
            finally:
                server.close()
        finally:
            await runner.cleanup()

    @property
    def stranger_count(self) -> int:
        """Connections that are no links, or not yet."""
        return self._door.stranger_count

    async def report(self) -> None:
        """Report lines left out of the log, until cancelled."""
        while True:
            await asyncio.sleep(REPORT_S)
            self._log.report()

    def narrow(self, request: web.Request, byte_count: int) -> None:
        """Let the other end send only *byte_count* bytes more before it is admitted."""
        self._door.narrow(request.transport, byte_count)

    def admit(self, request: web.Request) -> None:
        """Lift the limits on a connection: its other end is a member."""
        self._door.admit(request.transport)

    def refused(self, kind: str, address: str | None, reason: str) -> None:
        """Count and log something that was refused."""
        self._metrics.refused(kind)
        self._log.write(address=address or "", reason=reason)

    def _limited(self, limit: str, address: str) -> None:
        self.refused(limit, address, f"a connection that is no link yet reached a limit: {limit}")

    def _without_expectations(self, handle: Handle) -> Handle:
        """Return a handler that refuses requests with an unknown ``Expect`` header.

        All other requests go to *handle*. aiohttp checks the header before any middleware runs,
        and quotes the value in its response; if the value is not text, aiohttp fails and logs an
        error for each such request.
        """

        async def refuse(request: web.BaseRequest) -> web.StreamResponse:
            self.refused("malformed", request.remote, "its expectation is unknown")
            return _refusal(417, "the only expectation that is known is 100-continue")

        def chosen(request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
            expected = request.headers.get("Expect")
            is_known = expected is None or expected.lower() == "100-continue"
            return handle(request) if is_known else refuse(request)

        return chosen

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if any(name.lower().startswith((BROWSERS_OWN, "origin")) for name in request.headers):
            self.refused("browser", request.remote, "a browser sent it")
            return _refusal(403, "this port is for nodes, not for browsers")
        if "Content-Encoding" in request.headers:
            self.refused("encoding", request.remote, "its body is compressed")
            return _refusal(415, "compressed bodies are not accepted")
        try:
            return await handler(request)
        except ConnectionError as error:
            self._log.write(address=request.remote or "", reason=f"it broke off: {error}")
            raise


class _Connection(web.RequestHandler):
    """aiohttp's connection, with answers of this port to what is no request."""

    __slots__ = ("_refused",)

    def __init__(self, server: web.Server, refused: Callable[[str, str | None, str], None]) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # none; aiohttp accepts that
            auto_decompress=False,
            logger=log,
        )
        self._refused = refused

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the answer to what is no request, or to one whose handler failed."""
        if isinstance(exc, ConnectionError):
            raise exc  # The other end has gone, which is no failure of this node.
        if status < 500:
            self._refused("malformed", request.remote, (message or "no HTTP").partition("\n")[0])
            return _refusal(status, "this is no HTTP request that can be read")
        answer = super().handle_error(request, status, exc, message)
        answer.headers.update(SERVER)
        return answer


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    del request
    response.headers.update(SERVER)


def _refusal(status: int, text: str) -> web.Response:
    response = web.Response(status=status, text=f"{text}\n", headers=SERVER)
    response.force_close()
    return response
