"""Links under mutual TLS, on the loops of asyncio and of uvloop."""

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import aiohttp
import pytest
import uvloop
from msgspec.structs import replace

from contract.peers.networks import PATIENCE_S, SHARD, A, B, End, introduce, numbered, until
from rota.core.model.certificate_names import tls_name
from rota.core.model.ids import Session
from rota.executor.warden import on_death_requests
from rota.executor.warden.messages import OnDeathRequest
from rota.executor.warden.on_death_requests import post_all
from rota.node.cluster.death_notice import DeathNotice
from rota.node.coordination.prepared_request import PreparedRequest
from rota.node.links import connection_limits
from rota.node.peers.peer_tls import ACCEPT, REQUIRE, PeerTls, dialling
from rota.node.system import tls_files
from rota.node.system.tls_files import TlsFiles, TlsFilesInvalid, read_pem
from support.peer_certificates import PeerAuthority

Story = Callable[[], Coroutine[None, None, None]]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Story], None]:
    """Runs a story on one of the two loops."""
    factory = asyncio.new_event_loop if request.param == "asyncio" else uvloop.new_event_loop

    def run(story: Story) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(story())

    return run


@pytest.fixture
def authority(tmp_path: Path) -> PeerAuthority:
    return PeerAuthority(tmp_path / "certs", "prod")


def end(node_id: str, files: TlsFiles | None, mode: str = REQUIRE) -> End:
    """Return the end of a node with a certificate of its own."""
    made = End(A if node_id == "a" else B)
    made.tls = PeerTls(files, cluster="prod", mode=mode) if files else None
    return made


async def refused(one: End, other: End, *, reason: str) -> None:
    """Wait until *one* has refused a connection of *other* for a reason."""
    await until(lambda: one.count("rota_peer_refused_total", reason=reason) > 0)
    assert not one.linked_nodes
    assert not other.linked_nodes


# -- links ----------------------------------------------------------------------------------------


def test_two_nodes_with_certificates_have_a_link(
    run: Callable[[Story], None], authority: PeerAuthority
) -> None:
    one, other = end("a", authority.node("a")), end("b", authority.node("b"))

    async def story() -> None:
        async with one.living(), other.living():
            introduce(one, other)
            introduce(other, one)
            await until(lambda: bool(one.linked_nodes and other.linked_nodes))
            one.links.send(B, SHARD, numbered(1))
            await until(lambda: other.received == [(SHARD, A, numbered(1))])

    run(story)


def test_a_plain_node_gets_no_link_to_one_that_requires_tls(
    run: Callable[[Story], None], authority: PeerAuthority
) -> None:
    one, other = end("a", None), end("b", authority.node("b"))

    async def story() -> None:
        async with one.living(), other.living():
            introduce(other, one)
            # The record states nothing, as that of an attacker would.
            plain = replace(other.member(), peer_tls="")
            one.links.set_members({A: one.member(), B: plain})
            await refused(other, one, reason="tls")

    run(story)


@pytest.mark.parametrize("stranger", ["authority", "cluster", "node", "client"])
def test_another_certificate_gets_no_link(
    run: Callable[[Story], None], tmp_path: Path, authority: PeerAuthority, stranger: str
) -> None:
    """The process has the key of node a's record, and would prove that without TLS."""
    files = authority.node("b")
    match stranger:
        case "authority":
            forged = PeerAuthority(tmp_path / "other", "prod").node("a")
            forged = forged._replace(authority=authority.certificate)
        case "cluster":
            # The authority of two clusters: the node of the other one has the same id.
            forged = authority.node_of_cluster("staging", "a")
        case "node":
            forged = authority.node("c")
        case _:
            forged = authority.client("a")
    one, other = end("a", forged), end("b", files)

    async def story() -> None:
        async with one.living(), other.living():
            introduce(one, other)
            introduce(other, one)
            await refused(other, one, reason="tls" if stranger == "authority" else "unproven")

    run(story)


@pytest.mark.parametrize("stranger", ["node", "cluster"])
def test_an_answerer_with_another_certificate_gets_no_link(
    run: Callable[[Story], None], authority: PeerAuthority, stranger: str
) -> None:
    is_node = stranger == "node"
    forged = authority.node("c") if is_node else authority.node_of_cluster("staging", "b")
    one, other = end("a", authority.node("a")), end("b", forged)

    async def story() -> None:
        async with one.living(), other.living():
            introduce(one, other)
            introduce(other, one)
            # The dialler ends the connection after, or during, the handshake of TLS.
            kind = "tls" if is_node else "unproven"
            await refused(other, one, reason=kind)

    run(story)


@pytest.mark.parametrize(
    ("stranger", "reason"),
    [
        ("authority", "the certificate is refused: "),
        ("plain", "the handshake of TLS failed: HTTP_REQUEST"),
        ("silent", "the other end closed the connection"),
    ],
)
def test_the_log_has_the_reason_of_a_refused_handshake(
    run: Callable[[Story], None],
    tmp_path: Path,
    authority: PeerAuthority,
    caplog: pytest.LogCaptureFixture,
    stranger: str,
    reason: str,
) -> None:
    other = end("b", authority.node("b"))
    files = PeerAuthority(tmp_path / "other", "prod").node("a")
    one = end("a", files._replace(authority=authority.certificate))

    async def story() -> None:
        async with other.living():
            if stranger == "authority":
                (await connected(one, other)).close()
            else:
                _, writer = await asyncio.open_connection("127.0.0.1", other.port)
                writer.write(b"GET / HTTP/1.1\r\n\r\n" if stranger == "plain" else b"")
                writer.close()
            await until(lambda: other.count("rota_peer_refused_total", reason="tls") == 1)
            [line] = [each for each in caplog.records if each.msg == "peer refused"]
            assert reason in str(vars(line)["reason"])

    run(story)


def test_an_added_authority_is_trusted_without_a_restart(
    run: Callable[[Story], None], tmp_path: Path, authority: PeerAuthority
) -> None:
    new, files = PeerAuthority(tmp_path / "new", "prod"), authority.node("b")
    both = tmp_path / "both.crt"
    both.write_bytes(authority.certificate.read_bytes() + new.certificate.read_bytes())
    one = end("a", new.node("a")._replace(authority=both))
    other = end("b", files)

    async def story() -> None:
        assert other.tls is not None
        async with one.living(), other.living():
            authority.certificate.write_bytes(both.read_bytes())
            other.tls.live.replace(read_pem(files))
            introduce(one, other)
            introduce(other, one)
            await until(lambda: bool(one.linked_nodes and other.linked_nodes))

    run(story)


def test_a_certificate_without_a_record_gets_no_link(
    run: Callable[[Story], None], authority: PeerAuthority
) -> None:
    one, other = end("a", authority.node("a")), end("b", authority.node("b"))

    async def story() -> None:
        async with one.living(), other.living():
            introduce(one, other)
            introduce(other)
            await refused(other, one, reason="unproven")

    run(story)


# -- a change to TLS ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dialler", "answerer"),
    [(None, ACCEPT), (ACCEPT, None), (ACCEPT, ACCEPT), (ACCEPT, REQUIRE), (REQUIRE, ACCEPT)],
)
def test_nodes_before_and_after_a_change_have_links(
    run: Callable[[Story], None],
    authority: PeerAuthority,
    dialler: str | None,
    answerer: str | None,
) -> None:
    one = end("a", authority.node("a") if dialler else None, dialler or REQUIRE)
    other = end("b", authority.node("b") if answerer else None, answerer or REQUIRE)

    async def story() -> None:
        async with one.living(), other.living():
            introduce(one, other)
            introduce(other, one)
            await until(lambda: bool(one.linked_nodes and other.linked_nodes))

    run(story)


@pytest.mark.parametrize(
    ("own", "of_member", "origin"),
    [
        (None, "", "http"),
        (None, ACCEPT, "http"),
        (None, REQUIRE, "sets no certificate"),
        (ACCEPT, "", "http"),
        (ACCEPT, ACCEPT, "https"),
        (ACCEPT, REQUIRE, "https"),
        (REQUIRE, "", "serves no TLS"),
        (REQUIRE, ACCEPT, "https"),
        (REQUIRE, REQUIRE, "https"),
    ],
)
def test_the_record_of_a_member_states_how_it_is_dialled(
    authority: PeerAuthority, own: str | None, of_member: str, origin: str
) -> None:
    tls = PeerTls(authority.node("a"), cluster="prod", mode=own) if own else None
    member = replace(End(B).member(), peer_tls=of_member)

    if " " in origin:
        with pytest.raises(OSError, match="TLS"):
            dialling(tls, member)
    else:
        way = dialling(tls, member)
        assert way.origin.startswith(f"{origin}://")
        assert way.server_hostname == (tls_name(B) if origin == "https" else None)


# -- limits ---------------------------------------------------------------------------------------


def test_connections_in_a_handshake_count_as_strangers(
    run: Callable[[Story], None], authority: PeerAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_limits, "STRANGERS_PER_ADDRESS_MAX", 3)
    monkeypatch.setattr(connection_limits, "STRANGER_S", 0.3)
    one = end("b", authority.node("b"))

    async def story() -> None:
        async with one.living(), AsyncExitStack() as stack:
            for _ in range(5):
                _, writer = await asyncio.open_connection("127.0.0.1", one.port)
                stack.callback(writer.close)
            await until(lambda: one.count("rota_peer_refused_total", reason="connections") == 2)
            await until(lambda: one.count("rota_peer_refused_total", reason="time") == 3)
            assert one.links.stranger_count == 0

    run(story)


def test_connections_after_a_handshake_count_once(
    run: Callable[[Story], None], authority: PeerAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_limits, "STRANGERS_PER_ADDRESS_MAX", 3)
    one, other = end("a", authority.node("a")), end("b", authority.node("b"))

    async def story() -> None:
        async with other.living(), AsyncExitStack() as stack:
            for writer in await asyncio.gather(*(connected(one, other) for _ in range(3))):
                stack.callback(writer.close)
            await until(lambda: other.links.stranger_count == 3)
            assert other.count("rota_peer_refused_total", reason="connections") == 0

            _, writer = await asyncio.open_connection("127.0.0.1", other.port)
            stack.callback(writer.close)
            await until(lambda: other.count("rota_peer_refused_total", reason="connections") == 1)

    run(story)


def test_the_time_limit_begins_before_the_handshake(
    run: Callable[[Story], None], authority: PeerAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = end("a", authority.node("a")), end("b", authority.node("b"))
    monkeypatch.setattr(connection_limits, "STRANGER_S", 1.0)

    async def story() -> None:
        assert one.tls is not None
        async with other.living():
            with socket.create_connection(("127.0.0.1", other.port)) as waiting:
                await until(lambda: other.links.stranger_count == 1)
                monkeypatch.setattr(connection_limits, "STRANGER_S", 1_000.0)
                reader, writer = await asyncio.open_connection(
                    sock=waiting, ssl=one.tls.client, server_hostname=tls_name(B)
                )
                async with asyncio.timeout(PATIENCE_S):
                    with suppress(ConnectionError):
                        assert await reader.read() == b""
                await until(lambda: other.count("rota_peer_refused_total", reason="time") == 1)
                writer.close()

    run(story)


@pytest.mark.parametrize("mode", [ACCEPT, REQUIRE])
@pytest.mark.parametrize("sent", [b"", b"\x16", b"\x16\x03\x01\xff\xff" + b"x" * 70_000, b"\x00"])
def test_strange_bytes_end_one_connection_alone(
    run: Callable[[Story], None], authority: PeerAuthority, mode: str, sent: bytes
) -> None:
    one, other = end("a", authority.node("a"), mode), end("b", authority.node("b"), mode)

    async def story() -> None:
        async with one.living(), other.living():
            with socket.create_connection(("127.0.0.1", other.port)) as strange:
                strange.sendall(sent)
            with socket.create_connection(("127.0.0.1", other.port)) as reset:
                reset.sendall(sent)
                reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            introduce(one, other)
            introduce(other, one)
            await until(lambda: bool(one.linked_nodes and other.linked_nodes))
            await until(lambda: other.links.stranger_count == 0)

    run(story)


def test_only_tls_1_3_is_served(run: Callable[[Story], None], authority: PeerAuthority) -> None:
    one = end("b", authority.node("b"))
    old = ssl.create_default_context(cafile=str(authority.certificate))
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    old.load_cert_chain(*authority.node("a")[:2])

    async def story() -> None:
        async with one.living(), aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientError):
                await session.get(
                    f"https://127.0.0.1:{one.port}/", ssl=old, server_hostname=tls_name(B)
                )

    run(story)


# -- renewal --------------------------------------------------------------------------------------


def test_a_renewed_certificate_is_used_without_a_lost_link(
    run: Callable[[Story], None], authority: PeerAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_files, "LOOK_S", 0.02)
    one, other = end("a", authority.node("a")), end("b", authority.node("b"))

    async def story() -> None:
        async with one.living(), other.living():
            introduce(one, other)
            introduce(other, one)
            await until(lambda: bool(one.linked_nodes and other.linked_nodes))
            before = await shown(other, one)
            authority.renew("b", has_new_key=True)
            async with asyncio.timeout(10):
                while await shown(other, one) == before:  # noqa: ASYNC110 - of a file
                    await asyncio.sleep(0.02)
            assert (len(one.linked_nodes), len(other.linked_nodes)) == (1, 1)

    run(story)


# -- proofs of death ------------------------------------------------------------------------------


class KeepingWarden:
    """Keeps the requests that it has, as a warden does."""

    def __init__(self) -> None:
        self.requests: tuple[OnDeathRequest, ...] = ()

    def set_on_death(self, *requests: OnDeathRequest) -> None:
        """Replace the requests."""
        self.requests = requests


def proof_of(one: End, other: End) -> OnDeathRequest:
    """Return the request with which the warden of a node reports its end to another."""
    warden = KeepingWarden()
    notice = DeathNotice(
        warden,
        lambda session: PreparedRequest(urls=("http://etcd",), body=b"", headers={}),
        cluster="c",
        node_id=one.id,
        secret=one.secret,
        tls=one.tls,
    )
    notice.begin_session(Session("s1"))
    notice.set_members({each.id: each.member() for each in (one, other)})
    return warden.requests[1]


@pytest.mark.parametrize("mode", [ACCEPT, REQUIRE])
def test_a_warden_proves_the_end_of_its_process_with_the_files_of_the_moment(
    run: Callable[[Story], None], authority: PeerAuthority, mode: str
) -> None:
    one, other = end("a", authority.node("a"), mode), end("b", authority.node("b"), mode)

    async def story() -> None:
        async with one.living(), other.living():
            introduce(one, other)
            introduce(other, one)
            await until(lambda: bool(other.linked_nodes))
            request = proof_of(one, other)
            authority.renew("a", has_new_key=True)
            await post_all([request])
            assert other.deaths == [(A, "s1")]

    run(story)


def test_a_warden_sends_no_proof_to_another_node_at_the_address(
    run: Callable[[Story], None], authority: PeerAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_death_requests, "WITHIN_S", 0.5)
    one, other = end("a", authority.node("a")), end("b", authority.node("c"))

    async def story() -> None:
        async with other.living():
            await post_all([proof_of(one, other)])
            assert other.count("rota_peer_refused_total", reason="unproven") == 0
            assert not other.deaths

    run(story)


async def connected(one: End, other: End) -> asyncio.StreamWriter:
    """Connect a node to another, without a request; return the connection."""
    assert one.tls is not None
    _, writer = await asyncio.open_connection(
        "127.0.0.1", other.port, ssl=one.tls.client, server_hostname=tls_name(other.id)
    )
    return writer


async def shown(one: End, other: End) -> bytes:
    """Return the certificate that a node shows to another."""
    writer = await connected(other, one)
    try:
        return bytes(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
    finally:
        writer.close()


@pytest.mark.parametrize(
    "damage", ["empty", "no certificate", "another certificate", "another key", "gone"]
)
def test_a_broken_new_file_leaves_the_old_certificate_in_use(
    run: Callable[[Story], None], authority: PeerAuthority, damage: str
) -> None:
    files = authority.node("b")
    one, other = end("a", authority.node("a")), end("b", files)
    assert other.tls is not None
    match damage:
        case "empty":
            files.certificate.write_bytes(b"")
        case "no certificate":
            files.certificate.write_bytes(b"-----BEGIN CERTIFICATE-----\nAAAA\n")
        case "another certificate":  # OpenSSL drops the key of a context that gets this one.
            files.certificate.write_bytes(authority.node("c").certificate.read_bytes())
        case "another key":
            files.key.write_bytes(authority.node("c").key.read_bytes())
        case _:
            files.key.unlink()

    async def story() -> None:
        assert other.tls is not None
        with pytest.raises(TlsFilesInvalid, match=r"b\.(crt|key)|no certificate"):
            other.tls.live.replace(read_pem(files))
        async with one.living(), other.living():
            introduce(one, other)
            introduce(other, one)
            await until(lambda: bool(one.linked_nodes and other.linked_nodes))

    run(story)
