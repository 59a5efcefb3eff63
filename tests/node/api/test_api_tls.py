"""The API with TLS: certificates of the node and of clients, limits, and renewal."""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientConnectorCertificateError, ClientError, ClientSession

from rota.client.certificates.issuing import load_certificate
from rota.core.timing.instants import DAY, Duration, format_instant, from_datetime
from rota.node.api.app import make_app
from rota.node.api.http import api_tls
from rota.node.api.http.api_tls import ApiTls
from rota.node.api.http.server import serving
from rota.node.runtime.certificate_metrics import measure_certificates
from rota.node.system.clock import SystemClock
from rota.node.system.metrics import Metrics
from rota.node.system.tls_files import TlsFiles, TlsFilesInvalid, api_context, read_pem
from support.access_client import API, Access, ShiftedClock, access_to, metric
from support.in_process import until
from support.peer_certificates import PeerAuthority

WHOAMI = f"{API}/whoami"


@pytest.fixture
def authority(tmp_path: Path) -> PeerAuthority:
    return PeerAuthority(tmp_path / "certs")


class Secured:
    """A node whose API has TLS, and its callers.

    Args:
        access: The same node without TLS.
        url: The URL with TLS.
        tls: TLS of the node.
        authority: The authority that clients trust.
    """

    def __init__(self, access: Access, url: str, tls: ApiTls, authority: PeerAuthority) -> None:
        self.access = access
        self.url = url
        self.tls = tls
        self.port = int(url.rpartition(":")[2])
        self.metrics = Metrics()
        self._authority = authority

    def trusting(self, client: TlsFiles | None = None) -> ssl.SSLContext:
        """Return the context of a client, with a certificate if one is given."""
        context = ssl.create_default_context(cafile=self._authority.certificate)
        if client is not None:
            context.load_cert_chain(client.certificate, client.key)
        return context

    async def get(self, path: str, client: TlsFiles | None = None) -> tuple[int, Any]:
        """Return status and document of an answer."""
        async with (
            ClientSession() as session,
            session.get(self.url + path, ssl=self.trusting(client)) as answer,
        ):
            return answer.status, await answer.json(content_type=None)

    def closed(self, reason: str) -> float:
        """Return how many connections the node has closed for a reason."""
        return self.metric(f'rota_http_connections_closed_total{{reason="{reason}"}}')

    def metric(self, name: str) -> float:
        """Return the value of a metric; 0 if there is none."""
        return metric(self.metrics, name)


@asynccontextmanager
async def secured(
    folder: Path,
    authority: PeerAuthority,
    *,
    has_clients: bool = True,
    clock: ShiftedClock | None = None,
    **settings: Any,
) -> AsyncGenerator[Secured]:
    """Serve the API of a node that requires keys, with TLS."""
    files = authority.node("n", "127.0.0.1")
    if not has_clients:
        files = files._replace(authority=None)
    async with access_to(folder / "data", clock=clock) as access:
        await access.init()
        context, tls = replace(access.wiring.context, metrics=Metrics()), ApiTls(files)
        config = replace(context.config, data_dir=folder / "other", **settings)
        config.data_dir.mkdir()
        app = make_app(context, lambda: 1)
        async with serving(app, config, context.metrics, tls=tls) as address:
            secured = Secured(access, f"https://{address}", tls, authority)
            secured.metrics = context.metrics
            yield secured


async def test_a_client_that_trusts_the_authority_gets_an_answer(
    tmp_path: Path, authority: PeerAuthority
) -> None:
    async with secured(tmp_path, authority) as node:
        status, problem = await node.get(WHOAMI)

    assert (status, problem["code"]) == (401, "unauthenticated")


async def test_a_client_of_another_authority_refuses_the_node(
    tmp_path: Path, authority: PeerAuthority
) -> None:
    async with secured(tmp_path, authority) as node, ClientSession() as session:
        with pytest.raises(ClientConnectorCertificateError):
            await session.get(node.url)
        await until(lambda: node.closed("tls") == 1)


def test_old_versions_of_tls_are_refused() -> None:
    for may_have_certificates in (False, True):
        context = api_context(may_have_certificates=may_have_certificates)
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2


async def test_a_request_without_tls_is_refused(tmp_path: Path, authority: PeerAuthority) -> None:
    async with secured(tmp_path, authority) as node, ClientSession() as session:
        with pytest.raises(ClientError):
            await session.get(node.url.replace("https:", "http:"))
        await until(lambda: node.closed("tls") > 0)


# -- certificates of clients -----------------------------------------------------------------------


async def test_a_certificate_is_a_credential(tmp_path: Path, authority: PeerAuthority) -> None:
    alice = authority.client("alice")
    async with secured(tmp_path, authority) as node:
        before, _ = await node.get(f"{API}/keys", alice)
        binding = {"subject": "cert:alice", "role": "cluster-admin", "namespaces": ["*"]}
        path = f"{API}/bindings/alice"
        made, _ = await node.access.call(node.access.admin, "PUT", path, binding)
        after, _ = await node.get(f"{API}/keys", alice)
        _, found = await node.get(WHOAMI, alice)

    assert (before, made, after) == (403, 201, 200)
    assert found["principal"] == "cert:alice"


async def test_a_caller_sees_when_its_certificate_or_its_token_ends(
    tmp_path: Path, authority: PeerAuthority
) -> None:
    alice = authority.client("alice")
    certificate = load_certificate(alice.certificate.read_bytes())
    ends_at = format_instant(from_datetime(certificate.not_valid_after_utc))
    async with secured(tmp_path, authority) as node, ClientSession() as session:
        ends: list[str] = []
        short = await node.access.key("short", expiresIn="1h")
        for token in (None, node.access.admin, short):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            tls = node.trusting(alice)
            async with session.get(node.url + WHOAMI, headers=headers, ssl=tls) as answer:
                ends.append((await answer.json())["expiresAt"])

    assert ends[:2] == [ends_at, ends_at]
    assert ends[2] < ends_at


async def test_a_certificate_that_has_expired_since_the_handshake_is_none(
    tmp_path: Path, authority: PeerAuthority
) -> None:
    clock, alice = ShiftedClock(), authority.client("alice")
    async with (
        secured(tmp_path, authority, clock=clock) as node,
        ClientSession() as session,
    ):
        tls = node.trusting(alice)
        async with session.get(node.url + WHOAMI, ssl=tls) as before:
            assert before.status == 200
        clock.shift = Duration(400 * DAY)
        async with session.get(node.url + WHOAMI, ssl=tls) as after:
            assert after.status == 401


async def test_a_certificate_that_has_expired_is_none_in_a_resumed_session_of_tls_1_2(
    tmp_path: Path, authority: PeerAuthority
) -> None:
    """OpenSSL resumes such a session by its id, without the certificate and its check."""
    clock, alice = ShiftedClock(), authority.client("alice")
    async with secured(tmp_path, authority, clock=clock) as node:
        tls = node.trusting(alice)
        tls.maximum_version = ssl.TLSVersion.TLSv1_2
        first, session = await asyncio.to_thread(status_of, tls, node.port, None)
        clock.shift = Duration(400 * DAY)

        status, _ = await asyncio.to_thread(status_of, tls, node.port, session)

    assert (first, status) == (b"200", b"401")


def status_of(
    tls: ssl.SSLContext, port: int, session: ssl.SSLSession | None
) -> tuple[bytes, ssl.SSLSession | None]:
    """Return the status of a request and the session, which resumes *session* if there is one."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=20) as plain,
        tls.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as secure,
    ):
        assert secure.session_reused is (session is not None)
        head = f"GET {WHOAMI} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        secure.sendall(head.encode())
        return secure.recv(64).split()[1], secure.session


async def test_an_open_stream_ends_with_the_certificate_of_its_caller(
    tmp_path: Path, authority: PeerAuthority
) -> None:
    clock, alice = ShiftedClock(), authority.client("alice")
    async with (
        secured(tmp_path, authority, clock=clock) as node,
        ClientSession() as session,
        asyncio.timeout(10),
    ):
        headers = {"Accept": "application/x-ndjson"}
        url = f"{node.url}{API}/events"
        async with session.get(url, headers=headers, ssl=node.trusting(alice)) as stream:
            opened = await stream.content.readline()
            clock.shift = Duration(400 * DAY)
            rest = [line async for line in stream.content if line.strip()]

    assert b"stream.opened" in opened
    (closed,) = rest
    assert b"stream.closed" in closed
    assert b"certificate has ended" in closed


@pytest.mark.parametrize("has_clients", [True, False])
async def test_a_certificate_of_another_authority_is_none(
    tmp_path: Path, authority: PeerAuthority, has_clients: bool
) -> None:
    mallory = PeerAuthority(tmp_path / "others").client("alice")
    async with secured(tmp_path, authority, has_clients=has_clients) as node:
        if has_clients:
            with pytest.raises(ClientError):
                await node.get(WHOAMI, mallory)
        else:
            assert (await node.get(WHOAMI, mallory))[0] == 401


# -- limits ----------------------------------------------------------------------------------------


async def test_connections_in_a_handshake_count(
    tmp_path: Path, authority: PeerAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_tls, "HANDSHAKE_S", 0.5)
    async with secured(tmp_path, authority, connections_per_address_max=3) as node:
        async with AsyncExitStack() as stack:
            for _ in range(4):
                _, writer = await asyncio.open_connection("127.0.0.1", node.port)
                stack.callback(writer.close)
            await until(lambda: node.closed("address") == 1)
            await until(lambda: node.closed("tls") == 3)
        status, _ = await node.get(WHOAMI)

    assert status == 401


async def test_a_connection_counts_once(tmp_path: Path, authority: PeerAuthority) -> None:
    async with secured(tmp_path, authority) as node, ClientSession() as session:
        name = "rota_http_connections"
        async with session.get(node.url + WHOAMI, ssl=node.trusting()) as answer:
            await answer.read()
            assert node.metric(name) == 1


# -- renewal ---------------------------------------------------------------------------------------


async def test_a_renewed_certificate_is_used_from_the_next_connection_on(
    tmp_path: Path, authority: PeerAuthority
) -> None:
    async with secured(tmp_path, authority) as node, ClientSession() as session:
        async with session.get(node.url + WHOAMI, ssl=node.trusting()) as answer:
            await answer.read()
        before = await serial_of(node)
        authority.renew("n", has_new_key=True)
        files = TlsFiles(
            authority.folder / "n.crt", authority.folder / "n.key", authority.certificate
        )
        node.tls.live.replace(read_pem(files))

        assert await serial_of(node) != before
        async with session.get(node.url + WHOAMI, ssl=node.trusting()) as answer:
            assert answer.status == 401


async def serial_of(node: Secured) -> str:
    """Return the serial number of the certificate that the node presents now."""
    _, writer = await asyncio.open_connection("127.0.0.1", node.port, ssl=node.trusting())
    try:
        certificate = writer.get_extra_info("peercert")
        return str(certificate["serialNumber"])
    finally:
        writer.close()


async def test_the_end_of_the_certificate_is_measured(
    tmp_path: Path, authority: PeerAuthority
) -> None:
    async with secured(tmp_path, authority) as node:
        measure_certificates(node.metrics, SystemClock(), {"api": node.tls.live})
        left = node.metric('rota_certificate_expiry_seconds{use="api"}')

    assert 364 * 86_400 < left < 366 * 86_400


def test_files_that_do_not_belong_together_are_refused(authority: PeerAuthority) -> None:
    one, other = authority.node("n"), authority.node("m")

    with pytest.raises(TlsFilesInvalid, match=r"n\.crt and .*m\.key cannot be used together"):
        ApiTls(TlsFiles(one.certificate, other.key, None))
