"""Limits of connections to the API: how many, and how long a request's head may take."""

import asyncio
import resource
import socket
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rota.node.api.http.connection import Gate
from rota.node.api.http.refusal_log import RefusalLogs
from rota.node.api.http.unread_responses import UnreadResponses
from rota.node.runtime.wiring import NodeWiring
from rota.node.system.clock import SystemClock
from rota.node.system.config import NodeConfig
from rota.node.system.metrics import Metrics
from rota.storage.memory import MemoryStore
from support.in_process import running_works, save, serving, until
from support.raw_http import all_of, connection
from support.rotad import Rotad

REQUEST = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
SOON_S = 0.3
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Callers:
    """Connections to one node, all closed in the end."""

    def __init__(self, url: str) -> None:
        self._host, _, self._port = url.removeprefix("http://").partition(":")
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self, source: str = "127.0.0.1") -> Streams:
        """Return a connection from an address of the loopback."""
        streams = await asyncio.open_connection(self._host, int(self._port), local_addr=(source, 0))
        self._writers.append(streams[1])
        return streams

    async def __aenter__(self) -> "Callers":
        return self

    async def __aexit__(self, *_: object) -> None:
        for writer in self._writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


@asynccontextmanager
async def callers(folder: Path, **settings: Any) -> AsyncGenerator[tuple[Callers, NodeWiring]]:
    """Run a node with *settings*, and yield what connects to it."""
    async with (
        running_works(MemoryStore(), folder) as wiring,
        serving(wiring, **settings) as client,
        Callers(client.url) as calling,
    ):
        yield calling, wiring


async def is_answered(streams: Streams) -> bool:
    """Send a request, and return True if the connection is not closed instead."""
    reader, writer = streams
    async with asyncio.timeout(10):
        try:
            writer.write(REQUEST)
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(len(b"ok\n"))
        except (asyncio.IncompleteReadError, ConnectionError):
            return False
        return head.startswith(b"HTTP/1.1 200 ")


async def is_closed_while_it_trickles(streams: Streams) -> bool:
    """Send a head byte by byte, without end, and return True if the connection is closed."""
    reader, writer = streams
    writer.write(b"GET /livez HTTP/1.1\r\nX: ")
    for _ in range(1_000):
        try:
            async with asyncio.timeout(0.01):
                return await reader.read() == b""
        except TimeoutError:
            writer.write(b"x")
        except ConnectionError:
            return True
    return False


async def test_a_head_that_trickles_in_ends_its_connection_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.node.api.http.connection.HEAD_S", SOON_S)
    async with callers(tmp_path) as (calling, wiring):
        kept = await calling.connect()
        assert await is_answered(kept)

        first = await calling.connect()
        is_first_closed = await is_closed_while_it_trickles(first)
        second = await calling.connect()
        assert await is_answered(second)
        is_second_closed = await is_closed_while_it_trickles(second)

        text = wiring.context.metrics.text().decode()
        assert is_first_closed
        assert is_second_closed
        assert await is_answered(kept)
        assert 'rota_http_connections_closed_total{reason="slow_head"} 2.0' in text


async def test_a_connection_on_which_nothing_comes_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.node.api.http.connection.HEAD_S", SOON_S)
    async with callers(tmp_path) as (calling, _):
        reader, _ = await calling.connect()

        async with asyncio.timeout(10):
            assert await reader.read() == b""


async def test_unread_responses_take_limited_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.node.api.http.connection.UNREAD_MAX", 1 << 20)
    async with running_works(MemoryStore(), tmp_path) as wiring, serving(wiring) as client:
        shards = wiring.context.shards
        await save(shards, "long", command=["x" * 100_000] * 15, stdin="x" * 1_000_000)
        host, port = client.url.removeprefix("http://").split(":")
        request = b"GET /api/v1/jobs/long HTTP/1.1\r\nHost: localhost\r\n\r\n"

        def is_closed(count: int) -> bool:
            counted = f'rota_http_connections_closed_total{{reason="unread"}} {count}.0'
            return count == 0 or counted in wiring.context.metrics.text().decode()

        with ExitStack() as connections:
            for number in range(4):
                caller = connections.enter_context(socket.socket())
                caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                caller.connect((host, int(port)))
                caller.sendall(request)
                await until(partial(is_closed, number))

            status, job = await client.call("GET", "/api/v1/jobs/long")
            assert (status, job["name"]) == (200, "long")


def test_the_oldest_unread_responses_are_dropped() -> None:
    closed: list[str] = []
    unread = UnreadResponses(limit=100)

    def add(name: str, byte_count: int) -> None:
        unread.add(name, byte_count, lambda: closed.append(name))

    add("a", 60)
    add("b", 40)
    add("c", 1)
    assert closed == ["a"]

    unread.remove("b")
    add("d", 500)
    assert closed == ["a", "c"]

    unread.remove("d")
    unread.remove("d")
    assert unread.byte_count == 0


async def test_connections_beyond_the_limits_are_closed_and_others_answered(
    tmp_path: Path,
) -> None:
    limits = {"connections_max": 4, "connections_per_address_max": 2}
    async with callers(tmp_path, **limits) as (calling, wiring):
        sources = [f"127.0.0.{last}" for last in (1, 1, 1, 2, 2, 3)]
        each = [await calling.connect(source) for source in sources]

        answered = [await is_answered(streams) for streams in each]
        assert answered == [True, True, False, True, True, False]

        text = wiring.context.metrics.text().decode()
        assert "\nrota_http_connections 4.0" in text
        assert 'rota_http_connections_closed_total{reason="address"} 1.0' in text
        assert 'rota_http_connections_closed_total{reason="total"} 1.0' in text

        each[0][1].close()
        await until(lambda: "\nrota_http_connections 3.0" in wiring.context.metrics.text().decode())
        assert await is_answered(await calling.connect("127.0.0.3"))


def test_addresses_without_connections_take_no_memory() -> None:
    gate = Gate(NodeConfig(), Metrics(), RefusalLogs(SystemClock().elapsed))
    addresses = [f"10.0.0.{last}" for last in range(100)]

    for address in addresses:
        assert gate.admit(address)
    for address in addresses:
        gate.release(address)

    assert not gate._addresses  # pyright: ignore[reportPrivateUsage] - its memory.


def test_connections_take_no_more_than_half_of_the_files_that_may_be_open() -> None:
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, most))
    try:
        gate = Gate(NodeConfig(), Metrics(), RefusalLogs(SystemClock().elapsed))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))

    admitted = [gate.admit("10.0.0.1") for _ in range(33)]

    assert admitted == [*([True] * 32), False]


def test_jobs_fire_while_hundreds_of_requests_are_half_sent(node: Rotad) -> None:
    node.create(name="fires-on", type="scripted", schedule="@every 100ms")

    with ExitStack() as stack:
        for number in range(300):
            half = stack.enter_context(connection(node))
            half.sendall(REQUEST[: 1 + number % (len(REQUEST) - 2)])
        before = len(node.ledger("fires-on"))
        node.wait_until(lambda: len(node.ledger("fires-on")) >= before + 10)
    node.call("DELETE", "/api/v1/jobs/fires-on")


def test_a_node_limits_connections_and_unread_responses_without_errors(tmp_path: Path) -> None:
    """A node uses uvloop, whose transports are no subclass of asyncio's."""
    with Rotad(tmp_path / "n", "--connections-per-address-max", "100").start() as node:
        long = ["x" * 100_000] * 15
        node.create(name="long", tasks=[{"name": each, "command": long} for each in ("a", "b")])
        request = b"GET /api/v1/jobs/long HTTP/1.1\r\nHost: localhost\r\n\r\n"

        def is_closed(reason: str, count: str) -> bool:
            with connection(node, "127.0.0.2") as other:
                other.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                text = all_of(other).decode()
            return f'connections_closed_total{{reason="{reason}"}} {count}' in text

        with ExitStack() as connections:
            callers = [connections.enter_context(connection(node)) for _ in range(120)]
            node.wait_until(lambda: is_closed("address", "20.0"))
            for caller in callers[:100]:
                caller.sendall(request)
            node.wait_until(lambda: is_closed("unread", ""))

        assert '"level": "error"' not in node.log()
