"""Stop of a node while clients follow endless output."""

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from pathlib import Path

import pytest
from aiohttp import ClientPayloadError, ClientSession, StreamReader, web

from rota.core.model.ids import ExecutionId, NodeId
from rota.node.api.app import make_app
from rota.node.context import NodeContext
from rota.node.coordination.coordinator import Member
from rota.node.peers.peer_apis import PeerApis, PeerRequest, Unreached
from rota.node.runtime.wiring import NodeWiring
from rota.storage.memory import MemoryStore
from support.forwarding_nodes import proofs_of
from support.in_process import running_works, save, trigger, until
from support.strange_servers import Strange, sending_lines, serving

PATIENCE_S = 20.0
"""Limit for conditions that are expected at once."""
FOR_EVER_S = 600.0


@pytest.fixture
async def wiring(tmp_path: Path) -> AsyncGenerator[NodeWiring]:
    async with running_works(MemoryStore(), tmp_path / "data") as wiring:
        yield wiring


async def test_a_follower_of_output_is_disconnected_with_incomplete_output(
    wiring: NodeWiring,
) -> None:
    execution_id = await begun(wiring, command="echo first; sleep 600")

    async with api_of(wiring.context) as api, api.following(execution_id) as answer:
        first = await answer.readline()
        await api.stop()
        with pytest.raises(ClientPayloadError):
            await answer.read()

    assert first == b"first\n"


async def test_a_follower_of_output_of_another_node_is_disconnected_too(wiring: NodeWiring) -> None:
    execution_id = await begun(wiring, type="scripted")
    await until(lambda: not wiring.context.attempts.running)
    theirs = wiring.context.config.node_id

    async with (
        serving(Strange(sending_lines("first", is_over=False))) as url,
        reaching(theirs, url) as others,
    ):
        config = dataclasses.replace(wiring.context.config, node_id=NodeId("asked"))
        context = dataclasses.replace(wiring.context, config=config, others=others)
        async with api_of(context) as api, api.following(execution_id) as answer:
            first = await answer.readline()
            await api.stop()
            with pytest.raises(ClientPayloadError):
                await answer.read()

    assert first == b"first\n"


async def begun(wiring: NodeWiring, **fields: object) -> ExecutionId:
    """Return an execution whose attempt has started."""
    shards = wiring.context.shards
    execution_id = await trigger(shards, await save(shards, "job", **fields))
    state = shards.of_id(execution_id).state
    await until(
        lambda: execution_id not in state.tasks or bool(state.tasks[execution_id]["main"].attempts)
    )
    return execution_id


class Api:
    """The API of a node with a very long limit for open requests at its stop."""

    def __init__(self, runner: web.AppRunner, session: ClientSession) -> None:
        self._runner = runner
        self._session = session

    @asynccontextmanager
    async def following(self, execution_id: ExecutionId) -> AsyncGenerator[StreamReader]:
        """Follow what its only task writes."""
        host, port = self._runner.addresses[0][:2]
        path = f"/api/v1/executions/{execution_id}/tasks/main/output?follow=1"
        async with self._session.get(f"http://{host}:{port}{path}") as answer:
            assert answer.status == 200, await answer.text()
            yield answer.content

    async def stop(self) -> None:
        """Return when it has stopped."""
        async with asyncio.timeout(PATIENCE_S):
            await self._runner.cleanup()


@asynccontextmanager
async def api_of(context: NodeContext) -> AsyncGenerator[Api]:
    """Serve *parts*."""
    app = make_app(context, lambda: 1)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=FOR_EVER_S)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with ClientSession() as session:
        api = Api(runner, session)
        try:
            yield api
        finally:
            await api.stop()


class Reached:
    """Another node that is always a member."""

    def __init__(self, node_id: NodeId) -> None:
        self.peers = (node_id,)

    def watched(self, node_id: NodeId, on_lost: Callable[[], None]) -> AbstractContextManager[None]:
        """Do nothing: it is not lost."""
        del node_id, on_lost
        return nullcontext()


@asynccontextmanager
async def reaching(node_id: NodeId, url: str) -> AsyncGenerator[PeerApis]:
    """Give the node *node_id* at *url* as the only other node."""
    address = url.removeprefix("http://")
    async with PeerApis.open(Reached(node_id), proofs_of("a")) as found:
        found.set_members(
            {node_id: Member(node_id=node_id, store_id="s", address="", peer_address=address)}
        )
        yield found


@pytest.mark.parametrize("address", ["a..b:1", f"{'a' * 64}.example:1", "host:99999"])
async def test_a_node_whose_address_is_none_is_not_reached(address: str) -> None:
    async with reaching(NodeId("b"), f"http://{address}") as others:
        with pytest.raises(Unreached) as refused:
            async with others.ask(NodeId("b"), PeerRequest(method="GET", target="/livez")):
                pass

    assert refused.value.is_certain
    assert "cannot be used" in str(refused.value)
