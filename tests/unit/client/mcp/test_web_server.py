"""The HTTP server of `rota mcp` against clients that are slow, or many."""

import asyncio
import errno
import resource
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rota.client.cli.mcp import web_connections, web_server
from rota.client.cli.mcp.sampled_log import PAUSE_S, SampledLog
from rota.client.cli.mcp.web_rules import LOCAL_NAMES, Rules
from rota.client.mcp.protocol import Server
from unit.client.mcp.test_transports import PING, NoTools

HEAD = (
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n" % len(PING)
)
LONG_S = 60.0
"""A limit that no test reaches."""

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture(autouse=True)
def _other_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEAD_S", "IDLE_S", "UNREAD_S"):
        monkeypatch.setattr(web_connections, name, LONG_S)
    monkeypatch.setattr(web_connections, "LINGER_S", 0.0)
    monkeypatch.setattr(web_server, "BODY_S", LONG_S)


@asynccontextmanager
async def served() -> AsyncGenerator[tuple[str, int]]:
    """Serve no tools; yield the address."""
    server = Server(NoTools(), version="1", instructions="")
    async with web_server.serving(server, Rules(LOCAL_NAMES), "127.0.0.1", 0) as address:
        yield address


@asynccontextmanager
async def connected(address: tuple[str, int], sent: bytes) -> AsyncGenerator[Stream]:
    """Connect and send something."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(sent)
        yield reader, writer
    finally:
        writer.close()


async def head_of(stream: Stream) -> bytes:
    """Return the first line of an answer, whose rest is read, too."""
    head = await stream[0].readuntil(b"\r\n\r\n")
    fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
    await stream[0].readexactly(int(fields[b"Content-Length"]))
    return head.partition(b"\r\n")[0]


async def ended(stream: Stream) -> bool:
    """Wait for the end of a connection, without any answer before it."""
    try:
        return await stream[0].read() == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("sent", [b"", HEAD[:30]])
async def test_a_head_that_does_not_arrive_ends_the_connection(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_connections, "HEAD_S", 0.05)
    async with served() as address, connected(address, sent) as stream:
        assert await ended(stream)


async def test_the_head_of_a_second_request_has_a_limit_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with served() as address, connected(address, HEAD + PING) as stream:
        assert await head_of(stream) == b"HTTP/1.1 200 OK"
        monkeypatch.setattr(web_connections, "HEAD_S", 0.05)
        stream[1].write(HEAD[:30])
        assert await ended(stream)


async def test_an_idle_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_connections, "IDLE_S", 0.05)
    async with served() as address, connected(address, HEAD + PING) as stream:
        assert await head_of(stream) == b"HTTP/1.1 200 OK"
        assert await ended(stream)


async def test_connections_beyond_the_limit_are_closed_and_the_others_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(web_connections, "CONNECTIONS_MAX", 1)
    async with served() as address:
        async with connected(address, HEAD + PING) as first:
            assert await head_of(first) == b"HTTP/1.1 200 OK"
            async with connected(address, b"") as second:
                assert await ended(second)
            first[1].write(HEAD.replace(b"Host", b"Connection: close\r\nHost") + PING)
            assert await head_of(first) == b"HTTP/1.1 200 OK"
            assert await ended(first)
        async with connected(address, HEAD + PING) as third:
            assert await head_of(third) == b"HTTP/1.1 200 OK"


def test_few_files_mean_few_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    def few(_: int) -> tuple[int, int]:
        return 64, 64

    monkeypatch.setattr(resource, "getrlimit", few)

    assert web_connections.connections_max() == 8


async def test_a_slow_body_is_refused_and_keeps_no_other_from_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(web_server, "PENDING_MAX", 1)
    async with served() as address, connected(address, HEAD) as slow:
        async with connected(address, HEAD + PING) as other:
            assert await head_of(other) == b"HTTP/1.1 200 OK"
        slow[1].write(PING)
        assert await head_of(slow) == b"HTTP/1.1 200 OK"
        monkeypatch.setattr(web_server, "BODY_S", 0.05)
        slow[1].write(HEAD)
        assert await head_of(slow) == b"HTTP/1.1 408 Request Timeout"


async def test_what_any_client_can_cause_fills_no_log(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with served() as address:
        loop = asyncio.get_running_loop()
        for _ in range(100):
            error = OSError(errno.EMFILE, "Too many open files")
            loop.call_exception_handler({"message": "accept", "exception": error})
        for _ in range(3):
            async with connected(address, b"\x00\x01\r\n\r\n") as stream:
                assert await head_of(stream) == b"HTTP/1.0 400 Bad Request"

    lines = capfd.readouterr().err.splitlines()
    assert [line.partition('"event":')[2].split('"')[1] for line in lines] == [
        "connection failed",
        "request malformed",
    ]


def test_an_event_has_one_line_in_a_while_with_the_number_of_those_before() -> None:
    now, lines = [0.0], list[tuple[str, dict[str, Any]]]()

    def write(event: str, **facts: Any) -> None:  # Any: JSON
        lines.append((event, facts))

    sampled = SampledLog(lambda: now[0], write)

    for number in range(3):
        sampled.write("a", number=number)
    sampled.write("b")
    now[0] = PAUSE_S
    sampled.write("a", number=3)

    assert lines == [("a", {"number": 0}), ("b", {}), ("a", {"number": 3, "omitted": 2})]
