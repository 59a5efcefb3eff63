"""Requests from another node to a node that requires keys: proven, forged, replayed."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, nullcontext
from hashlib import sha256
from pathlib import Path

import pytest

from rota.core.model.ids import NodeId
from rota.node.links.forward_proof import ForwardProofs
from rota.node.peers.peer_apis import PEER, PeerApis, PeerRequest, RequestHead, Unreached
from support.access_client import API, Access, Json, access_to
from support.forwarding_nodes import credentials_of, record_of

RECEIVER, SENDER = credentials_of("n"), credentials_of("n2")
SENDERS = ForwardProofs(SENDER)
ANN = '{"name":"ann","subjects":["principal:ann"]}'
LISTS = f"{API}/jobs"


class Linked:
    """There is a link to one other node."""

    def __init__(self, node_id: NodeId) -> None:
        self.peers = (node_id,)

    def watched(self, node_id: NodeId, on_lost: Callable[[], None]) -> AbstractContextManager[None]:
        """Never call *on_lost*."""
        del node_id, on_lost
        return nullcontext()


@pytest.fixture
async def access(tmp_path: Path) -> AsyncIterator[Access]:
    """A node that has the record of one other node, and the key of an administrator."""
    async with (
        PeerApis.open(Linked(SENDER.node_id), ForwardProofs(RECEIVER)) as others,
        access_to(tmp_path, others=others) as access,
    ):
        others.set_members({SENDER.node_id: record_of(SENDER)})
        await access.init()
        await access.key("ann", "editor", "team-a")
        yield access


def forwarded(method: str, target: str, principal: str = ANN, body: bytes = b"") -> dict[str, str]:
    """Return the headers of a request that the other node forwards."""
    headers = {"Rota-Forwarded": SENDER.node_id, "Rota-Principal": principal}
    head = RequestHead(method, target, headers)
    return {**headers, PEER: SENDERS.prove(record_of(RECEIVER), head, body)}


async def sent(
    access: Access, method: str, target: str, headers: dict[str, str], body: bytes | None = None
) -> tuple[int, Json]:
    """Return status and answer of a request."""
    async with access.client.session.request(
        method,
        access.client.url + target,
        data=body,
        headers={**headers, "Content-Type": "application/json"} if body else headers,
    ) as answer:
        return answer.status, await answer.json()


async def test_a_proven_request_has_the_grants_of_its_principal(access: Access) -> None:
    listed, _ = await sent(access, "GET", LISTS, forwarded("GET", LISTS))
    body = b'{"name":"nightly","namespace":"team-a","command":"true"}'
    made, _ = await sent(access, "POST", LISTS, forwarded("POST", LISTS, body=body), body)
    keys, problem = await sent(access, "GET", f"{API}/keys", forwarded("GET", f"{API}/keys"))

    assert (listed, made) == (200, 201)
    assert (keys, problem["code"]) == (403, "forbidden")


async def test_a_proven_request_without_a_principal_has_no_verbs(access: Access) -> None:
    headers = forwarded("GET", LISTS, principal='{"name":"operator"}')

    _, listed = await sent(access, "GET", LISTS, headers)
    keys, _ = await sent(access, "GET", f"{API}/keys", forwarded("GET", f"{API}/keys", "{}"))

    assert listed["items"] == []
    assert keys == 401


async def test_a_forged_request_is_refused(access: Access) -> None:
    for value in (
        f"n2 1 {sha256().hexdigest()} {'0' * 64}",
        forwarded("GET", f"{API}/keys")[PEER],
        "",
    ):
        headers = {**forwarded("GET", LISTS), PEER: value}
        status, problem = await sent(access, "GET", LISTS, headers)

        assert (status, problem["code"]) == (403, "not_a_node")


async def test_a_captured_header_is_used_for_no_other_request(access: Access) -> None:
    headers = forwarded("GET", LISTS)
    admin = '{"name":"admin","subjects":["principal:admin"]}'
    attempts: list[tuple[str, str, dict[str, str]]] = [
        ("GET", f"{API}/executions", headers),
        ("GET", f"{LISTS}?limit=1", headers),
        ("DELETE", LISTS, headers),
        ("GET", LISTS, {**headers, "Rota-Principal": admin}),
        ("GET", LISTS, {**headers, "Rota-Shards": "1"}),
    ]

    statuses = [(await sent(access, *each))[0] for each in attempts]

    assert statuses == [403, 403, 405, 403, 403]
    assert (await sent(access, "GET", LISTS, headers))[0] == 200
    assert (await sent(access, "GET", LISTS, headers))[1]["code"] == "not_a_node"


async def test_a_body_that_was_exchanged_is_refused(access: Access) -> None:
    body = b'{"name":"nightly","namespace":"team-a","command":"true"}'
    headers = forwarded("POST", LISTS, body=body)

    status, problem = await sent(access, "POST", LISTS, headers, body.replace(b"true", b"evil"))

    assert (status, problem["code"]) == (403, "not_a_node")


async def test_a_node_that_the_other_does_not_know_yet_counts_as_not_reached(
    access: Access,
) -> None:
    ours = credentials_of("n2", process=2)
    async with PeerApis.open(Linked(RECEIVER.node_id), ForwardProofs(ours)) as others:
        address = access.client.url.removeprefix("http://")
        others.set_members({RECEIVER.node_id: record_of(RECEIVER, address)})
        request = PeerRequest(method="GET", target=LISTS, headers={"Rota-Forwarded": "n2"})
        with pytest.raises(Unreached, match="does not know") as unreached:
            async with others.ask(RECEIVER.node_id, request):
                pass

    assert unreached.value.is_certain
