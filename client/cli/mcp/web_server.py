"""Messages over HTTP: ``POST /mcp``, each answered with one JSON document; no sessions."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from aiohttp import web

from rota.client.cli.mcp.calls import log
from rota.client.cli.mcp.lines import MESSAGE_BYTES_MAX, PENDING_MAX, THREADS
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
    with ThreadPoolExecutor(THREADS, thread_name_prefix="rota-mcp") as threads:
        app = web.Application(client_max_size=MESSAGE_BYTES_MAX)
        app.router.add_route("*", PATH, _Door(server, rules, threads).answer)
        runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await runner.setup()
        try:
            site = web.TCPSite(runner, host, port)
            await site.start()
            address, number = runner.addresses[0][:2]
            named = f"[{address}]" if ":" in str(address) else address
            log("listening", url=f"http://{named}:{number}{PATH}")
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()


class _Door:
    """The only path of the server."""

    def __init__(self, server: Server, rules: Rules, threads: ThreadPoolExecutor) -> None:
        self._server = server
        self._rules = rules
        self._threads = threads
        self._pending = 0

    async def answer(self, request: web.Request) -> web.Response:
        """Answer a request; what is refused is not read."""
        refused = why_refused(self._rules, request.method, request.headers)
        if refused is not None:
            log("request refused", status=refused.status, remote=request.remote)
            return _problem(refused.status, refused.detail)
        if self._pending >= PENDING_MAX:
            return _problem(503, "too many requests at a time; repeat it later")
        self._pending += 1
        try:
            return await self._answer(request)
        finally:
            self._pending -= 1

    async def _answer(self, request: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(BODY_S):
                message = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return _problem(413, f"the message has more than {MESSAGE_BYTES_MAX} bytes; send less")
        except TimeoutError:
            return _problem(408, f"the body did not arrive within {BODY_S:g} s")
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(self._threads, self._server.answer, message)
        if answer is None:
            return web.Response(status=202)
        status = 400 if is_unreadable(answer) else 200
        return web.Response(status=status, body=answer, content_type="application/json")


def _problem(status: int, detail: str) -> web.Response:
    return web.json_response({"detail": detail}, status=status, headers=HEADERS.get(status))
