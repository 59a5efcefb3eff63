"""Client of the APIs of the other nodes, for forwarded requests.

The link to a node shows within seconds whether the node can be reached, so a request that waits for
a long time fails if the node is lost.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol, Self

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from rota.core.model.ids import NodeId
from rota.node.coordination.coordinator import Member

CONNECT_S = 2.0
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


class RequestProofs(Protocol):
    """Proofs that a request is from a node of the cluster (`rota.node.links.forward_proof`)."""

    def set_members(self, members: Mapping[NodeId, Member]) -> None:
        """Set the records of the members."""
        ...

    def prove(self, receiver: Member, head: RequestHead, body: bytes | None) -> str:
        """Return the header `PEER` of a request to *receiver*."""
        ...

    def proven_digest(self, head: RequestHead) -> str | None:
        """Return the SHA-256 of the body that a member has sent with this head; None without proof.

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
        session: Makes the requests; see `PeerApis.open`.

    Attributes:
        proofs: The same as the argument.
    """

    def __init__(self, reach: Reach, proofs: RequestProofs, session: aiohttp.ClientSession) -> None:
        self._reach = reach
        self.proofs = proofs
        self._session = session
        self._members: Mapping[NodeId, Member] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, reach: Reach, proofs: RequestProofs) -> AsyncGenerator[Self]:
        """Yield the APIs of the nodes in *reach*; keep connections while the body runs."""
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
            auto_decompress=False,
            # No headers are added to those of the client.
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        ) as session:
            yield cls(reach, proofs, session)

    def set_members(self, members: Mapping[NodeId, Member]) -> None:
        """Set the nodes and their addresses."""
        self._members = dict(members)
        self.proofs.set_members(self._members)

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
        try:
            url = URL(f"http://{member.address}{sent.target}", encoded=True)
        except ValueError as error:
            raise _bad_address(member, error) from error
        head = RequestHead(sent.method, url.raw_path_qs, sent.headers)
        headers = {PEER: self.proofs.prove(member, head, sent.body)}
        is_answered = False
        try:
            async with asyncio.timeout(None) as limit:
                loop = asyncio.get_running_loop()
                with self._reach.watched(node_id, lambda: limit.reschedule(loop.time())):
                    async with self._session.request(
                        sent.method,
                        url,
                        headers=CIMultiDict([*sent.headers.items(), *headers.items()]),
                        data=sent.body,
                        allow_redirects=False,
                    ) as answer:
                        if answer.headers.get(PEER) == REFUSED_PROOF:
                            raise Unreached(f"{node_id} does not know this node", is_certain=True)
                        is_answered = True
                        yield answer
        except aiohttp.ClientConnectorError as error:
            raise Unreached(f"{node_id}: {error}", is_certain=True) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            reason = str(error) or "the link to it was lost"
            raise Unreached(f"{node_id}: {reason}", is_certain=False) from error
        except ValueError as error:
            if is_answered:  # The error was raised by the caller, which reads the response.
                raise
            raise _bad_address(member, error) from error


def _bad_address(member: Member, error: ValueError) -> Unreached:
    reason = f"{member.node_id}: its address {member.address!r} cannot be used: {error}"
    return Unreached(reason, is_certain=True)
