"""Requests from another node to the peer port of a node that requires keys."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path

import pytest

from contract.peers.networks import End
from rota.core.model.ids import NodeId
from rota.node.access.forwarded_principal import form_of
from rota.node.access.grants import Grants
from rota.node.access.principal import Principal
from rota.node.links.forward_proof import ForwardProofs
from rota.node.peers.forward_port import OPENING_PATH
from rota.node.peers.peer_apis import PEER, PeerApis, PeerRequest, RequestHead, Unreached
from rota.node.runtime.identity_wiring import identity_of
from rota.node.system.clock import SystemClock
from support.access_client import API, Access, Json, access_to
from support.forwarding_nodes import Everyone, credentials_of, record_of
from support.in_process import until
from support.strange_servers import Strange, hang_up, refusing, serving

RECEIVER, SENDER = credentials_of("n"), credentials_of("n2")
SENDERS = ForwardProofs(SENDER)
ANN = '{"name":"ann","subjects":["principal:ann"]}'
LISTS = f"{API}/jobs"


NINES = "9" * 5_000
ANY_ID = "0" * 16 + "-" + "0" * 14 + "-0000"


@pytest.fixture
async def access(tmp_path: Path) -> AsyncIterator[Access]:
    """A node that has the record of one other node, and the key of an administrator."""
    async with (
        PeerApis.open(Everyone(), ForwardProofs(RECEIVER)) as others,
        access_to(tmp_path, others=others) as access,
    ):
        others.set_members({SENDER.node_id: record_of(SENDER)})
        await access.init()
        await access.key("ann", "editor", "team-a")
        yield access


def forwarded(
    method: str, target: str, principal: str = ANN, body: bytes = b"", **more: str
) -> dict[str, str]:
    """Return the headers of a request that the other node forwards.

    Args:
        method: The method of the request.
        target: The path and query of the request.
        principal: The header `Rota-Principal`.
        body: The body.
        more: Further headers; underscores in their names stand for hyphens.
    """
    headers = {"Rota-Principal": principal}
    headers |= {name.replace("_", "-"): value for name, value in more.items()}
    head = RequestHead(method, target, headers)
    return {**headers, PEER: SENDERS.prove(record_of(RECEIVER), head, body)}


async def sent(
    access: Access, method: str, target: str, headers: dict[str, str], body: bytes | None = None
) -> tuple[int, Json]:
    """Return status and answer of a request to the peer port."""
    async with access.client.session.request(
        method,
        f"http://{access.client.peer_address}{target}",
        data=body,
        headers={**headers, "Content-Type": "application/json"} if body else headers,
    ) as answer:
        return answer.status, await answer.json()


@asynccontextmanager
async def others_to(address: str) -> AsyncGenerator[PeerApis]:
    """Yield what the other node uses to forward requests to this one."""
    async with PeerApis.open(Everyone(), SENDERS) as others:
        others.set_members({RECEIVER.node_id: record_of(RECEIVER, address)})
        yield others


READ = PeerRequest(method="GET", target=LISTS, headers={"Rota-Principal": ANN})


def creation_of(body: bytes) -> PeerRequest:
    """Return a forwarded request that creates a job."""
    headers = {"Rota-Principal": ANN, "Content-Type": "application/json"}
    return PeerRequest(method="POST", target=LISTS, headers=headers, body=body)


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


@pytest.mark.parametrize("runner", ["n", "n2"])
async def test_a_task_is_forwarded_with_its_attempt_and_refused_when_that_has_ended(
    access: Access, tmp_path: Path, runner: str
) -> None:
    go = tmp_path / "go"
    job = {"name": "actor", "command": f"until [ -e {go} ]; do sleep 0.02; done", "identity": True}
    await access.call(access.admin, "POST", LISTS, job)
    _, made = await access.call(access.admin, "POST", f"{LISTS}/actor/trigger", {})
    orders = access.wiring.attempts.local.orders
    await until(lambda: bool(orders))
    [order] = orders.values()
    identity = identity_of(order, NodeId(runner), now=SystemClock().now())
    task = Principal(
        name=identity.subject, grants=Grants(()), subjects=(identity.subject,), attempt=identity
    )
    target = f"{API}/executions/{made['executionId']}"

    async def read() -> int:
        return (await sent(access, "GET", target, forwarded("GET", target, form_of(task, 0))))[0]

    assert await read() == 200
    go.touch()
    await until(lambda: not orders)
    assert await read() == 401


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

    assert statuses == [403] * 5
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
    async with PeerApis.open(Everyone(), ForwardProofs(ours)) as others:
        others.set_members({RECEIVER.node_id: record_of(RECEIVER, access.client.peer_address)})
        request = PeerRequest(method="GET", target=LISTS, headers={"Rota-Principal": ANN})
        with pytest.raises(Unreached, match="does not know") as unreached:
            async with others.ask(RECEIVER.node_id, request):
                pass

    assert unreached.value.is_certain


# -- headers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "number"),
    [
        *(
            ("main", text)
            for text in ("x", "1,2", "", "0", "-1", "\xff", "\u0663", "9" * 23, NINES)
        ),
        *((name, "1") for name in ("a%2Fb", "%FF", "x" * 129)),
    ],
)
async def test_no_attempt_that_another_node_asks_for_is_too_strange(
    access: Access, task: str, number: str
) -> None:
    path = f"{API}/executions/{ANY_ID}/tasks/{task}/output"

    status, problem = await sent(access, "GET", path, forwarded("GET", path, Rota_Kept=number))

    assert 400 <= status < 500
    assert problem["code"] in ("invalid_query", "task_not_found")


@pytest.mark.parametrize("numbers", ["x", "-1", "", "9" * 23, NINES, "0,0"])
async def test_no_numbers_of_a_batch_are_too_strange(access: Access, numbers: str) -> None:
    path, body = f"{API}/executions:batch", b'{"items":[{"job":"x"},{"job":"y"}]}'
    headers = forwarded("POST", path, body=body, Rota_Items=numbers)

    _, problem = await sent(access, "POST", path, headers, body)

    assert problem["code"] == "invalid_body"


# -- the port --------------------------------------------------------------------------------------


async def test_the_port_of_the_api_takes_no_forwarded_request(access: Access) -> None:
    url = access.client.url + LISTS
    async with access.client.session.get(url, headers=forwarded("GET", LISTS)) as answer:
        assert (answer.status, (await answer.json())["code"]) == (403, "not_a_node")


@pytest.mark.parametrize("path", [LISTS, f"{API}/openapi.json", OPENING_PATH, f"{API}/nothing"])
async def test_the_peer_port_answers_nothing_without_a_proof(access: Access, path: str) -> None:
    status, problem = await sent(access, "GET", path, {})

    assert (status, problem["code"]) == (403, "not_a_node")
    assert access.refused("unproven") == 1


async def test_the_peer_port_forwards_nothing_while_the_api_is_down() -> None:
    async with End(NodeId("n")).living() as end, others_to(f"127.0.0.1:{end.port}") as others:
        with pytest.raises(Unreached, match="not ready") as unreached:
            async with others.ask(RECEIVER.node_id, READ):
                pass

    assert unreached.value.is_certain


async def test_a_connection_without_a_proof_ends_soon(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.node.links.connection_limits.STRANGER_S", 0.1)
    reader, writer = await asyncio.open_connection(*access.client.peer_address.split(":"))
    writer.write(b"GET /api/v1/jobs HTTP/1.1\r\n")

    async with asyncio.timeout(20):
        with suppress(ConnectionError):
            assert await reader.read() == b""
    writer.close()
    assert access.refused("time") == 1


async def test_a_connection_with_a_proof_has_the_limits_of_the_api(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.node.links.connection_limits.BYTES_MAX", 1_000)
    job = {"name": "large", "namespace": "team-a", "command": "x" * 20_000}
    async with others_to(access.client.peer_address) as others:
        body = json.dumps(job).encode()
        async with others.ask(RECEIVER.node_id, creation_of(body)) as answer:
            assert answer.status == 201
    assert access.refused("bytes") == 0


async def test_many_requests_at_once_exceed_no_limit(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.node.links.connection_limits.STRANGERS_PER_ADDRESS_MAX", 10)

    async def ask(others: PeerApis) -> int:
        async with others.ask(RECEIVER.node_id, READ) as answer:
            return answer.status

    async with others_to(access.client.peer_address) as others:
        statuses = await asyncio.gather(*(ask(others) for _ in range(100)))

    assert statuses == [200] * 100
    assert access.refused("connections") == 0


async def test_a_connection_is_used_for_many_requests(access: Access) -> None:
    before = access.metric("rota_http_connections")
    async with others_to(access.client.peer_address) as others:
        for _ in range(5):
            async with others.ask(RECEIVER.node_id, READ) as answer:
                await answer.read()

        assert access.metric("rota_http_connections") == before + 1


@pytest.mark.parametrize("method", ["GET", "PUT", "POST"])
async def test_no_request_is_sent_twice_if_its_connection_ends(method: str) -> None:
    strange = Strange(hang_up)
    request = PeerRequest(method=method, target=LISTS, body=None if method == "GET" else b"{}")
    async with serving(strange) as url, others_to(url.removeprefix("http://")) as others:
        with pytest.raises(Unreached) as unreached:
            async with others.ask(RECEIVER.node_id, request):
                pass

    assert len(strange.asked) == 1
    assert not unreached.value.is_certain


async def test_the_connections_to_an_earlier_process_are_not_used(access: Access) -> None:
    strange = Strange(refusing(500))
    async with serving(strange) as url, others_to(url.removeprefix("http://")) as others:
        async with others.ask(RECEIVER.node_id, READ) as answer:
            assert answer.status == 500
        others.set_members({RECEIVER.node_id: record_of(RECEIVER, access.client.peer_address)})
        async with others.ask(RECEIVER.node_id, READ) as answer:
            assert answer.status == 200
