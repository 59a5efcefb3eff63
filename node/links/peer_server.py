"""The HTTP server on the peer port, and the refusal of requests that no node or warden sends.

Nodes and wardens send two kinds of requests here, neither by a browser nor with compression. A
request that looks like one of a browser is refused before its body or an upgrade is processed,
since a web page must not be able to use this port. Refusals are counted, and logged at a limited
rate. Connections whose first request is one to the API are passed to the server of the API, which
requires a proof that a node has forwarded it (`rota.node.api.http.forwarded_requests`).
"""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial

from aiohttp import web

from rota.node.links.connection_limits import Door, Serve
from rota.node.links.link import CLOSE_S
from rota.node.peers import death_proof
from rota.node.peers.forward_port import FORWARDED_PATHS, MakeProtocol
from rota.node.peers.peer_tls import PeerTls
from rota.node.system.clock import Clock
from rota.node.system.metrics import LinkMetrics
from rota.node.system.sampled_log import SampledLog
from rota.node.system.tls_listener import TlsListener

log = logging.getLogger(__name__)

PATH = "/peer"
BROWSERS_OWN = "sec-fetch-"
"""The beginning of headers that every current browser sends and no page can suppress or forge."""
SERVER = {"Server": "rota"}
"""A header of every response; otherwise aiohttp sends its own version and that of Python."""
REPORT_S = 10.0
"""The period of reports of the number of log lines that were omitted."""

METHOD = re.compile(rb"[A-Z]{1,8}")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class PeerPort:
    """The server on the peer port.

    Args:
        clock: The clock by which the number of log lines is limited.
        metrics: Count refusals.
        tls: The certificate of this node; None without TLS.
    """

    def __init__(self, *, clock: Clock, metrics: LinkMetrics, tls: PeerTls | None = None) -> None:
        self._metrics = metrics
        self._tls = tls
        self._log = SampledLog(log, "peer refused", now=clock.elapsed)
        self._door = Door(self._limited)
        self._make_forward: MakeProtocol | None = None

    @asynccontextmanager
    async def listening(
        self, host: str, port: int, accept: Handler, accept_death: Handler
    ) -> AsyncGenerator[int]:
        """Listen on an address while the body runs; yield the port.

        Args:
            host: The address to listen on.
            port: The port to listen on; 0 for any free port.
            accept: Handles a request for a link.
            accept_death: Handles the proof that a process has ended.

        Raises:
            OSError: The node cannot listen on the address.
        """
        app = web.Application(middlewares=[self._guard], client_max_size=death_proof.BYTES_MAX)
        app.router.add_get(PATH, accept)
        app.router.add_post(death_proof.PATH, accept_death)
        app.on_response_prepare.append(_add_headers)
        # A client that hangs up cancels no handler: each link detects its end by itself, and logs
        # it.
        runner = web.AppRunner(app, shutdown_timeout=CLOSE_S)
        await runner.setup()
        try:
            http = runner.server
            assert http is not None, "set up"
            http.request_handler = self._without_expectations(http.request_handler)
            make = partial(_Connection, http, self.refused)
            async with self._accepting(host, port, partial(self._served, make)) as listening_port:
                yield listening_port
        finally:
            await runner.cleanup()

    @contextmanager
    def forwarding_to(self, make: MakeProtocol) -> Generator[None]:
        """Serve new connections with forwarded requests by *make* while the body runs."""
        self._make_forward = make
        try:
            yield
        finally:
            self._make_forward = None

    def _served(self, make: MakeProtocol, first: bytes) -> asyncio.Protocol | None:
        """Return the protocol for a connection, if its first bytes tell which one it is."""
        if self._make_forward is not None:
            is_forwarded = begins_as_forwarded(first)
            if is_forwarded is None:
                return None
            if is_forwarded:
                return self._make_forward()
        return make()

    @asynccontextmanager
    async def _accepting(self, host: str, port: int, serve: Serve) -> AsyncGenerator[int]:
        """Accept connections while the body runs; yield the port.

        Raises:
            OSError: The node cannot listen on the address.
        """
        if self._tls is not None:
            listener = TlsListener(
                self._tls.server,
                knock=self._door.knock,
                protocol=partial(self._door.protocol, serve),
                refused=self.refused,
                takes_plain=self._tls.takes_plain,
            )
            async with listener.listening(host, port) as listening_port:
                yield listening_port
            return
        protocol = partial(self._door.protocol, serve)
        server = await asyncio.get_running_loop().create_server(protocol, host, port)
        try:
            yield int(server.sockets[0].getsockname()[1])
        finally:
            server.close()

    @property
    def stranger_count(self) -> int:
        """The number of connections that are not links, or not yet."""
        return self._door.stranger_count

    async def report(self) -> None:
        """Log the number of omitted lines periodically, until cancelled."""
        while True:
            await asyncio.sleep(REPORT_S)
            self._log.report()

    def narrow(self, request: web.Request, byte_count: int) -> None:
        """Limit the other end to *byte_count* further bytes until it is admitted."""
        self._door.narrow(request.transport, byte_count)

    def admit(self, request: web.BaseRequest) -> None:
        """Lift the limits on a connection, whose other end is a member."""
        self._door.admit(request.transport)

    def refused(self, kind: str, address: str | None, reason: str) -> None:
        """Count and log a refusal."""
        self._metrics.refused(kind)
        self._log.write(address=address or "", reason=reason)

    def _limited(self, limit: str, address: str) -> None:
        reason = f"a connection that is not a link yet exceeded the limit of {limit}"
        self.refused(limit, address, reason)

    def _without_expectations(self, handle: Handle) -> Handle:
        """Return a handler that refuses requests with an unknown ``Expect`` header.

        All other requests go to *handle*. aiohttp checks the header before any middleware runs,
        and quotes the value in its response; if the value is not text, aiohttp fails and logs an
        error for each such request.
        """

        async def refuse(request: web.BaseRequest) -> web.StreamResponse:
            self.refused("malformed", request.remote, "the request has an unknown Expect header")
            return _refusal(417, "the only supported value of Expect is 100-continue")

        def chosen(request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
            expected = request.headers.get("Expect")
            is_known = expected is None or expected.lower() == "100-continue"
            return handle(request) if is_known else refuse(request)

        return chosen

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if any(name.lower().startswith((BROWSERS_OWN, "origin")) for name in request.headers):
            self.refused("browser", request.remote, "a browser sent the request")
            return _refusal(403, "this port is for nodes, not for browsers")
        if "Content-Encoding" in request.headers:
            self.refused("encoding", request.remote, "the body of the request is compressed")
            return _refusal(415, "compressed bodies are not accepted; send the body uncompressed")
        try:
            return await handler(request)
        except ConnectionError as error:
            reason = f"the connection broke: {error}"
            self._log.write(address=request.remote or "", reason=reason)
            raise


def begins_as_forwarded(first: bytes) -> bool | None:
    """Return True if the first bytes of a connection are those of a request to the API.

    Returns:
        None if they are too few.
    """
    method, space, path = first.partition(b" ")
    if not METHOD.fullmatch(method):
        return False
    is_short = len(path) < len(FORWARDED_PATHS) and FORWARDED_PATHS.startswith(path)
    return None if not space or is_short else path.startswith(FORWARDED_PATHS)


class _Connection(web.RequestHandler):
    """aiohttp's connection, with the responses of this port to invalid requests."""

    __slots__ = ("_refused",)

    def __init__(self, server: web.Server, refused: Callable[[str, str | None, str], None]) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # aiohttp accepts None
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
        """Return the response to an invalid request, or to one whose handler failed."""
        if isinstance(exc, ConnectionError):
            raise exc  # The other end has gone, which is no failure of this node.
        if status < 500:
            self._refused("malformed", request.remote, (message or "not HTTP").partition("\n")[0])
            return _refusal(status, "the request is not valid HTTP")
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
