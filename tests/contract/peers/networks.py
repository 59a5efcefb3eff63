"""Two networks for one suite: real links on the loopback, and the simulation's in memory."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from random import Random  # noqa: TID251 - the links of the simulation draw from one
from typing import Protocol

import aiohttp
from prometheus_client import CollectorRegistry

from rota.core.model.ids import AllocationId, Epoch, Index, NodeId, Session, ShardId
from rota.core.replication.messages import Append, Base, Fenced, Part
from rota.core.timing.instants import Instant
from rota.core.vocabulary.shard_configuration import Configuration
from rota.node.coordination.coordinator import Member
from rota.node.links import handshake
from rota.node.links.identity_proof import PeerCredentials, draw_bytes
from rota.node.links.link_pool import Links
from rota.node.peers.death_proof import Left, life_of
from rota.node.peers.messages import Sent
from rota.node.peers.peer_tls import PeerTls
from rota.node.system.clock import SystemClock
from rota.node.system.entropy import SystemEntropy
from rota.node.system.metrics import LinkMetrics
from sim.cluster.links import Links as SimulatedLinks
from sim.cluster.plan import draw_plan
from sim.loop import VirtualLoop

A, B = NodeId("a"), NodeId("b")
SHARD = ShardId(3)
SHARDS = 8
PATIENCE_S = 20.0
CONFIGURATION = Configuration(epoch=Epoch(1), primary=A, primary_session=Session("s"))

Came = tuple[ShardId | None, NodeId, Sent]


class Network(Protocol):
    """The interface of both networks in this suite."""

    received: dict[NodeId, list[Came]]

    def send(self, sender: NodeId, receiver: NodeId, message: Sent) -> None:
        """Send a message about `SHARD`."""
        ...

    @contextmanager
    def cut(self) -> Generator[None]:
        """Lose all messages between the two nodes during the block."""
        ...

    async def linked(self) -> None:
        """Wait until both nodes can send."""
        ...


Story = Callable[[Network], Coroutine[None, None, None]]


# -- messages -------------------------------------------------------------------------------------


def numbered(number: int) -> Fenced:
    """Return a small message with a distinct number."""
    return Fenced(epoch=Epoch(number))


def an_append(size: int) -> Append:
    """Return a message with an entry of *size* bytes."""
    return Append(
        configuration=CONFIGURATION,
        allocation=AllocationId("a1"),
        previous=Index(1),
        previous_hash=b"12345678",
        entries=(b"e" * size,),
        committed=Index(1),
        sent_at=Instant(5),
    )


def a_part(size: int, number: int = 0) -> Part:
    """Return a part of a snapshot with *size* bytes."""
    return Part(
        configuration=CONFIGURATION,
        allocation=AllocationId("a1"),
        replaces=None,
        since=Instant(4),
        number=number,
        base=Base(Epoch(1), Index(1), Instant(5), b"12345678"),
        rows=((b"key", b"v" * size),),
        is_last=True,
        sent_at=Instant(5),
    )


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until *is_so*, on whatever time the loop has."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():  # noqa: ASYNC110 - of many things, few of which have an event
            await asyncio.sleep(0.005)


# -- real links -----------------------------------------------------------------------------------


class End:
    """The links of a node, in successive lives on one port.

    Attributes:
        secret: Secret of its process (`rota.node.peers.death_proof`).
        credentials: Credentials of its process.
        port: Port that it listens on; 0 before the first life.
        received: Messages received in all lives.
        linked_nodes: Node of each new link, in all lives.
        deaths: Proven deaths, in all lives.
        registry: Metrics of the present life.
        tls: Certificate of the node; None without TLS.
    """

    def __init__(self, node_id: NodeId, *, cluster: str = "c", store_id: str = "") -> None:
        self.id = node_id
        self.secret = f"secret of {node_id}"
        self.credentials = PeerCredentials(
            cluster=cluster,
            node_id=node_id,
            store_id=store_id or f"store of {node_id}",
            life=life_of(self.secret),
            key=node_id.encode().ljust(32, b"."),
        )
        self.port = 0
        self.received: list[Came] = []
        self.linked_nodes: list[NodeId] = []
        self.greet: Callable[[NodeId], None] | None = None
        self.deaths: list[tuple[NodeId, Session]] = []
        self.left: Left | None = None
        self.registry = CollectorRegistry()
        self.links: Links
        self.tls: PeerTls | None = None

    @asynccontextmanager
    async def living(self) -> AsyncGenerator["End"]:
        """Run the links during the block."""
        self.registry = CollectorRegistry()
        self.links = Links(
            self.credentials,
            shard_count=SHARDS,
            clock=SystemClock(),
            entropy=SystemEntropy(),
            metrics=LinkMetrics(self.registry),
            tls=self.tls,
        )
        async with self.links.running("127.0.0.1", self.port, self) as self.port:
            yield self

    def receive(self, number: ShardId | None, sender: NodeId, message: Sent) -> None:
        """Keep a message (`rota.node.links.link_connector.LinkReceiver`)."""
        self.received.append((number, sender, message))

    def linked(self, node_id: NodeId) -> None:
        """Keep the id of a node to which there is a new link, and greet it."""
        self.linked_nodes.append(node_id)
        if self.greet is not None:
            self.greet(node_id)

    def saw_death(self, node_id: NodeId, session: Session, left: Left | None) -> None:
        """Keep a proof of death."""
        self.deaths.append((node_id, session))
        self.left = left

    def member(self, port: int = 0) -> Member:
        """Return its member record, with the address of a proxy on *port* if given."""
        address = f"127.0.0.1:{port or self.port}"
        return Member(
            node_id=self.id,
            store_id=self.credentials.store_id,
            address="",
            peer_address=address,
            key=self.credentials.key,
            peer_tls=self.tls.mode if self.tls else "",
        )

    def count(self, name: str, **labels: str) -> float:
        """Return the value of a metric; 0 if there is none."""
        return self.registry.get_sample_value(name, labels) or 0.0


def acquaint(*ends: End) -> None:
    """Give each end the records of all ends."""
    for end in ends:
        introduce(end, *ends)


def introduce(end: End, *others: End) -> None:
    """Give one end its own record and those of others."""
    end.links.set_members({each.id: each.member() for each in (end, *others)})


class Wire:
    """A TCP proxy in front of a node that can break its connections."""

    def __init__(self, target: End) -> None:
        self._target = target
        self._is_cut = False
        self._ends: set[asyncio.StreamWriter] = set()
        self.port = 0

    @asynccontextmanager
    async def laid(self) -> AsyncGenerator["Wire"]:
        """Forward connections during the block."""
        async with await asyncio.start_server(self._carry, "127.0.0.1", 0) as server:
            self.port = server.sockets[0].getsockname()[1]
            try:
                yield self
            finally:
                server.close()
                self.sever()

    @contextmanager
    def cut(self) -> Generator[None]:
        """Break all connections, and refuse new ones during the block."""
        self._is_cut = True
        self.sever()
        try:
            yield
        finally:
            self._is_cut = False

    def sever(self) -> None:
        """Break all connections."""
        for end in self._ends:
            end.transport.abort()
        self._ends.clear()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        onward = await asyncio.open_connection("127.0.0.1", self._target.port)
        self._ends |= {writer, onward[1]}
        async with asyncio.TaskGroup() as group:
            group.create_task(_pump(reader, onward[1]))
            group.create_task(_pump(onward[0], writer))


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while piece := await source.read(1 << 16):
            sink.write(piece)
            await sink.drain()
    sink.close()


class RealNetwork:
    """Two nodes on the loopback; the first dials the second through a wire."""

    def __init__(self, ends: dict[NodeId, End], wire: Wire) -> None:
        self.ends = ends
        self.received = {node_id: end.received for node_id, end in ends.items()}
        self._wire = wire

    def send(self, sender: NodeId, receiver: NodeId, message: Sent) -> None:
        """Send a message."""
        self.ends[sender].links.send(receiver, SHARD, message)

    @contextmanager
    def cut(self) -> Generator[None]:
        """Cut the wire."""
        with self._wire.cut():
            yield

    async def linked(self) -> None:
        """Wait until each has a link to the other."""
        await until(lambda: all(len(end.links.peers) == 1 for end in self.ends.values()))


def on_real_links(story: Story) -> None:
    """Run *story* on real links."""

    async def main() -> None:
        async with AsyncExitStack() as stack:
            ends = {node_id: End(node_id) for node_id in (A, B)}
            for end in ends.values():
                await stack.enter_async_context(end.living())
            wire = await stack.enter_async_context(Wire(ends[B]).laid())
            members = {A: ends[A].member(), B: ends[B].member(wire.port)}
            for end in ends.values():
                end.links.set_members(members)
            network = RealNetwork(ends, wire)
            await network.linked()
            await story(network)

    asyncio.run(main())


# -- simulated links ------------------------------------------------------------------------------


class SimulatedNetwork:
    """Two nodes in memory, on virtual time, with links that lose messages only during a cut."""

    def __init__(self, loop: VirtualLoop) -> None:
        chance = Random(1)
        self._links = SimulatedLinks(loop, chance, draw_plan(chance, (), ()))
        self._links.make_perfect()
        self.received: dict[NodeId, list[Came]] = {A: [], B: []}

    def send(self, sender: NodeId, receiver: NodeId, message: Sent) -> None:
        """Send a message."""
        came = SHARD, sender, message
        self._links.carry(sender, receiver, lambda: self.received[receiver].append(came))

    @contextmanager
    def cut(self) -> Generator[None]:
        """Cut both ways."""
        self._links.cuts |= {(A, B), (B, A)}
        try:
            yield
        finally:
            self._links.mend()

    async def linked(self) -> None:
        """Return at once: simulated nodes can always send."""


def on_simulated_links(story: Story) -> None:
    """Run *story* on simulated links."""
    loop = VirtualLoop()  # type: ignore[abstract]  # the story asks nothing else of it
    loop.run(story(SimulatedNetwork(loop)))


# -- raw connections ------------------------------------------------------------------------------


@asynccontextmanager
async def dialled(port: int) -> AsyncGenerator[aiohttp.ClientWebSocketResponse]:
    """Open a connection to a node's peer port, without a message."""
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"http://127.0.0.1:{port}/peer") as socket,
    ):
        yield socket


async def greet(socket: aiohttp.ClientWebSocketResponse, dialler: End, answerer: End) -> None:
    """Carry out the handshake over a raw connection, as *dialler* does."""
    nonce = draw_bytes(SystemEntropy(), 32)
    await handshake.dial(socket, dialler.credentials, answerer.member(), nonce)
