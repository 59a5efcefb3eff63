"""Client of the APIs of the other nodes, for forwarded requests.

Requests go to the peer ports. The link to a node shows within seconds whether the node can be
reached, so a request that waits for a long time fails if the node is lost.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol, Self

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from rota.core.model.ids import NodeId
from rota.node.coordination.coordinator import Member
from rota.node.peers.forward_port import OPENING_PATH
from rota.node.peers.peer_connections import MemberConnections, NotOpened
from rota.node.peers.peer_tls import PeerTls, dialling, is_certified

PEER = "Rota-Peer"
"""The header of a request from another node, which proves this; or of the refusal of the proof."""
REFUSED_PROOF = "refused"
"""The value of `PEER` in a response: the node has no valid proof, and has done nothing."""


class Reach(Protocol):
    """The nodes that can be reached."""

    @property
    def peers(self) -> tuple[NodeId, ...]:
        """The nodes to which there is a link now."""
        ...

    def watched(self, node_id: NodeId, on_lost: Callable[[], None]) -> AbstractContextManager[None]:
        """Call *on_lost* if a node is lost while the body runs."""
        ...


@dataclass(frozen=True, slots=True)
class RequestHead:
    """What a proof covers of a request, besides the SHA-256 of its body.

    Attributes:
        method: The HTTP method.
        target: The path and query, as sent.
        headers: The headers.
    """

    method: str
    target: str
    headers: Mapping[str, str]


class Proven(NamedTuple):
    """A request that is from a node of the cluster.

    Attributes:
        sender: The node.
        digest: The SHA-256 of the body that it has sent, in hexadecimal digits.
    """

    sender: NodeId
    digest: str


class RequestProofs(Protocol):
    """Proofs that a request is from a node of the cluster (`rota.node.links.forward_proof`)."""

    def set_members(self, members: Mapping[NodeId, Member]) -> None:
        """Set the records of the members."""
        ...

    def prove(self, receiver: Member, head: RequestHead, body: bytes | None) -> str:
        """Return the header `PEER` of a request to *receiver*."""
        ...

    def proven(self, head: RequestHead) -> Proven | None:
        """Return the member that has sent this head; None without proof.

        A proof is accepted once.
        """
        ...


class Unreached(Exception):
    """A node did not respond.

    Attributes:
        is_certain: Whether the request certainly did not reach the node.
    """

    def __init__(self, reason: str, *, is_certain: bool) -> None:
        super().__init__(reason)
        self.is_certain = is_certain


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRequest:
    """A request to another node.

    Attributes:
        method: The HTTP method.
        target: The path and query, percent-encoded.
        headers: The headers; no others are added.
        body: The body; None for no body.
    """

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None


class PeerApis:
    """The APIs of the other nodes.

    Args:
        reach: Has the nodes that can be reached.
        proofs: Proves to other nodes that the requests are from this node, and the reverse.
        tls: The certificate of this node; None without TLS.
    """

    def __init__(self, reach: Reach, proofs: RequestProofs, tls: PeerTls | None = None) -> None:
        self._reach = reach
        self._proofs = proofs
        self._tls = tls
        self._members: Mapping[NodeId, Member] = {}
        self._connections: dict[NodeId, MemberConnections] = {}

    @classmethod
    @asynccontextmanager
    async def open(
        cls, reach: Reach, proofs: RequestProofs, tls: PeerTls | None = None
    ) -> AsyncGenerator[Self]:
        """Yield the APIs of the nodes in *reach*; keep connections while the body runs."""
        apis = cls(reach, proofs, tls)
        try:
            yield apis
        finally:
            for each in apis._connections.values():
                await each.close()

    def set_members(self, members: Mapping[NodeId, Member]) -> None:
        """Set the nodes and their addresses."""
        self._members = dict(members)
        self._proofs.set_members(self._members)

    def proven(self, head: RequestHead, transport: asyncio.BaseTransport | None) -> Proven | None:
        """Return the member that has sent this head over a connection; None without proof.

        With TLS the certificate of the other end has to name that member, too.
        """
        proven = self._proofs.proven(head)
        if proven is None or not is_certified(self._tls, transport, proven.sender):
            return None
        return proven

    @property
    def reached(self) -> tuple[NodeId, ...]:
        """The nodes to which a request can be sent now."""
        return tuple(each for each in self._reach.peers if each in self._members)

    @asynccontextmanager
    async def ask(
        self, node_id: NodeId, sent: PeerRequest
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """Send a request to a node; the body reads the response while the node can be reached.

        Raises:
            Unreached: The node does not respond, or its response is cut off; or the records of
                nodes have changed so recently that it does not know this node.
        """
        member = self._members.get(node_id)
        if member is None or node_id not in self._reach.peers:
            raise Unreached(f"{node_id} cannot be reached", is_certain=True)
        connections = await self._connections_to(member)
        is_sent = False
        try:
            async with asyncio.timeout(None) as limit:
                loop = asyncio.get_running_loop()
                with self._reach.watched(node_id, lambda: limit.reschedule(loop.time())):
                    async with connections.connection() as connection:
                        url = URL(f"{connection.way.origin}{sent.target}", encoded=True)
                        head = RequestHead(sent.method, url.raw_path_qs, sent.headers)
                        headers = {PEER: self._proofs.prove(member, head, sent.body)}
                        is_sent = True
                        async with connection.session.request(
                            sent.method,
                            url,
                            headers=CIMultiDict([*sent.headers.items(), *headers.items()]),
                            data=sent.body,
                            allow_redirects=False,
                            ssl=connection.way.ssl,
                            server_hostname=connection.way.server_hostname,
                        ) as answer:
                            if answer.headers.get(PEER) == REFUSED_PROOF:
                                reason = f"{node_id} does not know this node"
                                raise Unreached(reason, is_certain=True)
                            yield answer
        except NotOpened as error:
            raise Unreached(f"{node_id}: {error}", is_certain=True) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            reason = str(error) or "the link to it was lost"
            raise Unreached(f"{node_id}: {reason}", is_certain=not is_sent) from error

    async def _connections_to(self, member: Member) -> MemberConnections:
        """Return the connections to a member; those to an earlier process of it are closed.

        Raises:
            Unreached: One of both nodes has no TLS, and the other one requires it.
        """
        found = self._connections.get(member.node_id)
        if found is not None and _is_same_process(found.member, member):
            return found
        try:
            way = dialling(self._tls, member)
        except OSError as error:
            raise Unreached(str(error), is_certain=True) from error
        made = MemberConnections(member, way, self._tls, partial(self._opening_headers, member))
        self._connections[member.node_id] = made
        if found is not None:
            await found.close()
        return made

    def _opening_headers(self, member: Member) -> dict[str, str]:
        return {PEER: self._proofs.prove(member, RequestHead("GET", OPENING_PATH, {}), None)}


def _is_same_process(one: Member, other: Member) -> bool:
    return (one.key, one.store_id, one.peer_address, one.peer_tls) == (
        *(other.key, other.store_id, other.peer_address, other.peer_tls),
    )
