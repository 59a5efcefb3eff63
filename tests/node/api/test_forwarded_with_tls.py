"""Requests that nodes forward with TLS: certificates of the sender and of the receiver."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from rota.node.links.forward_proof import ForwardProofs
from rota.node.peers.peer_apis import PeerApis, PeerRequest, Unreached
from rota.node.peers.peer_tls import ACCEPT, REQUIRE, PeerTls
from rota.node.system.tls_files import TlsFiles
from support.access_client import API, Access, access_to
from support.forwarding_nodes import Everyone, credentials_of, record_of
from support.peer_certificates import PeerAuthority

RECEIVER, SENDER = credentials_of("n"), credentials_of("n2")
ANN = '{"name":"ann","subjects":["principal:ann"]}'
READ = PeerRequest(method="GET", target=f"{API}/jobs", headers={"Rota-Principal": ANN})


@pytest.fixture
def authority(tmp_path: Path) -> PeerAuthority:
    return PeerAuthority(tmp_path / "certs", "prod")


def tls_of(files: TlsFiles, mode: str = REQUIRE) -> PeerTls:
    """Return TLS of a node of the cluster ``prod``."""
    return PeerTls(files, cluster="prod", mode=mode)


@asynccontextmanager
async def receiving(folder: Path, tls: PeerTls) -> AsyncGenerator[Access]:
    """Run a node with a record of the sender, and with keys."""
    others = PeerApis(Everyone(), ForwardProofs(RECEIVER), tls)
    async with access_to(folder / "data", others=others, tls=tls) as access:
        others.set_members({SENDER.node_id: record_of(SENDER)})
        await access.init()
        await access.key("ann", "editor", "team-a")
        yield access


async def status_of_forward(access: Access, sender: PeerTls | None, mode: str = REQUIRE) -> int:
    """Return the status of a request that the sender forwards.

    Args:
        access: The receiver.
        sender: TLS of the sender.
        mode: How the receiver serves TLS, by its record.

    Raises:
        Unreached: No connection was opened.
    """
    async with PeerApis.open(Everyone(), ForwardProofs(SENDER), sender) as others:
        record = replace(record_of(RECEIVER, access.client.peer_address), peer_tls=mode)
        others.set_members({RECEIVER.node_id: record})
        async with asyncio.timeout(20), others.ask(RECEIVER.node_id, READ) as answer:
            return answer.status


async def test_a_request_of_a_certified_node_is_answered(
    tmp_path: Path, authority: PeerAuthority
) -> None:
    async with receiving(tmp_path, tls_of(authority.node("n"))) as access:
        assert await status_of_forward(access, tls_of(authority.node("n2"))) == 200


@pytest.mark.parametrize("stranger", ["node", "cluster", "client"])
async def test_a_proof_with_another_certificate_is_refused(
    tmp_path: Path, authority: PeerAuthority, stranger: str
) -> None:
    match stranger:
        case "node":
            files = authority.node("n3")
        case "cluster":
            files = authority.node_of_cluster("staging", "n2")
        case _:
            files = authority.client("n2")
    async with receiving(tmp_path, tls_of(authority.node("n"))) as access:
        with pytest.raises(Unreached) as unreached:
            await status_of_forward(access, tls_of(files))

        assert access.refused("unproven") == 1
    assert unreached.value.is_certain


async def test_a_proof_without_a_certificate_is_refused(
    tmp_path: Path, authority: PeerAuthority
) -> None:
    async with receiving(tmp_path, tls_of(authority.node("n"))) as access:
        with pytest.raises(Unreached) as unreached:
            # The record states nothing, as that of an attacker would.
            await status_of_forward(access, None, mode="")

        assert access.refused("tls") > 0
    assert unreached.value.is_certain


async def test_nothing_is_forwarded_to_the_same_node_of_another_cluster(
    tmp_path: Path, authority: PeerAuthority
) -> None:
    files = authority.node_of_cluster("staging", "n")
    async with receiving(tmp_path, tls_of(files)) as access:
        with pytest.raises(Unreached, match="names another cluster") as unreached:
            await status_of_forward(access, tls_of(authority.node("n2")))

    assert unreached.value.is_certain


@pytest.mark.parametrize("has_certificate", [False, True])
async def test_a_node_that_changes_to_tls_takes_requests_with_and_without(
    tmp_path: Path, authority: PeerAuthority, has_certificate: bool
) -> None:
    sender = tls_of(authority.node("n2"), ACCEPT) if has_certificate else None
    async with receiving(tmp_path, tls_of(authority.node("n"), ACCEPT)) as access:
        assert await status_of_forward(access, sender, mode=ACCEPT) == 200


async def test_a_node_without_a_certificate_forwards_nothing_to_one_that_requires_it(
    tmp_path: Path, authority: PeerAuthority
) -> None:
    async with receiving(tmp_path, tls_of(authority.node("n"))) as access:
        with pytest.raises(Unreached, match="requires TLS") as unreached:
            await status_of_forward(access, None)

    assert unreached.value.is_certain
