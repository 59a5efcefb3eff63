"""Faulty servers for tests of clients, all in this process."""

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from rota.node.peers.forward_port import OPENING_PATH

START_S = 10.0
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Strange:
    """A server that gives *answers* in order, repeats the last, and records the requests."""

    def __init__(self, *answers: Handler) -> None:
        self.answers = list(answers)
        self.asked: list[web.Request] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Return the next answer."""
        self.asked.append(request)
        await request.read()
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        return await answer(request)

    @property
    def keys(self) -> list[str]:
        """The idempotency keys of the requests."""
        return [request.headers.get("Idempotency-Key", "") for request in self.asked]


@asynccontextmanager
async def serving(strange: Strange) -> AsyncGenerator[str, None]:
    """Serve *strange* and yield its URL; nodes can forward requests to it."""
    app = web.Application()
    app.router.add_get(OPENING_PATH, accept_forwards)
    app.router.add_route("*", "/{path:.*}", strange.answer)
    async with TestServer(app) as server:
        yield str(server.make_url("")).rstrip("/")


async def accept_forwards(request: web.BaseRequest) -> web.Response:
    """Accept a connection for forwarded requests."""
    del request
    return web.Response(status=204)


@contextmanager
def serving_apart(strange: Strange, socket: Path | None = None) -> Generator[str]:
    """Serve *strange* in a thread, for clients that block this one; yield its URL.

    Args:
        strange: The server.
        socket: The path of a Unix socket at which it listens instead; the URL is then empty.
    """
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", strange.answer)
    runner = web.AppRunner(app)
    loop = asyncio.new_event_loop()

    async def start() -> str:
        await runner.setup()
        if socket is not None:
            await web.UnixSite(runner, str(socket)).start()
            return ""
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(start(), loop).result(START_S)
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(START_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def problem(status: int, code: str) -> dict[str, object]:
    """Return a problem document."""
    return {"type": "", "title": "", "status": status, "code": code, "detail": code}


def refusing(
    status: int, retry_after: str | None = None
) -> Callable[[web.Request], Coroutine[Any, Any, web.Response]]:
    """Return an answer with an error *status*."""

    async def answer(request: web.Request) -> web.Response:
        del request
        headers = {"Retry-After": retry_after} if retry_after else None
        return web.json_response(problem(status, "refused_by_test"), status=status, headers=headers)

    return answer


async def hang_up(request: web.Request) -> web.Response:
    """Close the connection without an answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def gateway_error(request: web.Request) -> web.Response:
    """Answer as a proxy whose node gave no answer."""
    del request
    return web.Response(status=502, text="<html>bad gateway</html>", content_type="text/html")


def passing_on(url: str, *, cut_after: int | None = None) -> Handler:
    """Return an answer that streams the one of the node at *url*.

    Args:
        url: URL of the node.
        cut_after: Number of bytes of the body after which the connection is closed; None: never.
    """

    async def answer(request: web.Request) -> web.StreamResponse:
        left = cut_after
        async with _forwarding(request, url) as upstream:
            response = web.StreamResponse(status=upstream.status)
            await response.prepare(request)
            async for part in upstream.content.iter_any():
                await response.write(part[:left])
                if left is not None:
                    left = max(left - len(part), 0)
                if left == 0:
                    assert request.transport is not None
                    # Written bytes are still sent, but not the end of the body.
                    request.transport.close()
                    break
        return response

    return answer


def sending_lines(*lines: str, is_over: bool = True) -> Handler:
    """Return an answer of lines that then ends, or stays open without further lines."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write("".join(f"{line}\n" for line in lines).encode())
        if not is_over:
            await asyncio.Event().wait()
        return response

    return answer


def losing_answers_of(url: str) -> Handler:
    """Return an answer that forwards the request to the node at *url* and then hangs up."""

    async def answer(request: web.Request) -> web.Response:
        async with _forwarding(request, url) as upstream:
            await upstream.read()
        return await hang_up(request)

    return answer


async def hold_up(request: web.Request) -> web.Response:
    """Give no answer, as if the request were still under way."""
    del request
    await asyncio.Event().wait()
    raise AssertionError


async def bring(request: web.Request, url: str) -> int:
    """Send a delayed request to the node at *url*; return the status of its answer."""
    async with _forwarding(request, url) as upstream:
        return upstream.status


@asynccontextmanager
async def _forwarding(
    request: web.Request, url: str
) -> AsyncGenerator[aiohttp.ClientResponse, None]:
    skipped = ("host", "content-length", "transfer-encoding")
    headers = {key: value for key, value in request.headers.items() if key.lower() not in skipped}
    async with (
        aiohttp.ClientSession() as session,
        session.request(
            request.method, f"{url}{request.raw_path}", data=await request.read(), headers=headers
        ) as upstream,
    ):
        yield upstream


@contextmanager
def silent() -> Generator[str]:
    """Yield a URL that accepts connections and never sends a byte."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def dead() -> Generator[str]:
    """Yield a URL whose port is bound, and so not used by another server, but not listened on."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


def without_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make clients use their endpoints in the given order."""

    def leave(random: object, items: list[str]) -> None:
        del random, items

    monkeypatch.setattr("rota.client.transport.endpoints.SystemRandom.shuffle", leave)
