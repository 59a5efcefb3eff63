"""Certificates that are replaced in their files."""

import asyncio
import logging
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from rota.client.certificates.issuing import load_key
from rota.node.system import tls_files
from rota.node.system.background import beside
from rota.node.system.tls_files import (
    LiveTls,
    Pem,
    TlsFiles,
    TlsFilesInvalid,
    client_context,
    read_pem,
    server_context,
)
from support.peer_certificates import PeerAuthority


@pytest.fixture
def authority(tmp_path: Path) -> PeerAuthority:
    return PeerAuthority(tmp_path / "certs")


async def test_a_broken_file_is_reported_once_and_the_next_good_one_is_used(
    authority: PeerAuthority, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(tls_files, "LOOK_S", 0.01)
    look = asyncio.Event()

    def read_and_tell(files: TlsFiles) -> Pem:
        loop.call_soon_threadsafe(look.set)
        return read_pem(files)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(tls_files, "read_pem", read_and_tell)
    files = authority.node("n1")
    live = LiveTls("peer", files, (server_context(), client_context()))

    async with asyncio.timeout(10), beside(live.run()):
        files.key.write_bytes(b"")
        for _ in range(5):
            look.clear()
            await look.wait()
        [line] = caplog.records
        assert (line.msg, line.levelno) == ("certificate not replaced", logging.ERROR)

        authority.renew("n1", has_new_key=True)
        while "certificate replaced" not in caplog.messages:
            look.clear()
            await look.wait()


def test_an_encrypted_key_is_refused_without_a_question(authority: PeerAuthority) -> None:
    files = authority.node("n1")
    key = load_key(files.key.read_bytes())
    files.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )

    with pytest.raises(TlsFilesInvalid, match=r"n1\.crt and .*n1\.key cannot be used together"):
        LiveTls("peer", files, ())


def test_an_authority_that_is_no_text_is_refused(authority: PeerAuthority) -> None:
    files = authority.node("n1")
    file = authority.certificate
    file.write_bytes("ü".encode() + file.read_bytes())

    with pytest.raises(TlsFilesInvalid, match=r"ca\.crt is no certificate in PEM"):
        LiveTls("peer", files, ())
