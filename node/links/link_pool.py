"""Links of a node to all other nodes: dialled, accepted, and replaced.

Of two nodes, the one with the lower id dials, so a pair never has two links that compete. If a node
dials again, it has lost its link, so the new link replaces the old one even if the other end still
regards that one as intact. Addresses are those in the member records at the coordinator.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext

import aiohttp

from rota.core.model.ids import NodeId, ShardId
from rota.node.coordination.coordinator import Member
from rota.node.links.frames import Partials
from rota.node.links.handshake import Peer, Socket
from rota.node.links.identity_proof import PeerCredentials
from rota.node.links.known_peers import KnownPeers
from rota.node.links.link import Link
from rota.node.links.link_connector import LinkConnector, LinkReceiver
from rota.node.links.link_table import LinkTable
from rota.node.links.peer_server import REPORT_S, PeerPort
from rota.node.peers.messages import Sent
from rota.node.peers.peer_tls import PeerTls
from rota.node.system.background import beside
from rota.node.system.clock import Clock
from rota.node.system.entropy import Entropy
from rota.node.system.metrics import LinkMetrics
from rota.node.system.sampled_log import SampledLog

log = logging.getLogger(__name__)


class Links:
    """The network between real nodes (`rota.node.peers.network.Network`).

    Args:
        ours: The identity of this process.
        shard_count: The number of shards of the cluster.
        clock: Measures round trips.
        entropy: Spreads the times of repeated dials.
        metrics: Count messages, links and refusals.
        tls: The certificate of this node; None for connections without TLS.

    Attributes:
        port: The server on the peer port.
    """

    def __init__(
        self,
        ours: PeerCredentials,
        *,
        shard_count: int,
        clock: Clock,
        entropy: Entropy,
        metrics: LinkMetrics,
        tls: PeerTls | None = None,
    ) -> None:
        self._tls = tls
        self._ours = ours
        self._shard_count = shard_count
        self._clock = clock
        self._entropy = entropy
        self._metrics = metrics
        self._partials = Partials()
        self._garbage_log = SampledLog(log, "peer sent garbage", now=clock.elapsed)
        metrics.partials(lambda: self._partials.size)
        self._known = KnownPeers(ours)
        self._table = LinkTable()
        self.port = PeerPort(clock=clock, metrics=metrics, tls=tls)
        metrics.waits(lambda: self._table.waiting)

    @property
    def peers(self) -> tuple[NodeId, ...]:
        """The nodes to which there is a link."""
        return self._table.nodes

    @property
    def stranger_count(self) -> int:
        """The number of connections to the peer port that are not links, or not yet."""
        return self.port.stranger_count

    def watched(self, node_id: NodeId, on_lost: Callable[[], None]) -> AbstractContextManager[None]:
        """Call *on_lost* if the link to a node is lost while the body runs."""
        return self._table.watched(node_id, on_lost)

    def send(self, receiver: NodeId, shard: ShardId | None, message: Sent) -> None:
        """Queue a message to be sent; drop it if there is no link, or no room in the queue."""
        link = self._table.of(receiver)
        if link is None:
            self._metrics.dropped("no_link")
        elif not link.send(shard, message):
            self._metrics.dropped("no_room")

    def set_members(self, members: Mapping[NodeId, Member]) -> None:
        """Update the members; only changed records have an effect."""
        for node_id in self._known.by_id.keys() - members.keys():
            self._table.give_up(node_id)
        self._known.set_members(members)

    @asynccontextmanager
    async def running(self, host: str, port: int, receiver: LinkReceiver) -> AsyncGenerator[int]:
        """Listen on an address and keep links while the body runs; yield the port.

        There are no links before the first `set_members`, so *receiver* is not called before it.

        Args:
            host: The address to listen on.
            port: The port to listen on; 0 for any free port.
            receiver: Handles the messages, new links and proofs of death.

        Raises:
            OSError: The node cannot listen on the address.
        """
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), auto_decompress=False
        ) as session:
            connector = LinkConnector(
                self._ours,
                self._known,
                self._table,
                port=self.port,
                receiver=receiver,
                session=session,
                make_link=self._make_link,
                clock=self._clock,
                entropy=self._entropy,
                metrics=self._metrics,
                tls=self._tls,
            )
            async with self.port.listening(
                host, port, connector.accept, connector.accept_death
            ) as listening_port:
                try:
                    async with (
                        beside(connector.run()),
                        beside(self.port.report()),
                        beside(self._report()),
                        beside(self._tls.live.run()) if self._tls else nullcontext(),
                    ):
                        yield listening_port
                finally:
                    self._table.give_up_all()

    def _make_link(self, socket: Socket, peer: Peer) -> Link:
        return Link(
            socket,
            peer,
            shard_count=self._shard_count,
            partials=self._partials,
            garbage_log=self._garbage_log,
            clock=self._clock,
            metrics=self._metrics,
        )

    async def _report(self) -> None:
        """Log the number of omitted lines about garbage periodically, until cancelled."""
        while True:
            await asyncio.sleep(REPORT_S)
            self._garbage_log.report()
