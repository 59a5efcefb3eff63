"""Clients of nodes with TLS: trust, certificates of clients, and errors with the remedy."""

import socket
import ssl
import struct
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from threading import Thread

import pytest

from rota.client import Client
from rota.client.errors import InvalidTls, Unreachable
from support.peer_certificates import PeerAuthority
from support.rota_program import Rota
from support.rotad import Rotad

VARIABLES = ("ROTA_CA", "ROTA_CERT", "ROTA_KEY", "ROTA_TOKEN_FILE", "ROTA_URL", "ROTA_PROFILE")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> PeerAuthority:
    return PeerAuthority(tmp_path_factory.mktemp("authority") / "certs")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, authority: PeerAuthority) -> Iterator[Rotad]:
    """A node whose API has TLS for 127.0.0.1, and needs no keys."""
    folder = tmp_path_factory.mktemp("node")
    with Rotad(folder / "data", *authority.api_flags("n")) as node:
        node.ca = authority.certificate
        yield node.start()


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def failure_of(url: str, **files: Path) -> str:
    """Return the error of a client without retries."""
    with (
        Client(url, repeats_max=0, timeout_s=10, **files) as client,  # type: ignore[arg-type]
        pytest.raises(Unreachable) as failed,
    ):
        client.version()
    return failed.value.detail


def test_a_client_trusts_the_given_authority(node: Rotad, authority: PeerAuthority) -> None:
    with Client(node.url, ca=authority.certificate) as client:
        assert client.version().node_id


def test_a_client_trusts_the_authority_of_the_variable(
    node: Rotad, authority: PeerAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_CA", str(authority.certificate))
    with Client(node.url) as client:
        assert client.version().node_id


def test_a_node_of_an_unknown_authority_is_not_trusted(node: Rotad, tmp_path: Path) -> None:
    detail = failure_of(node.url)
    assert f"no answer from {node.url}: its certificate is not trusted: self-signed" in detail
    assert "(trusted: the authorities of this system)" in detail
    assert "give the file of its authority with --ca, ca=, $ROTA_CA" in detail

    other = PeerAuthority(tmp_path / "others").certificate
    assert f"(trusted: {other})" in failure_of(node.url, ca=other)


def test_a_certificate_for_another_name_is_refused(
    tmp_path: Path, authority: PeerAuthority
) -> None:
    made = authority.node("elsewhere", "rota.example")
    flags = ("--tls-cert", str(made.certificate), "--tls-key", str(made.key))
    with Rotad(tmp_path / "data", *flags) as node:
        node.ca = authority.certificate
        node.spawn()
        node.wait_logged('"node started"')
        node.is_ready()
        detail = failure_of(node.url, ca=authority.certificate)

    assert "its certificate is for another name: " in detail
    assert "rota certs node NODE --host HOST" in detail


def test_a_client_shows_its_certificate(node: Rotad, authority: PeerAuthority) -> None:
    alice = authority.client("alice")
    both = authority.folder / "both.pem"
    both.write_bytes(alice.certificate.read_bytes() + alice.key.read_bytes())

    for cert, key in ((alice.certificate, alice.key), (both, None)):
        with Client(node.url, ca=authority.certificate, cert=cert, key=key) as client:
            assert client.version().node_id


def test_a_node_that_refuses_the_certificate_is_reported_with_its_file(
    node: Rotad, tmp_path: Path, authority: PeerAuthority
) -> None:
    eve = PeerAuthority(tmp_path / "others").client("eve")

    detail = failure_of(node.url, ca=authority.certificate, cert=eve.certificate, key=eve.key)

    assert f"may not accept the certificate in {eve.certificate}" in detail


def test_a_connection_that_is_reset_after_its_handshake_names_the_certificate(
    authority: PeerAuthority,
) -> None:
    made, alice = authority.node("resets", "127.0.0.1"), authority.client("resets-alice")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(made.certificate, made.key)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        answering = Thread(target=_reset_next, args=(listener, tls), daemon=True)
        answering.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        detail = failure_of(url, ca=authority.certificate, cert=alice.certificate, key=alice.key)
        answering.join(10)

    assert "the connection was reset; the node may not accept the certificate in" in detail


def _reset_next(listener: socket.socket, tls: ssl.SSLContext) -> None:
    """Accept a connection, read its request, and close it with a reset."""
    accepted, _ = listener.accept()
    with tls.wrap_socket(accepted, server_side=True) as connection:
        connection.recv(1 << 16)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"ca": "nothing"}, "nothing cannot be read: No such file"),
        ({"ca": "ca.key"}, r"ca\.key is no certificate in PEM"),
        ({"cert": "n.crt"}, r"n\.crt cannot be used with no other file with its key"),
        ({"cert": "n.crt", "key": "ca.key"}, r"n\.crt cannot be used with the key in .*ca\.key"),
        ({"key": "n.key"}, r"n\.key is given without a certificate"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(
    node: Rotad, authority: PeerAuthority, files: dict[str, str], problem: str
) -> None:
    with pytest.raises(InvalidTls, match=problem):
        Client(node.url, **{name: authority.folder / file for name, file in files.items()})  # type: ignore[arg-type]


def test_files_are_not_needed_without_tls() -> None:
    Client("http://127.0.0.1:1", ca="/nothing").close()


# -- commands --------------------------------------------------------------------------------------


def test_a_profile_has_the_authority(node: Rotad, authority: PeerAuthority, rota: Rota) -> None:
    ca = str(authority.certificate)

    assert rota("version", "--url", node.url, "--ca", ca).status == 0
    failed = rota("jobs", "--url", node.url)
    assert (failed.status, "$ROTA_CA" in failed.err) == (6, True)
    for key, value in (("url", node.url), ("ca", ca)):
        assert rota("config", "set", key, value).status == 0
    assert rota("jobs").status == 0
    assert "is not an absolute path" in rota("config", "set", "ca", "ca.crt").err


def test_a_file_of_a_command_that_cannot_be_used_is_named(node: Rotad, rota: Rota) -> None:
    failed = rota("jobs", "--url", node.url, "--ca", "/nothing")

    assert (failed.status, failed.err) == (
        9,
        "error: /nothing cannot be read: No such file or directory\n",
    )


def test_a_login_stores_the_authority(
    tmp_path: Path, authority: PeerAuthority, rota: Rota, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(authority.folder)
    with Rotad(tmp_path / "data", "--auth", "keys", *authority.api_flags("k")) as node:
        node.ca = authority.certificate
        node.spawn()
        node.wait_logged('"node started"')
        node.is_ready()
        token = rota("auth", "init", "--data-dir", str(tmp_path / "data")).out.strip()

        monkeypatch.setattr("sys.stdin", StringIO(token))
        assert rota("login", "--url", node.url, "--ca", "ca.crt").status == 0
        assert rota("jobs").status == 0
    assert str(authority.certificate) in rota("config", "show").out
