"""Messages over HTTP: ``POST /mcp``, each answered with one JSON document; no sessions."""

import asyncio
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from aiohttp import web

from rota.client.cli.mcp.calls import log
from rota.client.cli.mcp.lines import MESSAGE_BYTES_MAX, PENDING_MAX, THREADS
from rota.client.cli.mcp.sampled_log import SampledLog
from rota.client.cli.mcp.web_connections import Connection, Gate, connections_max
from rota.client.cli.mcp.web_rules import Rules, why_refused
from rota.client.mcp.protocol import Server, is_unreadable

PATH = "/mcp"
BODY_S = 30.0
"""The time limit in seconds for the body of a request."""
HEADERS = {
    401: {"WWW-Authenticate": "Bearer"},
    405: {"Allow": "POST"},
    503: {"Retry-After": "1"},
}


async def serve_http(server: Server, rules: Rules, host: str, port: int) -> None:
    """Answer requests until cancelled; port 0 is a free one, which the log names."""
    async with serving(server, rules, host, port) as (address, number):
        named = f"[{address}]" if ":" in address else address
        log("listening", url=f"http://{named}:{number}{PATH}")
        await asyncio.Event().wait()


@asynccontextmanager
async def serving(
    server: Server, rules: Rules, host: str, port: int
) -> AsyncGenerator[tuple[str, int]]:
    """Answer requests while the body runs; yield the address and the port.

    Raises:
        OSError: The server cannot listen there.
    """
    loop = asyncio.get_running_loop()
    refused = SampledLog(loop.time)
    loop.set_exception_handler(partial(_report, refused))
    gate = Gate(connections_max(), refused)
    with ThreadPoolExecutor(THREADS, thread_name_prefix="rota-mcp") as threads:
        app = web.Application(client_max_size=MESSAGE_BYTES_MAX)
        app.router.add_route("*", PATH, _Door(server, rules, threads, refused).answer)
        runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await runner.setup()
        assert runner.server is not None
        try:
            # The event loop accepts up to `backlog` connections before it closes any.
            listening = await loop.create_server(
                partial(Connection, runner.server, gate), host, port, backlog=gate.most
            )
            try:
                address, number = listening.sockets[0].getsockname()[:2]
                yield str(address), int(number)
            finally:
                listening.close()
        finally:
            await runner.cleanup()


def _report(
    refused: SampledLog,
    loop: asyncio.AbstractEventLoop,
    context: dict[str, Any],  # Any: as asyncio has it
) -> None:
    """Write a lack of files as one line in a while; asyncio has many tracebacks for each."""
    error = context.get("exception")
    if isinstance(error, OSError):
        refused.write("connection failed", reason=str(error))
    else:
        loop.default_exception_handler(context)


class _Door:
    """The only path of the server."""

    def __init__(
        self, server: Server, rules: Rules, threads: ThreadPoolExecutor, refused: SampledLog
    ) -> None:
        self._server = server
        self._rules = rules
        self._threads = threads
        self._refused = refused
        self._pending = 0

    async def answer(self, request: web.Request) -> web.Response:
        """Answer a request; what is refused is not read."""
        refused = why_refused(self._rules, request.method, request.headers)
        if refused is not None:
            self._refused.write("request refused", status=refused.status, remote=request.remote)
            return _problem(refused.status, refused.detail)
        try:
            async with asyncio.timeout(BODY_S):
                message = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return _problem(413, f"the message has more than {MESSAGE_BYTES_MAX} bytes; send less")
        except TimeoutError:
            return _problem(408, f"the body did not arrive within {BODY_S:g} s")
        # Bodies that arrive slowly do not count, so that they keep no others from being answered.
        if self._pending >= PENDING_MAX:
            return _problem(503, "too many requests at a time; repeat it later")
        self._pending += 1
        try:
            return await self._answer(message)
        finally:
            self._pending -= 1

    async def _answer(self, message: bytes) -> web.Response:
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(self._threads, self._server.answer, message)
        if answer is None:
            return web.Response(status=202)
        status = 400 if is_unreadable(answer) else 200
        return web.Response(status=status, body=answer, content_type="application/json")


def _problem(status: int, detail: str) -> web.Response:
    return web.json_response({"detail": detail}, status=status, headers=HEADERS.get(status))
