"""Which processes get a link, and what the others learn: nothing."""

import logging
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from contract.peers.networks import A, B, End, acquaint, dialled, greet, introduce, until
from rota.core.model.ids import NodeId
from rota.node.coordination.coordinator import Member
from rota.node.links import handshake_messages
from rota.node.links.handshake_messages import (
    Hello,
    HelloResponse,
    NotWelcome,
    Versions,
    common_version,
)
from rota.node.links.identity_proof import (
    ANSWERS,
    DIALS,
    FirstWords,
    PeerCredentials,
    is_proven,
    prove,
)

C = NodeId("c")
KEY = bytes(range(32))
NONCE = b"n" * 32
WORDS = FirstWords(b"first word of the dialler", b"first word of the answerer")


def a_hello(
    versions: Versions = handshake_messages.SPOKEN, *, node_id: NodeId = A, wants: NodeId = B
) -> Hello:
    return Hello(versions=versions, node_id=node_id, wants=wants, life="1", nonce=NONCE)


@pytest.fixture
async def end() -> AsyncGenerator[End]:
    """Node b, with the records of nodes a and b."""
    async with End(B).living() as end:
        introduce(end, End(A))
        yield end


@pytest.fixture(autouse=True)
def _logged(caplog: pytest.LogCaptureFixture) -> None:  # pyright: ignore[reportUnusedFunction]
    caplog.set_level(logging.INFO, "rota")


# -- versions --------------------------------------------------------------------------------------


def test_a_node_accepts_the_release_before_and_the_one_after() -> None:
    before, now, after = (Versions(n - 1, n) for n in (4, 5, 6))

    assert common_version(now, now) == 5
    assert common_version(now, before) == common_version(before, now) == 4
    assert common_version(now, after) == common_version(after, now) == 5


def test_two_releases_apart_is_too_far() -> None:
    old, new = Versions(3, 4), Versions(5, 6)

    for ours, theirs in ((old, new), (new, old)):
        with pytest.raises(NotWelcome, match=r"until release 0\.2, upgrade all nodes"):
            common_version(ours, theirs)


def test_a_field_that_a_later_release_adds_is_ignored() -> None:
    fields = msgspec.to_builtins(a_hello()) | {"type": "hello", "moods": ["good"], "nonce": NONCE}

    assert handshake_messages.decode(msgspec.msgpack.encode(fields)) == a_hello()


@pytest.mark.parametrize(
    "odd",
    [
        {"moods": "x" * handshake_messages.WORD_BYTES_MAX},
        {"nonce": NONCE[1:]},
        {"nonce": NONCE + b"1"},
        {"node_id": "a" * (handshake_messages.ID_LENGTH_MAX + 1)},
        {"life": "1" * (handshake_messages.ID_LENGTH_MAX + 1)},
    ],
    ids=["long word", "short nonce", "long nonce", "long id", "long life"],
)
def test_a_first_word_that_no_node_sends_is_refused(odd: dict[str, object]) -> None:
    fields = msgspec.to_builtins(a_hello()) | {"type": "hello", "nonce": NONCE} | odd

    with pytest.raises(handshake_messages.NotProven):
        handshake_messages.decode(msgspec.msgpack.encode(fields))


def test_no_version_is_read_from_a_word_that_is_too_long() -> None:
    word = msgspec.msgpack.encode({"versions": [90, 91], "moods": "x" * 2_000})

    handshake_messages.check_versions(word)

    with pytest.raises(NotWelcome, match="a word of the handshake has 2"):
        handshake_messages.decode(word)


def test_the_reason_of_a_refusal_is_cut_to_what_the_other_end_reads() -> None:
    refusal = NotWelcome("x" * 10_000)

    word = handshake_messages.encode(handshake_messages.Refusal(reason=refusal.sent_reason))

    with pytest.raises(NotWelcome, match="the other end refuses: xxx"):
        handshake_messages.decode(word)


# -- proofs ----------------------------------------------------------------------------------------


def credentials(**fields: object) -> PeerCredentials:
    own = PeerCredentials(cluster="c", node_id=A, store_id="s", life="1", key=KEY)
    return msgspec.structs.replace(own, **fields)


RECORD = Member(node_id=A, store_id="s", address="", key=KEY)


def test_a_proof_is_accepted_for_what_it_was_made_for() -> None:
    proof = prove(credentials(), DIALS, WORDS)

    assert is_proven(proof, RECORD, "c", role=DIALS, words=WORDS)


@pytest.mark.parametrize(
    "made_by",
    [
        lambda: prove(credentials(key=bytes(32)), DIALS, WORDS),
        lambda: prove(credentials(store_id="t"), DIALS, WORDS),
        lambda: prove(credentials(cluster="d"), DIALS, WORDS),
        lambda: prove(credentials(), ANSWERS, WORDS),
        lambda: prove(credentials(), DIALS, FirstWords(b"another", WORDS.answerer)),
        lambda: prove(credentials(), DIALS, FirstWords(WORDS.dialler, b"another")),
        lambda: prove(credentials(), DIALS, FirstWords(WORDS.dialler + b"f", WORDS.answerer[1:])),
        lambda: prove(credentials(), DIALS, WORDS)[:16],
        lambda: b"",
    ],
    ids=[
        *("key", "data directory", "cluster", "role", "dialler's word", "answerer's word"),
        *("boundary", "cut", "empty"),
    ],
)
def test_a_proof_made_for_anything_else_is_not_accepted(made_by: Callable[[], bytes]) -> None:
    assert not is_proven(made_by(), RECORD, "c", role=DIALS, words=WORDS)


@pytest.mark.parametrize("key", [b"", b"short", bytes(33)])
def test_a_record_without_a_whole_key_proves_nothing(key: bytes) -> None:
    proof = prove(credentials(key=key), DIALS, WORDS)
    record = msgspec.structs.replace(RECORD, key=key)

    assert not is_proven(proof, record, "c", role=DIALS, words=WORDS)


@pytest.mark.parametrize("shown", [credentials(), RECORD], ids=["credentials", "record"])
def test_a_key_is_not_in_what_is_printed(shown: object) -> None:
    assert repr(KEY)[2:-1] not in repr(shown)
    assert repr(KEY)[2:-1] not in f"{[shown]}"


# -- refusals --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stranger:
    """A process that is no member, and the reason of its refusal in this node's log."""

    end: Callable[[], End]
    why: str


def with_key(end: End, key: bytes) -> End:
    end.credentials = msgspec.structs.replace(end.credentials, key=key)
    return end


UNPROVEN = "'a' has not proven that it has"
STRANGERS = {
    "with all ids but a wrong key": Stranger(
        lambda: with_key(End(A), b"guessed".ljust(32)), UNPROVEN
    ),
    "with an empty key": Stranger(lambda: with_key(End(A), b""), UNPROVEN),
    "of another cluster": Stranger(lambda: End(A, cluster="other"), UNPROVEN),
    "with another data directory": Stranger(lambda: End(A, store_id="a new one"), UNPROVEN),
    "without a record": Stranger(lambda: End(NodeId("0")), "no current record of '0'"),
    "that calls itself like the node": Stranger(lambda: End(B), "no current record of 'b'"),
}


@pytest.mark.parametrize("stranger", STRANGERS.values(), ids=STRANGERS)
async def test_a_stranger_gets_no_link_and_learns_nothing(
    stranger: Stranger, end: End, caplog: pytest.LogCaptureFixture
) -> None:
    async with dialled(end.port) as socket:
        with pytest.raises(NotWelcome) as refusal:
            await greet(socket, stranger.end(), end)

    reason = str(refusal.value)
    assert "not accepted" in reason
    assert not any(name in reason for name in ("'a'", "'b'", "store", " c "))
    assert end.links.peers == ()
    assert end.linked_nodes == []
    [logged] = [each for each in caplog.records if each.message == "peer refused"]
    assert stranger.why in vars(logged)["reason"]
    assert end.count("rota_peer_refused_total", reason="unproven") == 1


async def test_the_answer_to_a_first_word_names_nothing(end: End) -> None:
    async with dialled(end.port) as socket:
        await socket.send_bytes(handshake_messages.encode(a_hello()))
        answered = await socket.receive_bytes()

    fields = msgspec.msgpack.decode(answered)
    assert set(fields) == {"type", "versions", "life", "nonce"}


async def test_a_proof_that_was_overheard_is_not_accepted_again(end: End) -> None:
    one = End(A)
    async with dialled(end.port) as socket:
        first = handshake_messages.encode(
            Hello(
                versions=handshake_messages.SPOKEN,
                node_id=A,
                wants=B,
                life=one.credentials.life,
                nonce=NONCE,
            )
        )
        await socket.send_bytes(first)
        words = FirstWords(first, await socket.receive_bytes())
        proof = handshake_messages.encode(
            handshake_messages.Proof(mac=prove(one.credentials, DIALS, words))
        )
        await socket.send_bytes(proof)
        assert isinstance(
            handshake_messages.decode(await socket.receive_bytes()), handshake_messages.Proof
        )

    async with dialled(end.port) as socket:
        await socket.send_bytes(first)
        await socket.receive_bytes()
        await socket.send_bytes(proof)
        answered = await socket.receive_bytes()

    with pytest.raises(NotWelcome, match="not accepted"):
        handshake_messages.decode(answered)


@dataclass(frozen=True)
class Odd:
    """A member that is refused all the same, and the reason that it is given."""

    says: Callable[[], Hello]
    why: str


ODD = {
    "looks for another node": Odd(lambda: a_hello(wants=C), "a wants c, but this is b"),
    "is to be dialled": Odd(lambda: a_hello(node_id=C), "b dials c, never the reverse"),
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
async def test_a_member_is_given_the_reason_for_which_it_is_refused(odd: Odd, end: End) -> None:
    introduce(end, End(A), End(C))
    said = odd.says()

    async with dialled(end.port) as socket:
        await socket.send_bytes(handshake_messages.encode(said))
        words = FirstWords(handshake_messages.encode(said), await socket.receive_bytes())
        mac = prove(End(said.node_id).credentials, DIALS, words)
        await socket.send_bytes(handshake_messages.encode(handshake_messages.Proof(mac=mac)))
        answered = await socket.receive_bytes()

    with pytest.raises(NotWelcome, match=odd.why):
        handshake_messages.decode(answered)
    assert end.links.peers == ()
    assert end.count("rota_peer_refused_total", reason="disagreed") == 1


OF_VERSION_1 = {
    "type": "hello",
    "versions": [1, 1],
    "cluster": "c",
    "node_id": "a",
    "store_id": "s",
    "life": "1",
    "wants": "b",
}
OF_VERSION_9 = {"type": "hello", "versions": [8, 9], "moods": ["good"]}


@pytest.mark.parametrize(
    ("word", "theirs"),
    [
        (OF_VERSION_1, "1 to 1"),
        (OF_VERSION_9, "8 to 9"),
        (msgspec.to_builtins(a_hello()) | {"versions": [8, 9], "nonce": NONCE}, "8 to 9"),
    ],
    ids=["version 1", "version 9", "version 9 in the form of this one"],
)
async def test_a_first_word_of_another_version_is_refused_for_the_version(
    word: dict[str, object], theirs: str, end: End, caplog: pytest.LogCaptureFixture
) -> None:
    ours = "{} to {}".format(*handshake_messages.SPOKEN)

    async with dialled(end.port) as socket:
        await socket.send_bytes(msgspec.msgpack.encode(word))
        answered = await socket.receive_bytes()

    with pytest.raises(NotWelcome) as refusal:
        handshake_messages.decode(answered)
    assert f"the refusing node supports versions {ours} of" in str(refusal.value)
    assert f"the refused node {theirs}: until" in str(refusal.value)
    assert end.count("rota_peer_refused_total", reason="disagreed") == 1
    [logged] = [each for each in caplog.records if each.message == "peer refused"]
    assert f"the other node supports versions {theirs} of" in vars(logged)["reason"]


async def test_a_dialler_refuses_an_answer_of_another_version_and_sends_the_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    came: list[bytes] = []

    async def listen(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive_bytes()
        await socket.send_bytes(msgspec.msgpack.encode(OF_VERSION_1))
        came.append(await socket.receive_bytes())
        await socket.receive()
        return socket

    app = web.Application()
    app.router.add_get("/peer", listen)
    async with TestServer(app) as server, End(A).living() as one:
        there = msgspec.structs.replace(
            End(B).member(), peer_address=server.make_url("/").authority
        )
        one.links.set_members({A: one.member(), B: there})
        await until(lambda: bool(came) and "peer not reached" in caplog.messages)

    with pytest.raises(
        NotWelcome, match=r"the refused node 1 to 1: until release 0\.2, upgrade all nodes"
    ):
        handshake_messages.decode(came[0])
    logged = next(each for each in caplog.records if each.message == "peer not reached")
    assert "the other node supports versions 1 to 1 of the wire protocol" in vars(logged)["reason"]


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\xc1",
        b"x" * 2_000,
        msgspec.msgpack.encode({"type": "batch"}),
        msgspec.msgpack.encode([0, []]),
        handshake_messages.encode(
            HelloResponse(versions=handshake_messages.SPOKEN, life="", nonce=NONCE)
        ),
        msgspec.msgpack.encode({"type": "hello", "nonce": b"short"}),
    ],
)
async def test_garbage_in_the_place_of_a_first_word_is_refused(garbage: bytes, end: End) -> None:
    async with dialled(end.port) as socket:
        await socket.send_bytes(garbage)
        answered = await socket.receive_bytes()

    with pytest.raises(NotWelcome, match="not accepted"):
        handshake_messages.decode(answered)


async def test_a_stranger_that_sends_nothing_is_refused_after_a_while(
    end: End, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.node.links.handshake.WORD_S", 0.05)

    async with dialled(end.port) as socket:
        answered = await socket.receive_bytes()

    with pytest.raises(NotWelcome, match="not accepted"):
        handshake_messages.decode(answered)


# -- who is dialled --------------------------------------------------------------------------------


async def test_an_impostor_at_a_members_address_gets_no_link(
    caplog: pytest.LogCaptureFixture,
) -> None:
    impostor = with_key(End(B), b"guessed".ljust(32))
    async with End(A).living() as one, impostor.living():
        introduce(impostor, one)
        one.links.set_members({A: one.member(), B: End(B).member(impostor.port)})
        await until(lambda: "peer not reached" in caplog.messages)

        assert one.links.peers == ()
        assert one.linked_nodes == []
    [logged] = [each for each in caplog.records if each.message == "peer not reached"]
    assert "has not proven that it is that node" in vars(logged)["reason"]


async def test_a_dialler_shows_an_impostor_no_more_than_the_two_node_ids() -> None:
    came: list[bytes] = []

    async def listen(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        came.append(await socket.receive_bytes())
        await socket.send_bytes(
            handshake_messages.encode(
                HelloResponse(versions=handshake_messages.SPOKEN, life="1", nonce=NONCE)
            )
        )
        came.append(await socket.receive_bytes())
        await socket.send_bytes(handshake_messages.encode(handshake_messages.Proof(mac=bytes(32))))
        await socket.receive()
        return socket

    app = web.Application()
    app.router.add_get("/peer", listen)
    async with TestServer(app) as server, End(A).living() as one:
        there = msgspec.structs.replace(
            End(B).member(), peer_address=server.make_url("/").authority
        )
        one.links.set_members({A: one.member(), B: there})
        await until(lambda: len(came) >= 2)

        assert one.links.peers == ()
    greeted, proof = came[:2]
    assert set(msgspec.msgpack.decode(greeted)) == {
        *("type", "versions", "node_id", "wants", "life", "nonce"),
    }
    assert set(msgspec.msgpack.decode(proof)) == {"type", "mac"}


async def test_the_operator_learns_whose_address_it_is(caplog: pytest.LogCaptureFixture) -> None:
    async with End(A).living() as one, End(C).living() as third:
        introduce(third, one)
        one.links.set_members({A: one.member(), B: End(B).member(third.port)})
        await until(lambda: "peer not reached" in caplog.messages)

    [logged] = [each for each in caplog.records if each.message == "peer not reached"]
    assert "a wants b, but this is c" in vars(logged)["reason"]


# -- records and lives -----------------------------------------------------------------------------


async def test_a_node_without_a_record_of_its_own_neither_dials_nor_is_accepted() -> None:
    async with End(A).living() as one, End(B).living() as other:
        introduce(other, one)
        one.links.set_members({B: other.member()})
        async with dialled(one.port) as socket:
            with pytest.raises(NotWelcome):
                await greet(socket, with_key(End(NodeId("0")), KEY), one)
        assert (one.links.peers, other.count("rota_peer_refused_total")) == ((), 0)

        introduce(one, other)

        await until(lambda: one.links.peers == (B,))


async def test_a_new_life_is_linked_as_soon_as_its_record_has_arrived() -> None:
    async with End(A).living() as one:
        earlier = End(B)
        async with earlier.living():
            acquaint(one, earlier)
            await until(lambda: one.links.peers == (B,))
        later = with_key(End(B), KEY)
        later.port = earlier.port
        async with later.living():
            introduce(later, one)
            await until(lambda: one.links.peers == () and later.links.peers == ())

            introduce(one, later)

            await until(lambda: one.links.peers == (B,) and later.links.peers == (A,))


async def test_a_key_of_an_earlier_life_is_not_accepted(end: End) -> None:
    newer = with_key(End(A), KEY)
    introduce(end, newer)

    async with dialled(end.port) as socket:
        with pytest.raises(NotWelcome, match="not accepted"):
            await greet(socket, End(A), end)

    assert end.links.peers == ()
