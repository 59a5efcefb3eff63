"""Links of a node to all others: dialled, accepted, and replaced.

Of two nodes the one with the lower id dials, so a pair never has two links with equal rights. A
node that dials again has lost its link, whatever the state of the other end. Addresses are those in
the member records at the coordinator.
"""

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import aiohttp
from aiohttp import web

from rota.core.decoding import UNDECODABLE
from rota.core.model.ids import NodeId, Session, ShardId
from rota.core.timing.instants import SECOND
from rota.node.coordination.coordinator import Member
from rota.node.links import handshake_messages
from rota.node.links.frames import Partials
from rota.node.links.handshake import Peer, Socket, answer, dial, refuse
from rota.node.links.handshake_messages import NotProven, NotWelcome
from rota.node.links.identity_proof import NONCE_BYTES, PeerCredentials, draw_bytes
from rota.node.links.link import CLOSE_S, SOCKET_BYTES_MAX, Link
from rota.node.links.peer_server import PATH, REPORT_S, PeerPort
from rota.node.peers import death_proof
from rota.node.peers.messages import Sent
from rota.node.system.background import beside
from rota.node.system.clock import Clock
from rota.node.system.entropy import Entropy
from rota.node.system.metrics import LinkMetrics
from rota.node.system.sampled_log import SampledLog

log = logging.getLogger(__name__)

LIVES_MAX = 4
"""Recorded processes of one node; promises to earlier ones ended long ago."""
CONNECT_S = 3.0
HANDSHAKE_BYTES_MAX = 4 << 10
"""Limit after the request: two words with their framing."""
NODE_ID_SHOWN_MAX = 64
"""Characters of a node's id in the log while the id is unproven."""
PAUSE_S = 0.05
PAUSE_S_MAX = 1.0
"""Longest pause before a node is dialled again; a change of its record ends the pause at once."""
SHORT_PAUSES = 16
"""Number of pauses of the shortest length: nodes that were all restarted are soon linked."""
STEADY_S = 5.0
"""After a link that lasted so long the pauses begin again with the shortest."""


@dataclass(slots=True)
class _Peer:
    """Another member.

    Attributes:
        has_news: Its record has changed since it was last dialled.
        dialling: The task that dials; None if the other node dials.
    """

    member: Member
    has_news: asyncio.Event = field(default_factory=asyncio.Event)
    dialling: asyncio.Task[None] | None = None


class LinkReceiver(Protocol):
    """Receiver of what links deliver (`rota.node.runtime.message_router.MessageRouter`)."""

    def receive(self, number: ShardId, sender: NodeId, message: Sent, /) -> None:
        """Handle a message of another node about a shard."""
        ...

    def linked(self, node_id: NodeId, /) -> None:
        """Handle a new link to a node."""
        ...

    def saw_death(
        self, node_id: NodeId, session: Session, left: death_proof.Left | None, /
    ) -> None:
        """Handle the proof that a node's process has ended.

        Args:
            node_id: The node.
            session: The last session of the process.
            left: The attempts that its warden still holds; None if unknown.
        """
        ...


class Links:
    """The network between real nodes (`rota.node.peers.network.Network`).

    Args:
        ours: The identity of this process.
        shard_count: The number of shards of the cluster.
        clock: Measures round trips.
        entropy: Spreads the times of repeated dials.
        metrics: Count messages, links and refusals.
    """

    def __init__(
        self,
        ours: PeerCredentials,
        *,
        shard_count: int,
        clock: Clock,
        entropy: Entropy,
        metrics: LinkMetrics,
    ) -> None:
        self._ours = ours
        self._shard_count = shard_count
        self._clock = clock
        self._entropy = entropy
        self._metrics = metrics
        self._partials = Partials()
        self._garbage_log = SampledLog(log, "peer sent garbage", now=clock.elapsed)
        metrics.partials(lambda: self._partials.size)
        self._peers: dict[NodeId, _Peer] = {}
        self._links: dict[NodeId, Link] = {}
        self._lives: dict[NodeId, deque[str]] = defaultdict(lambda: deque(maxlen=LIVES_MAX))
        """The processes of each node that had a link, with or without a link now."""
        metrics.waits(lambda: sum(link.waiting for link in self._links.values()))
        self._is_on_record = asyncio.Event()
        """Set once a view had this process's own record."""
        self._port = PeerPort(self._accept, self._hear_death, clock=clock, metrics=metrics)
        self._on_lost: dict[NodeId, set[Callable[[], None]]] = defaultdict(set)
        self._receiver: LinkReceiver
        self._session: aiohttp.ClientSession
        self._group: asyncio.TaskGroup | None = None

    @property
    def peers(self) -> tuple[NodeId, ...]:
        """The nodes to which there is a link."""
        return tuple(self._links)

    @property
    def stranger_count(self) -> int:
        """Connections to the peer port that are not links (yet)."""
        return self._port.stranger_count

    @contextmanager
    def watched(self, node_id: NodeId, on_lost: Callable[[], None]) -> Generator[None]:
        """Call *on_lost* if the link to a node is lost while the body runs."""
        self._on_lost[node_id].add(on_lost)
        try:
            yield
        finally:
            self._on_lost[node_id].discard(on_lost)

    def send(self, receiver: NodeId, shard: ShardId, message: Sent) -> None:
        """Send a message with the others of this turn; drop it without a link or without room."""
        link = self._links.get(receiver)
        if link is None:
            self._metrics.dropped("no_link")
        elif not link.send(shard, message):
            self._metrics.dropped("no_room")

    def set_members(self, members: Mapping[NodeId, Member]) -> None:
        """Update the members; only changed records have an effect."""
        for node_id in self._peers.keys() - members.keys():
            self._leave(node_id)
        own = members.get(self._ours.node_id)
        if own is not None and own.key == self._ours.key:
            self._is_on_record.set()
        for node_id, member in members.items():
            peer = self._peers.get(node_id)
            if node_id == self._ours.node_id or (peer and peer.member == member):
                continue
            if peer is None:
                peer = self._peers[node_id] = _Peer(member)
                self._begin(peer)
            peer.member = member
            peer.has_news.set()

    @asynccontextmanager
    async def running(self, host: str, port: int, receiver: LinkReceiver) -> AsyncGenerator[int]:
        """Listen on an address and keep links while the body runs; gives the port.

        There are no links before the first `set_members`, so *receiver* is not called before it.

        Args:
            host: The address to listen on.
            port: The port to listen on; 0: any free one.
            receiver: Handles the messages, new links and proofs of death.

        Raises:
            OSError: The address cannot be listened on.
        """
        self._receiver = receiver
        async with self._port.listening(host, port) as listening_port:
            try:
                async with (
                    aiohttp.ClientSession(
                        connector=aiohttp.TCPConnector(limit=0), auto_decompress=False
                    ) as self._session,
                    beside(self._keep_links()),
                    beside(self._port.report()),
                    beside(self._report()),
                ):
                    yield listening_port
            finally:
                for link in self._links.values():
                    link.give_up()

    async def _report(self) -> None:
        """Report lines about garbage that were left out of the log, until cancelled."""
        while True:
            await asyncio.sleep(REPORT_S)
            self._garbage_log.report()

    # -- members --------------------------------------------------------------------------------

    async def _keep_links(self) -> None:
        async with asyncio.TaskGroup() as self._group:
            for peer in self._peers.values():
                self._begin(peer)
            await asyncio.Event().wait()  # Until this is cancelled, and they with it.

    def _begin(self, peer: _Peer) -> None:
        is_ours = handshake_messages.dials(self._ours.node_id, peer.member.node_id)
        if self._group is not None and is_ours:
            peer.dialling = self._group.create_task(self._keep_dialling(peer))

    def _leave(self, node_id: NodeId) -> None:
        peer = self._peers.pop(node_id)
        if peer.dialling is not None:
            peer.dialling.cancel()
        elif node_id in self._links:
            self._links[node_id].give_up()

    # -- dialling -------------------------------------------------------------------------------

    async def _keep_dialling(self, peer: _Peer) -> None:
        failures, logged = 0, ""
        # Before that the others lack the key by which this process proves itself.
        await self._is_on_record.wait()
        while True:
            peer.has_news.clear()
            began_at, member = self._clock.elapsed(), peer.member
            try:
                await self._speak(*await self._dial(member))
                logged = ""
            except (NotWelcome, aiohttp.ClientError, OSError, UnicodeError) as error:
                # UnicodeError: the other node advertises an address that is not a valid name.
                why = str(error) or f"it does not answer within {CONNECT_S} s"
                if why != logged:  # While a node is down, the reason repeats every second.
                    where = {"peer": member.node_id, "address": member.peer_address}
                    log.warning("peer not reached", extra={**where, "reason": why})
                logged = why
            is_steady = self._clock.elapsed() - began_at > STEADY_S * SECOND
            failures = 0 if is_steady else failures + 1
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s(failures, self._entropy.draw())):
                    await peer.has_news.wait()
                    failures = 0

    async def _dial(self, member: Member) -> "_Agreed":
        """Connect to a peer and complete the handshake.

        Raises:
            NotWelcome: One of the two refuses.
            ClientError, OSError: There is no connection to it.
        """
        async with asyncio.timeout(CONNECT_S):
            socket = await self._session.ws_connect(
                f"http://{member.peer_address}{PATH}", max_msg_size=SOCKET_BYTES_MAX, compress=0
            )
        try:
            return _Agreed(socket, await dial(socket, self._ours, member, self._nonce()))
        except BaseException:  # Also when this node stops: nothing else has the socket yet.
            await _hang_up(socket)
            raise

    # -- being dialled --------------------------------------------------------------------------

    async def _accept(self, request: web.Request) -> web.StreamResponse:
        """Turn a request into a link, if a member sent it."""
        self._port.narrow(request, HANDSHAKE_BYTES_MAX)
        socket = web.WebSocketResponse(
            timeout=CLOSE_S, max_msg_size=SOCKET_BYTES_MAX, compress=False
        )
        try:
            await socket.prepare(request)
            peer = await self._welcome(socket, request.remote)
            if peer is not None:
                self._port.admit(request)
                await self._speak(socket, peer)
        except (aiohttp.ClientError, ConnectionError) as error:
            # It gave up waiting for this node, which was paused, and dials again.
            log.info("peer hung up", extra={"address": request.remote, "reason": str(error)})
            if not socket.prepared:
                # Not received; but returning an unprepared socket is an error.
                return web.Response(status=400)
        return socket

    async def _welcome(self, socket: web.WebSocketResponse, address: str | None) -> Peer | None:
        try:
            return await answer(socket, self._ours, self._member_of, self._nonce())
        except NotWelcome as error:
            kind = "unproven" if isinstance(error, NotProven) else "disagreed"
            self._port.refused(kind, address, str(error))
            await refuse(socket, error)
            await _hang_up(socket)
            return None

    def _member_of(self, node_id: NodeId) -> Member | None:
        """Return the record of a node that may have a link now."""
        peer = self._peers.get(node_id)
        return peer.member if peer and self._is_on_record.is_set() else None

    def _nonce(self) -> bytes:
        return draw_bytes(self._entropy, NONCE_BYTES)

    # -- proofs of death ------------------------------------------------------------------------

    async def _hear_death(self, request: web.Request) -> web.Response:
        """Accept that a process has ended if the request has the secret of the process (note 2)."""
        try:
            news, left = death_proof.decode(await request.read())
        except UNDECODABLE as error:
            return web.Response(status=400, text=f"not a proof of death: {error}\n")
        is_ours = news.cluster == self._ours.cluster
        if not is_ours or death_proof.life_of(news.secret) not in self._lives.get(news.node_id, ()):
            # This process had no link to that one, so it has promised it nothing.
            peer = ascii(news.node_id[:NODE_ID_SHOWN_MAX])
            self._port.refused("unproven", request.remote, f"the death of {peer} is not proven")
            return web.Response(status=403, text="that process had no link to this one\n")
        log.info("peer dead", extra={"peer": news.node_id, "session": news.session})
        self._receiver.saw_death(news.node_id, news.session, left)
        return web.Response(status=204)

    # -- links ----------------------------------------------------------------------------------

    async def _speak(self, socket: Socket, peer: Peer) -> None:
        """Exchange messages with a peer until the link ends."""
        node_id = peer.node_id
        link = Link(
            socket,
            peer,
            shard_count=self._shard_count,
            partials=self._partials,
            garbage_log=self._garbage_log,
            clock=self._clock,
            metrics=self._metrics,
        )
        if node_id in self._links:
            self._links[node_id].give_up()
        self._links[node_id] = link
        if peer.life not in self._lives[node_id]:
            self._lives[node_id].append(peer.life)
        log.info("peer linked", extra=peer._asdict())
        self._receiver.linked(node_id)
        with self._metrics.linked():
            try:
                why = await link.run(self._take)
                log.info("peer gone", extra={"peer": node_id, "reason": why})
            finally:
                if self._links.get(node_id) is link:
                    del self._links[node_id]
                    for on_lost in list(self._on_lost.get(node_id, ())):
                        on_lost()

    def _take(self, shard: ShardId, sender: NodeId, message: Sent) -> None:
        self._receiver.receive(shard, sender, message)


def pause_s(failures: int, draw: int) -> float:
    """Return the pause before a peer is dialled again, in seconds.

    Args:
        failures: Consecutive failures to dial it.
        draw: 64 random bits.
    """
    doublings = min(max(0, failures - SHORT_PAUSES), 10)
    longest = min(PAUSE_S * (1 << doublings), PAUSE_S_MAX)
    # Up to half of it random, so that the others do not all dial a restarted node at once.
    return longest * (1 - draw / (1 << 65))


class _Agreed(NamedTuple):
    """A connection over which two nodes have agreed to have a link."""

    socket: Socket
    peer: Peer


async def _hang_up(socket: Socket) -> None:
    with suppress(TimeoutError, ConnectionError, aiohttp.ClientError):
        async with asyncio.timeout(CLOSE_S):
            await socket.close()
