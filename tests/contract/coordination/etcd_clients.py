"""Clients of etcd for tests: calls with usual arguments, and a lossy link."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from rota.core.model.ids import AllocationId, Epoch, NodeId, Session, ShardId
from rota.core.vocabulary.shard_configuration import Configuration, Copy, Swap, Swapped
from rota.node.coordination.coordinator import Claim, News
from rota.node.coordination.etcd import EtcdCoordinator

A, B = NodeId("node-a"), NodeId("node-b")
LONG_S = 60.0
PATIENCE_S = 30.0
HASTY_S = 1.0
"""A deadline that only a hanging etcd misses: etcd answers within milliseconds."""
Connect = Callable[..., EtcdCoordinator]


def claim(node_id: NodeId) -> Claim:
    return Claim(node_id=node_id, store_id=f"store of {node_id}", lock="lock")


async def life(coordinator: EtcdCoordinator, node_id: NodeId = A) -> Session:
    return (await coordinator.begin_session(claim(node_id), LONG_S)).session


def configuration(epoch: int, session: Session) -> Configuration:
    sync = (Copy(A, AllocationId("a1")),)
    return Configuration(epoch=Epoch(epoch), primary=A, primary_session=session, sync=sync)


def swap(shard: int, expected: Configuration | None, session: Session) -> Swap:
    fresh = configuration(expected.epoch + 1 if expected else 1, session)
    return Swap(shard=ShardId(shard), expected=expected, fresh=fresh, by=A, session=session)


async def swap_one(
    coordinator: EtcdCoordinator, expected: Configuration | None, session: Session
) -> Swapped:
    [swapped] = await coordinator.swap([swap(1, expected, session)])
    return swapped


async def configured(coordinator: EtcdCoordinator) -> Configuration | None:
    return (await coordinator.view()).configurations.get(ShardId(1))


async def steps(watch: AsyncGenerator[News], count: int) -> list[News]:
    async with asyncio.timeout(PATIENCE_S):
        return [await anext(watch) for _ in range(count)]


class LossyLink:
    """A TCP proxy in front of an etcd that can lose answers.

    Attributes:
        loses_answers: Requests are forwarded; when the answer arrives, the connection is closed.
        requests: Number of pieces of data that clients have sent.
        sent: All data that clients have sent.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.loses_answers = False
        self.requests = 0
        self.sent = b""
        self.url = ""

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator["LossyLink"]:
        """Listen on a free port."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            async with asyncio.TaskGroup() as group:
                there = group.create_task(self._pass_on(reader, far_writer))
                await self._pass_back(far_reader, writer)
                there.cancel()
        finally:
            writer.close()
            far_writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            self.requests += 1
            self.sent += data
            writer.write(data)
        writer.write_eof()

    async def _pass_back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            if self.loses_answers:
                return
            writer.write(data)
