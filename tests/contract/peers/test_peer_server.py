"""Requests and connections that the peer port refuses before their sender is identified."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, suppress
from functools import partial

import msgspec
import pytest

from contract.peers.networks import (
    SHARD,
    A,
    B,
    End,
    acquaint,
    dialled,
    greet,
    introduce,
    numbered,
    until,
)
from rota.core.model.ids import NodeId, Session
from rota.node.links import connection_limits, frames
from rota.node.links.handshake_messages import NotWelcome
from rota.node.links.peer_server import begins_as_forwarded
from rota.node.peers import death_proof
from rota.node.system.sampled_log import SampledLog

UPGRADE = (
    b"GET /peer HTTP/1.1\r\nHost: b\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


@pytest.fixture
async def end() -> AsyncGenerator[End]:
    """Node b, with the records of nodes a and b."""
    async with End(B).living() as end:
        introduce(end, End(A))
        yield end


async def answer_to(end: End, request: bytes) -> bytes:
    """Return what the node answers, up to the end of the connection or of the head."""
    reader, writer = await asyncio.open_connection("127.0.0.1", end.port)
    try:
        writer.write(request)
        async with asyncio.timeout(20):
            return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""
    finally:
        writer.close()


# -- browsers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [
        *(b"Origin: http://evil.example", b"origin: null", b"Origin: http://127.0.0.1:7401"),
        *(b"Sec-Fetch-Site: same-origin", b"sec-fetch-mode: websocket", b"Sec-Fetch-Dest: x"),
    ],
)
async def test_no_web_page_gets_a_websocket(end: End, header: bytes) -> None:
    answer = await answer_to(end, UPGRADE + header + b"\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"Upgrade" not in answer
    assert end.count("rota_peer_refused_total", reason="browser") == 1


@pytest.mark.parametrize("path", [b"/peer/death", b"/peer", b"/", b"/livez"])
async def test_no_web_page_posts_anything(end: End, path: bytes) -> None:
    """The request is refused for its header: its body never comes."""
    head = b"POST %b HTTP/1.1\r\nHost: b\r\nOrigin: http://b\r\nContent-Length: 99\r\n\r\n" % path

    assert (await answer_to(end, head)).startswith(b"HTTP/1.1 403 ")


async def test_a_request_without_such_headers_is_taken(end: End) -> None:
    assert (await answer_to(end, UPGRADE + b"\r\n")).startswith(b"HTTP/1.1 101 ")


# -- compression -----------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate", b"br", b"identity"])
async def test_a_compressed_body_is_refused_unread(end: End, encoding: bytes) -> None:
    head = b"POST /peer/death HTTP/1.1\r\nHost: b\r\nContent-Encoding: %b\r\n" % encoding

    answer = await answer_to(end, head + b"Content-Length: 1000\r\n\r\n\x1f\x8b garbage")

    assert answer.startswith(b"HTTP/1.1 415 ")
    assert end.count("rota_peer_refused_total", reason="encoding") == 1


async def test_no_compression_is_agreed_on(end: End) -> None:
    offer = b"Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n\r\n"

    answer = await answer_to(end, UPGRADE + offer)

    assert answer.startswith(b"HTTP/1.1 101 ")
    assert b"Extensions" not in answer


async def test_a_node_offers_no_compression() -> None:
    heads: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0) as server, End(A).living() as one:
        there = End(B)
        there.port = server.sockets[0].getsockname()[1]
        introduce(one, there)
        await until(lambda: bool(heads))

    assert b"Upgrade: websocket" in heads[0]
    assert b"Extensions" not in heads[0]


# -- forwarded requests ----------------------------------------------------------------------------


@pytest.mark.parametrize("first", [b"G", b"GET", b"OPTIONS ", b"PUT /", b"POST /ap"])
def test_few_bytes_do_not_tell_the_server(first: bytes) -> None:
    assert begins_as_forwarded(first) is None


@pytest.mark.parametrize(
    ("first", "is_forwarded"),
    [
        (b"GET /api/", True),
        (b"POST /api/v1/jobs HTTP/1.1\r\n", True),
        (b"GET /peer", False),
        (b"GET /apis", False),
        (b"GET http://n/api/", False),
        (b"get /api/", False),
        (b"\x16\x03", False),
        (b"TOOLONGAMETHOD", False),
    ],
)
def test_the_first_bytes_tell_the_server(first: bytes, is_forwarded: bool) -> None:
    assert begins_as_forwarded(first) is is_forwarded


# -- limits ----------------------------------------------------------------------------------------


async def test_connections_of_one_address_that_are_no_links_are_limited(
    end: End, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_limits, "STRANGERS_PER_ADDRESS_MAX", 3)
    async with AsyncExitStack() as stack:
        for _ in range(3):
            await stack.enter_async_context(dialled(end.port))

        assert await answer_to(end, UPGRADE + b"\r\n") == b""
        assert end.count("rota_peer_refused_total", reason="connections") == 1

    await until(lambda: end.links.stranger_count == 0)
    assert (await answer_to(end, UPGRADE + b"\r\n")).startswith(b"HTTP/1.1 101 ")


async def test_connections_that_are_no_links_are_limited_in_all(
    end: End, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_limits, "STRANGERS_MAX", 2)
    async with dialled(end.port), dialled(end.port):
        assert await answer_to(end, UPGRADE + b"\r\n") == b""


async def test_a_link_is_not_counted_among_them(end: End, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "STRANGERS_MAX", 1)
    monkeypatch.setattr(connection_limits, "STRANGER_S", 0.3)
    monkeypatch.setattr(connection_limits, "BYTES_IN_ALL_MAX", 5_000)
    async with dialled(end.port) as socket:
        await greet(socket, End(A), end)
        await until(lambda: end.links.peers == (A,) and end.links.stranger_count == 0)

        async with dialled(end.port):
            await until(lambda: end.count("rota_peer_refused_total", reason="time") == 1)

        end.links.send(A, SHARD, numbered(1))
        frame = frames.decode(await socket.receive_bytes(timeout=20))
        assert frame == frames.Batch(items=[(SHARD, numbered(1))])
        assert end.count("rota_peer_refused_total", reason="time") == 1


@pytest.mark.parametrize(
    "half",
    [b"", b"GET", UPGRADE, b"POST /peer/death HTTP/1.1\r\nHost: b\r\nContent-Length: 9\r\n\r\n"],
)
async def test_what_is_half_sent_is_not_waited_for(
    end: End, half: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_limits, "STRANGER_S", 0.1)

    assert await answer_to(end, half) == b""
    await until(lambda: end.links.stranger_count == 0)
    assert end.count("rota_peer_refused_total", reason="time") == 1


async def test_a_first_word_has_little_room(end: End) -> None:
    async with dialled(end.port) as socket:
        with suppress(ConnectionError):
            await socket.send_bytes(bytes(100_000))
        with pytest.raises((NotWelcome, TypeError)):
            await greet(socket, End(A), end)

    assert end.count("rota_peer_refused_total", reason="bytes") == 1


async def test_the_room_of_a_connection_is_narrowed_and_never_widened() -> None:
    refused: list[str] = []
    made: list[asyncio.BaseTransport] = []

    class Taking(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made.append(transport)

    keeper = connection_limits.Door(lambda limit, address: refused.append(limit))
    protocol = partial(keeper.protocol, lambda first: Taking())
    async with await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0) as server:
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"first")
        await until(lambda: bool(made))

        keeper.narrow(made[0], 10)
        keeper.narrow(made[0], 1_000)
        writer.write(bytes(11))
        await until(lambda: keeper.stranger_count == 0)
        writer.close()

    assert refused == ["bytes"]


async def test_half_sent_requests_take_bounded_memory_in_all(
    end: End, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_limits, "BYTES_IN_ALL_MAX", 100_000)
    head = b"POST /peer/death HTTP/1.1\r\nHost: b\r\nContent-Length: 1000000\r\n\r\n"
    async with AsyncExitStack() as stack:
        for _ in range(4):
            _, writer = await asyncio.open_connection("127.0.0.1", end.port)
            stack.callback(writer.close)
            writer.write(head + bytes(40_000))

        await until(lambda: end.count("rota_peer_refused_total", reason="bytes") >= 1)

        assert end.links.stranger_count <= 3


async def test_half_sent_requests_of_one_address_leave_room_for_others(
    end: End, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_limits, "BYTES_PER_ADDRESS_MAX", 100_000, raising=False)
    monkeypatch.setattr(connection_limits, "BYTES_IN_ALL_MAX", 150_000)
    head = b"POST /peer/death HTTP/1.1\r\nHost: b\r\nContent-Length: %d\r\n\r\n"
    async with AsyncExitStack() as stack:
        for _ in range(4):
            _, writer = await asyncio.open_connection(
                "127.0.0.1", end.port, local_addr=("127.0.0.2", 0)
            )
            stack.callback(writer.close)
            writer.write(head % 1_000_000 + bytes(40_000))
        await until(lambda: end.count("rota_peer_refused_total", reason="bytes") >= 1)

        of_another = await answer_to(end, head % 40_000 + bytes(40_000))

        assert of_another.startswith(b"HTTP/1.1 400 ")

    await until(lambda: end.links.stranger_count == 0)
    again = head % 40_000 + bytes(40_000)
    for _ in range(4):
        assert (await answer_to(end, again)).startswith(b"HTTP/1.1 400 ")


async def test_a_death_that_names_too_much_is_refused(
    end: End, monkeypatch: pytest.MonkeyPatch
) -> None:
    news = death_proof.DeathProof(cluster="c", node_id=A, session=Session("5e55"), secret="s")
    body = msgspec.msgpack.encode((death_proof.encode(news), None)) + bytes(death_proof.BYTES_MAX)
    head = b"POST /peer/death HTTP/1.1\r\nHost: b\r\nContent-Length: %d\r\n\r\n" % len(body)

    answer = await answer_to(end, head + body)

    assert not answer or answer.startswith(b"HTTP/1.1 413 ")
    assert end.deaths == []


# -- content of answers ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (UPGRADE + b"\r\n", 101),
        (UPGRADE + b"Origin: http://evil.example\r\n\r\n", 403),
        (b"POST /peer/death HTTP/1.1\r\nHost: b\r\nContent-Encoding: br\r\n\r\n", 415),
        (b"POST /peer/death HTTP/1.1\r\nHost: b\r\nContent-Length: 3\r\n\r\nbad", 400),
        (b"GET / HTTP/1.1\r\nHost: b\r\n\r\n", 404),
        (b"DELETE /peer HTTP/1.1\r\nHost: b\r\n\r\n", 405),
        (b"GET /peer HTTP/1.1\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno header\r\n\r\n", 400),
        (b"\x16\x03\x01 this is TLS\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: b\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", 400),
    ],
    ids=[
        *("link", "browser", "compressed", "bad death", "elsewhere", "method", "no upgrade"),
        *("malformed", "TLS", "long header"),
    ],
)
async def test_no_answer_names_the_software_behind_it(
    end: End, request_: bytes, status: int
) -> None:
    answer = (await answer_to(end, request_)).lower()

    assert answer.startswith((b"http/1.1 %d " % status, b"http/1.0 %d " % status))
    assert answer.count(b"\r\nserver: ") == 1
    assert b"\r\nserver: rota\r\n" in answer
    assert b"aiohttp" not in answer
    assert b"python" not in answer


# -- the log ---------------------------------------------------------------------------------------


async def test_strangers_do_not_fill_the_log(end: End, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for _ in range(40):
        await answer_to(end, UPGRADE + b"Origin: http://evil.example\r\n\r\n")
        await answer_to(end, b"GET / HTTP/1.1\r\nno header\r\n\r\n")

    assert end.count("rota_peer_refused_total", reason="browser") == 40
    assert end.count("rota_peer_refused_total", reason="malformed") == 40
    assert len(caplog.records) < 20


@pytest.mark.parametrize("path", [b"/peer", b"/peer/death", b"/nothing"])
@pytest.mark.parametrize("value", [b"\xff", b"secret"])
async def test_an_unknown_expectation_is_refused_with_few_lines_in_the_log(
    end: End, caplog: pytest.LogCaptureFixture, path: bytes, value: bytes
) -> None:
    head = b"GET %b HTTP/1.1\r\nHost: b\r\nExpect: %b\r\n\r\n" % (path, value)

    answers = [await answer_to(end, head) for _ in range(20)]

    assert {answer.split(b" ")[1] for answer in answers} == {b"417"}
    assert not any(value in answer for answer in answers)
    assert len(caplog.records) <= 10
    assert not any(record.exc_info for record in caplog.records)


async def test_lines_about_strangers_that_were_left_out_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reported: list[SampledLog] = []

    class Recording(SampledLog):
        def report(self) -> None:
            reported.append(self)

    monkeypatch.setattr("rota.node.links.peer_server.REPORT_S", 0.01)
    monkeypatch.setattr("rota.node.links.peer_server.SampledLog", Recording)

    async with End(B).living():
        await until(lambda: bool(reported))


CHUNKED = b"POST /peer/death HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\n"
HALF = b"POST /peer/death HTTP/1.1\r\nHost: b\r\nContent-Length: 9000\r\n\r\n"


@pytest.mark.parametrize("request_", [HALF + b"half", CHUNKED + b"5\r\nhal"])
async def test_a_body_that_breaks_off_has_a_line_in_the_log_at_most(
    end: End, request_: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for _ in range(40):
        _, writer = await asyncio.open_connection("127.0.0.1", end.port)
        writer.write(request_)
        await until(lambda: end.links.stranger_count == 1)
        writer.transport.abort()
        await until(lambda: end.links.stranger_count == 0)

    assert len(caplog.records) < 20
    assert not any(record.exc_info for record in caplog.records)


async def test_refused_proofs_of_death_do_not_fill_the_log(
    end: End, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    news = death_proof.DeathProof(
        cluster="c", node_id=NodeId("x" * 10_000), session=Session("5e55"), secret="s"
    )
    body = msgspec.msgpack.encode((death_proof.encode(news), None))
    head = b"POST /peer/death HTTP/1.1\r\nHost: b\r\nContent-Length: %d\r\n\r\n" % len(body)
    for _ in range(40):
        assert (await answer_to(end, head + body)).startswith(b"HTTP/1.1 403 ")

    assert end.count("rota_peer_refused_total", reason="unproven") == 40
    assert len(caplog.records) < 20
    assert all(len(str(vars(record))) < 2_000 for record in caplog.records)


async def test_bytes_of_handshakes_that_are_over_count_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_limits, "BYTES_IN_ALL_MAX", 3_000)
    async with End(B).living() as end:
        for _ in range(20):  # Each of them takes some 500 bytes.
            async with End(A).living() as dialler:
                acquaint(dialler, end)
                await until(lambda: end.links.peers == (A,))
            await until(lambda: not end.links.peers)


async def test_addresses_without_connections_take_no_memory(end: End) -> None:
    for last in (2, 3, 4):
        source = (f"127.0.0.{last}", 0)
        _, writer = await asyncio.open_connection("127.0.0.1", end.port, local_addr=source)
        writer.write(UPGRADE)
        await until(lambda: end.links.stranger_count == 1)
        writer.transport.abort()
        await until(lambda: end.links.stranger_count == 0)

    doorkeeper = end.links.port._door  # pyright: ignore[reportPrivateUsage] - its memory.
    assert not doorkeeper._addresses  # pyright: ignore[reportPrivateUsage]
    assert not doorkeeper._received_from  # pyright: ignore[reportPrivateUsage]
