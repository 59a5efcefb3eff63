"""The API's HTTP server: on its port, on the unix socket, and for what other nodes forward."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from functools import partial

from aiohttp import web

from rota.node.api.http.api_tls import ApiTls
from rota.node.api.http.connection import Connection, Gate
from rota.node.api.http.forwarded_requests import ForwardConnection
from rota.node.api.http.refusal_log import REFUSAL_LOGS, RefusalLogs
from rota.node.api.http.unix_socket import serving_on_socket
from rota.node.api.requests.problems import SAME_FOR_ALL, problem, response
from rota.node.peers.forward_port import ForwardPort
from rota.node.system.background import beside
from rota.node.system.config import NodeConfig
from rota.node.system.config_values import Address
from rota.node.system.metrics import Metrics

SHUTDOWN_S = 1.0
"""How long requests in progress may take when the API stops; aiohttp waits for this time twice."""
REPORT_S = 10.0

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(
    app: web.Application,
    config: NodeConfig,
    metrics: Metrics,
    *,
    forwards: ForwardPort | None = None,
    tls: ApiTls | None = None,
) -> AsyncGenerator[Address]:
    """Serve *app*, also on the unix socket, while the body runs, and yield its address.

    Args:
        app: The application.
        config: The settings of the node.
        metrics: Count connections.
        forwards: The peer port, where other nodes forward requests; None for a node alone.
        tls: The certificate of the API; None without TLS.

    Raises:
        OSError: The node cannot listen on the configured address.
    """
    # A handler whose client disconnected is cancelled; it might wait for minutes otherwise.
    runner = web.AppRunner(app, shutdown_timeout=SHUTDOWN_S, handler_cancellation=True)
    await runner.setup()
    try:
        server, gate = runner.server, Gate(config, metrics, app[REFUSAL_LOGS])
        assert server is not None
        server.request_handler = _with_known_expectations(server.request_handler)
        make = partial(Connection, server, gate, config.access_log)
        unix = serving_on_socket(make, config.data_dir)
        forwarded: AbstractContextManager[None] = nullcontext()
        if forwards is not None:
            forwarded = forwards.forwarding_to(
                partial(ForwardConnection, server, gate, config.access_log, forwards)
            )
        listening = (
            _listening(config.listen, make)
            if tls is None
            else tls.listening(config.listen, gate, lambda knock: make(knock=knock))
        )
        async with listening as port, unix, beside(_report(gate.refusal_logs)):
            with forwarded:
                yield Address(config.listen.host, port)
    finally:
        await runner.cleanup()


@asynccontextmanager
async def _listening(listen: Address, make: Callable[[], Connection]) -> AsyncGenerator[int]:
    """Accept connections without TLS while the body runs; yield the port.

    Raises:
        OSError: The node cannot listen on the address.
    """
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(make, listen.host, listen.port, backlog=1024)
    try:
        yield int(listening.sockets[0].getsockname()[1])
    finally:
        listening.close()


def _with_known_expectations(handle: Handle) -> Handle:
    """Return a handler that refuses requests with an unknown ``Expect`` header.

    All other requests go to *handle*. aiohttp itself quotes the unknown value in its response, and
    fails if the value is not text.
    """

    async def refuse(request: web.BaseRequest) -> web.StreamResponse:
        view = problem(
            417,
            "bad_request",
            "the header Expect has an unsupported value; send 100-continue, or omit the header",
        )
        return response(view, request_id="", headers=dict(SAME_FOR_ALL))

    def chosen(request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        expected = request.headers.get("Expect")
        is_unknown = expected is not None and expected.lower() != "100-continue"
        return refuse(request) if is_unknown else handle(request)

    return chosen


async def _report(refusal_logs: RefusalLogs) -> None:
    while True:
        await asyncio.sleep(REPORT_S)
        refusal_logs.report()
