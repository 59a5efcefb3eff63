"""Real links beyond the common contract: accepted peers, and limits for a peer."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from socket import create_connection

import aiohttp
import msgspec
import pytest
from msgspec.structs import replace

from contract.peers.networks import (
    SHARD,
    SHARDS,
    A,
    B,
    End,
    Wire,
    a_part,
    acquaint,
    an_append,
    dialled,
    greet,
    introduce,
    numbered,
    until,
)
from rota.core.model.ids import NodeId, ShardId
from rota.node.links import frames, send_queue
from rota.node.links.handshake_messages import NotWelcome
from rota.node.links.link_connector import PAUSE_S, PAUSE_S_MAX, pause_s
from rota.node.links.send_queue import SendQueue
from rota.node.peers.messages import CoordinationLost
from rota.node.system.sampled_log import SampledLog


@pytest.fixture
async def end() -> AsyncGenerator[End]:
    """Node b, which every node with a lower id dials."""
    async with End(B).living() as end:
        introduce(end, End(A))
        yield end


# -- what one turn sends --------------------------------------------------------------------------


async def test_all_messages_of_a_turn_go_in_one_frame() -> None:
    waiting = SendQueue()
    for shard in range(SHARDS):
        waiting.put(ShardId(shard), numbered(shard))

    frame = waiting.next_frame()

    assert frame is not None
    batch = frames.decode(frame)
    assert isinstance(batch, frames.Batch)
    assert batch.items == [(shard, numbered(shard)) for shard in range(SHARDS)]
    assert waiting.next_frame() is None


async def test_no_frame_is_longer_than_a_peer_takes() -> None:
    waiting = SendQueue()
    for size in (10, frames.FRAME_BYTES_MAX, 700_000, 700_000, 5_000_000):
        waiting.put(SHARD, an_append(size))
    waiting.put(SHARD, a_part(3_000_000))

    sizes = [len(frame) for frame in iter(waiting.next_frame, None)]

    assert max(sizes) <= frames.FRAME_BYTES_MAX
    assert (waiting.count, waiting.size) == (0, 0)


async def test_a_snapshot_holds_other_messages_up_for_no_longer_than_a_chunk() -> None:
    waiting = SendQueue()
    waiting.put(SHARD, a_part(1_000_000))
    first = waiting.next_frame()
    waiting.put(SHARD, numbered(1))

    second = waiting.next_frame()

    assert first is not None
    assert second is not None
    assert len(first) <= frames.CHUNK_BYTES + frames.OVERHEAD_BYTES
    assert frames.decode(second) == frames.Batch(items=[(SHARD, numbered(1))])


async def test_a_snapshot_is_sent_beside_an_endless_flow_of_messages() -> None:
    waiting = SendQueue()
    waiting.put(SHARD, a_part(10 * frames.CHUNK_BYTES))

    kinds: list[type[object]] = []
    for _ in range(20):
        waiting.put(SHARD, numbered(1))
        kinds.append(type(frames.decode(waiting.next_frame() or b"")))

    assert kinds.count(frames.Chunk) == 10


async def test_what_finds_no_room_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_queue, "COUNT_MAX", 3)
    waiting = SendQueue()

    taken = [waiting.put(SHARD, numbered(number)) for number in range(5)]

    assert taken == [True, True, True, False, False]


async def test_bytes_are_bounded_too_but_any_one_message_goes_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(send_queue, "BYTES_MAX", 1_000)
    waiting = SendQueue()

    taken = [waiting.put(SHARD, an_append(2_000)), waiting.put(SHARD, numbered(1))]

    assert taken == [True, False]


async def test_a_message_that_no_peer_would_take_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(send_queue, "MESSAGE_BYTES_MAX", 1_000)

    is_taken = SendQueue().put(SHARD, an_append(2_000))

    assert not is_taken


# -- links -----------------------------------------------------------------------------------------


async def test_what_waits_to_be_sent_is_counted_until_it_has_gone(end: End) -> None:
    async with End(A).living() as other:
        acquaint(end, other)
        await until(lambda: end.links.peers == (A,))
        end.links.send(A, SHARD, an_append(10_000))

        assert end.count("rota_peer_waiting_bytes") > 10_000
        await until(lambda: bool(other.received))

        assert end.count("rota_peer_waiting_bytes") == 0


async def test_an_address_that_is_no_name_costs_the_link_to_that_node_alone(end: End) -> None:
    lost = replace(End(NodeId("z")).member(), peer_address="foo..bar:7401")
    async with End(A).living() as dialler:
        introduce(end, dialler)
        members = (dialler.member(), end.member(), lost)

        dialler.links.set_members({each.node_id: each for each in members})

        await until(lambda: dialler.links.peers == (B,))
        await asyncio.sleep(2 * PAUSE_S)  # The other is dialled again meanwhile.
        assert dialler.links.peers == (B,)


async def test_who_hangs_up_before_it_is_answered_is_no_error(
    end: End, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with create_connection(("127.0.0.1", end.port)) as caller:
        caller.sendall(
            b"GET /peer HTTP/1.1\r\nHost: b\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )

    await until(lambda: "peer hung up" in caplog.messages)
    async with End(A).living() as other:
        acquaint(other, end)
        await until(lambda: end.links.peers == (A,))

    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


NO_ORDER = {"key": ["x", "main", 1], "token": [1, 1], "work": ["process"], "fire_at": 0}


# -- what comes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\xc1 never msgpack",
        msgspec.msgpack.encode([0, [[3, {"type": "no such message"}]]]),
        msgspec.msgpack.encode([0, [[3, {"type": "fenced", "epoch": "five"}]]]),
        msgspec.msgpack.encode([9, "no such frame"]),
        msgspec.msgpack.encode([0, [[3, {"type": "dispatch", "order": NO_ORDER}]]]),
        frames.batch_of([frames.encode_item(ShardId(SHARDS), numbered(1))]),
        frames.batch_of([frames.encode_item(ShardId(-1), numbered(1))]),
        frames.batch_of([frames.encode_item(None, numbered(1))]),
        frames.batch_of([frames.encode_item(SHARD, CoordinationLost(generation=1))]),
        frames.encode(frames.Chunk(lane=frames.Lane.BULK, is_last=True, piece=b"\xc1")),
        b"\x00" * (frames.FRAME_BYTES_MAX + 2_000),
    ],
    ids=[
        "empty",
        "bytes",
        "message",
        "field",
        "frame",
        "order",
        "shard",
        "negative",
        "no shard",
        "a shard",
        "chunk",
        "long",
    ],
)
async def test_garbage_ends_the_link_and_nothing_else(
    end: End, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with dialled(end.port) as socket:
        await greet(socket, End(A), end)
        await socket.send_bytes(frames.batch_of([frames.encode_item(SHARD, numbered(1))]))
        await socket.send_bytes(garbage)
        await hung_up(socket)
    await until(lambda: end.links.peers == ())

    assert end.received == [(SHARD, A, numbered(1))]
    is_too_long = len(garbage) > frames.FRAME_BYTES_MAX
    assert ("the connection broke: " if is_too_long else "garbage") in why_gone(caplog)
    assert end.count("rota_peer_garbage_total") == (0 if is_too_long else 1)
    assert ("peer sent garbage" in caplog.messages) is not is_too_long


async def test_a_message_in_chunks_is_bounded(
    end: End, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(frames, "MESSAGE_BYTES_MAX", 1_000)
    piece = frames.encode(frames.Chunk(lane=frames.Lane.BULK, is_last=False, piece=b"x" * 600))

    async with dialled(end.port) as socket:
        await greet(socket, End(A), end)
        await socket.send_bytes(piece)
        await socket.send_bytes(piece)
        await hung_up(socket)
    await until(lambda: end.links.peers == ())

    assert "a message has more than 1000 bytes" in why_gone(caplog)


async def test_incomplete_messages_are_dropped_with_their_link(end: End) -> None:
    piece = frames.encode(frames.Chunk(lane=frames.Lane.BULK, is_last=False, piece=b"x" * 600))

    async with dialled(end.port) as socket:
        await greet(socket, End(A), end)
        await socket.send_bytes(piece)
        await until(lambda: end.count("rota_peer_partial_bytes") == 600)

    await until(lambda: end.links.peers == ())
    await until(lambda: end.count("rota_peer_partial_bytes") == 0)


async def test_lines_about_garbage_that_were_left_out_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reported: list[SampledLog] = []

    class Recording(SampledLog):
        def report(self) -> None:
            reported.append(self)

    monkeypatch.setattr("rota.node.links.link_pool.REPORT_S", 0.01)
    monkeypatch.setattr("rota.node.links.link_pool.SampledLog", Recording)

    async with End(B).living():
        await until(lambda: bool(reported))


async def test_a_peer_that_reads_nothing_costs_bounded_memory_and_is_given_up(
    end: End, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.node.links.link.PING_S", 0.05)
    monkeypatch.setattr("rota.node.links.link.SILENT_S", 1.0)
    async with dialled(end.port) as socket:
        await greet(socket, End(A), end)
        await until(lambda: end.links.peers == (A,))

        for _ in range(200):
            end.links.send(A, SHARD, an_append(500_000))
            await asyncio.sleep(0)
        await until(lambda: end.links.peers == ())

    assert end.count("rota_peer_messages_dropped_total", reason="no_room") > 10


# -- links come and go -----------------------------------------------------------------------------


async def test_what_is_sent_without_a_link_is_dropped_and_counted(end: End) -> None:
    end.links.send(A, SHARD, numbered(1))

    assert end.count("rota_peer_messages_dropped_total", reason="no_link") == 1


async def test_a_link_counts_its_traffic(end: End, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.node.links.link.PING_S", 0.05)
    async with End(A).living() as other:
        acquaint(end, other)
        await until(lambda: other.links.peers == (B,) and end.links.peers == (A,))
        other.links.send(B, SHARD, numbered(1))
        await until(lambda: end.count("rota_peer_round_trip_seconds_count") > 0)

        assert end.received == [(SHARD, A, numbered(1))]
        assert other.count("rota_peer_frames_total", direction="sent") >= 1
        assert end.count("rota_peer_bytes_total", direction="received") > 10
        assert end.count("rota_peer_links") == end.count("rota_peer_links_made_total") == 1


async def test_a_restarted_peer_is_linked_again(end: End) -> None:
    other = End(A)
    async with other.living():
        acquaint(end, other)
        await until(lambda: end.links.peers == (A,))
    await until(lambda: end.links.peers == ())

    async with other.living():
        acquaint(end, other)
        await until(lambda: end.links.peers == (A,) and other.links.peers == (B,))
        end.links.send(A, SHARD, numbered(2))
        await until(lambda: bool(other.received))

    assert other.received == [(SHARD, B, numbered(2))]


async def test_a_restarted_node_is_dialled_again_by_those_with_lower_ids() -> None:
    end, other = End(B), End(A)
    async with other.living():
        async with end.living():
            acquaint(end, other)
            await until(lambda: other.links.peers == (B,))
        await until(lambda: other.links.peers == ())

        async with end.living():
            introduce(end, other)
            await until(lambda: other.links.peers == (B,))


async def test_both_ends_are_notified_when_a_new_link_accepts_messages(end: End) -> None:
    other = End(A)
    sent: list[bool] = []

    def greet(node_id: NodeId) -> None:
        sent.append(node_id in end.links.peers)
        end.links.send(node_id, SHARD, numbered(len(sent)))

    end.greet = greet
    async with other.living():
        acquaint(end, other)
        await until(lambda: len(other.received) == 1)
    await until(lambda: end.links.peers == ())
    async with other.living():
        acquaint(end, other)
        await until(lambda: len(other.received) == 2)

    assert sent == [True, True]
    assert other.received == [(SHARD, B, numbered(1)), (SHARD, B, numbered(2))]
    assert other.linked_nodes == [B, B]


def test_a_node_that_does_not_answer_is_dialled_less_and_less_often_but_not_at_first() -> None:
    longest = [pause_s(failures, draw=0) for failures in range(1, 40)]
    shortest = pause_s(1, draw=(1 << 64) - 1)

    assert longest[:16] == [PAUSE_S] * 16
    assert longest[16:21] == [2 * PAUSE_S, 4 * PAUSE_S, 8 * PAUSE_S, 16 * PAUSE_S, PAUSE_S_MAX]
    assert set(longest[21:]) == {PAUSE_S_MAX}
    assert shortest == pytest.approx(PAUSE_S / 2)


async def test_a_node_at_a_new_address_is_found_there(end: End) -> None:
    async with End(A).living() as other, Wire(end).laid() as wire:
        nowhere = End(B)
        nowhere.port = 1
        introduce(other, nowhere)

        other.links.set_members({A: other.member(), B: end.member(wire.port)})

        await until(lambda: other.links.peers == (B,))


async def test_who_dials_again_has_its_new_link_whatever_became_of_the_old(end: End) -> None:
    async with dialled(end.port) as old, dialled(end.port) as new:
        await greet(old, End(A), end)
        await until(lambda: end.links.peers == (A,))
        await greet(new, End(A), end)
        await hung_up(old)
        end.links.send(A, SHARD, numbered(1))

        frame = frames.decode(await new.receive_bytes())

    assert frame == frames.Batch(items=[(SHARD, numbered(1))])


async def test_who_is_no_member_any_more_is_hung_up_on(end: End) -> None:
    async with End(A).living() as other:
        acquaint(end, other)
        await until(lambda: other.links.peers == (B,))

        other.links.set_members({A: other.member()})

        await until(lambda: other.links.peers == ())


async def test_a_member_that_dialled_is_hung_up_on_when_it_is_none_any_more(
    end: End, caplog: pytest.LogCaptureFixture
) -> None:
    async with dialled(end.port) as socket:
        await greet(socket, End(A), end)
        await until(lambda: end.links.peers == (A,))

        introduce(end)

        await hung_up(socket)
    await until(lambda: end.links.peers == ())

    assert "this node gave up the link" in why_gone(caplog)


async def test_a_record_of_an_earlier_life_is_not_the_own(end: End) -> None:
    async with End(NodeId("c")).living() as other:
        earlier = replace(other.member(), key=b"of an earlier life".ljust(32))
        other.links.set_members({other.id: earlier, A: End(A).member(end.port)})

        async with dialled(other.port) as socket:
            with pytest.raises(NotWelcome, match="not accepted"):
                await greet(socket, End(A), other)


async def test_a_peer_that_takes_a_call_and_says_nothing_is_called_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rota.node.links.link_connector.CONNECT_S", 0.1)
    calls: list[asyncio.StreamWriter] = []

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        calls.append(writer)
        await reader.read()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
        mute = End(B)
        mute.port = server.sockets[0].getsockname()[1]
        async with End(A).living() as other:
            introduce(other, mute)
            await until(lambda: len(calls) >= 2)
        for writer in calls:
            writer.close()


def why_gone(caplog: pytest.LogCaptureFixture) -> str:
    """Return why the only link that was lost was."""
    [logged] = [each for each in caplog.records if each.message == "peer gone"]
    return str(vars(logged)["reason"])


async def hung_up(socket: aiohttp.ClientWebSocketResponse) -> None:
    """Return when the other end has closed."""
    async with asyncio.timeout(10):
        while (await socket.receive()).type is aiohttp.WSMsgType.BINARY:
            pass


@pytest.fixture(autouse=True)
def _logged(caplog: pytest.LogCaptureFixture) -> None:  # pyright: ignore[reportUnusedFunction]
    caplog.set_level(logging.INFO, "rota")
