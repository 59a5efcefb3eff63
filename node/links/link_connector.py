"""Connections of a node to other nodes: dialled, accepted, and used until they end."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Protocol

import aiohttp
from aiohttp import web

from rota.core.decoding import UNDECODABLE
from rota.core.model.ids import NodeId, Session, ShardId
from rota.core.timing.instants import SECOND
from rota.node.coordination.coordinator import Member
from rota.node.links import handshake_messages
from rota.node.links.handshake import Peer, Socket, answer, dial, refuse
from rota.node.links.handshake_messages import NotProven, NotWelcome
from rota.node.links.identity_proof import NONCE_BYTES, PeerCredentials, draw_bytes
from rota.node.links.known_peers import KnownPeer, KnownPeers
from rota.node.links.link import CLOSE_S, SOCKET_BYTES_MAX, Link
from rota.node.links.link_table import LinkTable
from rota.node.links.peer_server import PATH, PeerPort
from rota.node.peers import death_proof
from rota.node.peers.messages import Sent
from rota.node.peers.peer_tls import PeerTls, dialling, is_certified
from rota.node.system.clock import Clock
from rota.node.system.entropy import Entropy
from rota.node.system.metrics import LinkMetrics

log = logging.getLogger(__name__)

CONNECT_S = 3.0
HANDSHAKE_BYTES_MAX = 4 << 10
"""The most bytes after the request: two words with their framing."""
NODE_ID_SHOWN_MAX = 64
"""The most characters of an unproven node id in the log."""
PAUSE_S = 0.05
PAUSE_S_MAX = 1.0
"""The longest pause before a node is dialled again; a change of its record ends the pause at
once."""
SHORT_PAUSES = 16
"""The number of pauses of the shortest length, so that nodes that all restarted are soon linked."""
STEADY_S = 5.0
"""The duration of a link after which the pauses begin again with the shortest one."""


class LinkReceiver(Protocol):
    """Receiver of the messages and events of links.

    The implementation is `rota.node.runtime.message_router.MessageRouter`.
    """

    def receive(self, number: ShardId | None, sender: NodeId, message: Sent, /) -> None:
        """Handle a message of another node, about the shard *number* or about no shard."""
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
            left: The attempts that the node's warden still holds; None if unknown.
        """
        ...


class LinkConnector:
    """The part of a node that dials and accepts links.

    Args:
        ours: The identity of this process.
        known: The other members.
        table: Gets the links.
        port: The server on the peer port.
        receiver: Handles the messages, new links and proofs of death.
        session: The HTTP session for dialled connections.
        make_link: Makes the link over a connection.
        clock: Measures the duration of links.
        entropy: Spreads the times of repeated dials.
        metrics: Count links.
        tls: The certificate of this node; None without TLS.
    """

    def __init__(
        self,
        ours: PeerCredentials,
        known: KnownPeers,
        table: LinkTable,
        *,
        port: PeerPort,
        receiver: LinkReceiver,
        session: aiohttp.ClientSession,
        make_link: Callable[[Socket, Peer], Link],
        clock: Clock,
        entropy: Entropy,
        metrics: LinkMetrics,
        tls: PeerTls | None = None,
    ) -> None:
        self._tls = tls
        self._ours = ours
        self._known = known
        self._table = table
        self._port = port
        self._receiver = receiver
        self._session = session
        self._make_link = make_link
        self._clock = clock
        self._entropy = entropy
        self._metrics = metrics

    # -- dialling -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Dial each member that this node dials, until cancelled."""
        known, dialling = self._known, dict[KnownPeer, asyncio.Task[None]]()
        async with asyncio.TaskGroup() as group:
            while True:
                known.has_changed.clear()
                peers = [peer for peer in known.by_id.values() if self._dials(peer)]
                for gone in dialling.keys() - peers:
                    dialling.pop(gone).cancel()
                for peer in peers:
                    if peer not in dialling:
                        dialling[peer] = group.create_task(self._keep_dialling(peer))
                await known.has_changed.wait()

    def _dials(self, peer: KnownPeer) -> bool:
        return handshake_messages.dials(self._ours.node_id, peer.member.node_id)

    async def _keep_dialling(self, peer: KnownPeer) -> None:
        failures, logged = 0, ""
        # Before that, the other nodes lack the key with which this process proves its identity.
        await self._known.is_on_record.wait()
        while True:
            peer.has_news.clear()
            began_at, member = self._clock.elapsed(), peer.member
            try:
                await self._speak(*await self._dial(member))
                logged = ""
            except (NotWelcome, aiohttp.ClientError, OSError, UnicodeError) as error:
                # UnicodeError: the other node advertises an address that is not a valid name.
                why = str(error) or f"the node did not answer within {CONNECT_S} s"
                if why != logged:  # While a node is down, the same error occurs every second.
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
            NotWelcome: One of the two nodes refuses the link.
            ClientError, OSError: The peer cannot be reached, or has no valid certificate.
        """
        way = dialling(self._tls, member)
        async with asyncio.timeout(CONNECT_S):
            socket = await self._session.ws_connect(
                f"{way.origin}{PATH}",
                max_msg_size=SOCKET_BYTES_MAX,
                compress=0,
                ssl=way.ssl,
                server_hostname=way.server_hostname,
            )
        try:
            if self._tls is not None and way.server_hostname is not None:
                certificate = socket.get_extra_info("peercert")
                if not self._tls.certifies(certificate, member.node_id):
                    raise NotProven(f"the certificate of {member.node_id} names another cluster")
            return _Agreed(socket, await dial(socket, self._ours, member, self._nonce()))
        except BaseException:  # Also if this is cancelled, since no other code has the socket yet.
            await _hang_up(socket)
            raise

    # -- being dialled --------------------------------------------------------------------------

    async def accept(self, request: web.Request) -> web.StreamResponse:
        """Turn a request into a link, if a member sent it."""
        self._port.narrow(request, HANDSHAKE_BYTES_MAX)
        socket = web.WebSocketResponse(
            timeout=CLOSE_S, max_msg_size=SOCKET_BYTES_MAX, compress=False
        )
        try:
            await socket.prepare(request)
            peer = await self._welcome(socket, request)
            if peer is not None:
                self._port.admit(request)
                await self._speak(socket, peer)
        except (aiohttp.ClientError, ConnectionError) as error:
            # The peer gave up waiting for this node, which was paused, and dials again.
            log.info("peer hung up", extra={"address": request.remote, "reason": str(error)})
            if not socket.prepared:
                # The peer does not receive this, but returning an unprepared socket is an error.
                return web.Response(status=400)
        return socket

    async def _welcome(self, socket: web.WebSocketResponse, request: web.Request) -> Peer | None:
        try:
            return await answer(
                socket,
                self._ours,
                self._known.member_of,
                self._nonce(),
                is_certified=lambda node_id: is_certified(self._tls, request.transport, node_id),
            )
        except NotWelcome as error:
            kind = "unproven" if isinstance(error, NotProven) else "disagreed"
            self._port.refused(kind, request.remote, str(error))
            await refuse(socket, error)
            await _hang_up(socket)
            return None

    def _nonce(self) -> bytes:
        return draw_bytes(self._entropy, NONCE_BYTES)

    # -- proofs of death ------------------------------------------------------------------------

    async def accept_death(self, request: web.Request) -> web.Response:
        """Accept the proof that a process has ended, if it has the process's secret (note 2)."""
        try:
            news, left = death_proof.decode(await request.read())
        except UNDECODABLE as error:
            return web.Response(status=400, text=f"not a proof of death: {error}\n")
        is_ours, life = news.cluster == self._ours.cluster, death_proof.life_of(news.secret)
        if not is_ours or not self._table.has_had(news.node_id, life):
            # This process had no link to that process, so it has made no promises to it.
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
        link = self._make_link(socket, peer)
        self._table.add(node_id, link, peer.life)
        log.info("peer linked", extra=peer._asdict())
        self._receiver.linked(node_id)
        with self._metrics.linked():
            try:
                why = await link.run(self._receiver.receive)
                log.info("peer gone", extra={"peer": node_id, "reason": why})
            finally:
                self._table.remove(node_id, link)


def pause_s(failures: int, draw: int) -> float:
    """Return the pause before a peer is dialled again, in seconds.

    Args:
        failures: The number of consecutive failures to dial the peer.
        draw: A random number of 64 bits.
    """
    doublings = min(max(0, failures - SHORT_PAUSES), 10)
    longest = min(PAUSE_S * (1 << doublings), PAUSE_S_MAX)
    # Up to half of the pause is random, so that not all nodes dial a restarted node at once.
    return longest * (1 - draw / (1 << 65))


class _Agreed(NamedTuple):
    """A connection over which two nodes have agreed to have a link."""

    socket: Socket
    peer: Peer


async def _hang_up(socket: Socket) -> None:
    with suppress(TimeoutError, ConnectionError, aiohttp.ClientError):
        async with asyncio.timeout(CLOSE_S):
            await socket.close()
