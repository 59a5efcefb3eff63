"""Handshake over a connection, at both of its ends (`rota.node.links.handshake_messages`).

The messages of a handshake are called words. The dialler proves its identity first, so the
answerer's proof is sent to members only. Each word has its own time limit. If one end fails between
two words, the other end loses at most this time: there is no link before the last word, and the
dialler tries again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple, Protocol, TypeVar, cast

import aiohttp

from rota.core.model.ids import NodeId
from rota.node.coordination.coordinator import Member
from rota.node.links.handshake_messages import (
    SPOKEN,
    Hello,
    HelloResponse,
    NoCommonVersion,
    NotProven,
    NotWelcome,
    Proof,
    Refusal,
    check_versions,
    common_version,
    decode,
    dials,
    encode,
)
from rota.node.links.identity_proof import (
    ANSWERS,
    DIALS,
    FirstWords,
    PeerCredentials,
    is_proven,
    prove,
)

W = TypeVar("W", Hello, HelloResponse, Proof)

WORD_S = 3.0
"""The time limit of each word of the other end."""


class Socket(Protocol):
    """The methods of a WebSocket that both of its ends have."""

    def receive(self, timeout: float | None = None) -> Awaitable[aiohttp.WSMessage]:
        """Return the next message."""
        ...

    def send_bytes(self, data: bytes) -> Awaitable[None]:
        """Send a message; wait while the other end does not receive earlier messages."""
        ...

    def close(self, *, code: int = 1000, message: bytes = b"") -> Awaitable[bool]:
        """Close the connection in order."""
        ...


class Peer(NamedTuple):
    """The node at the other end, whose identity is proven.

    Attributes:
        node_id: The node.
        life: The life of the node's process.
        version: The version of the wire protocol on this link.
    """

    node_id: NodeId
    life: str
    version: int


async def dial(socket: Socket, ours: PeerCredentials, member: Member, nonce: bytes) -> Peer:
    """Complete the handshake as the dialler of *member*, at whose address *socket* was opened.

    Raises:
        NotWelcome: One of the two nodes refuses the link. The caller closes the connection; after
            its proof, the answerer regards the link as established and reads no refusal.
    """
    hello = encode(
        Hello(
            versions=SPOKEN,
            node_id=ours.node_id,
            wants=member.node_id,
            life=ours.life,
            nonce=nonce,
        )
    )
    await _send(socket, hello)
    try:
        answered, answer = await _receive(socket, HelloResponse)
    except NoCommonVersion as error:
        # The answerer waits for a proof, so it still reads a refusal.
        await refuse(socket, error)
        raise
    words = FirstWords(hello, answered)
    await _send(socket, encode(Proof(mac=prove(ours, DIALS, words))))
    _, proof = await _receive(socket, Proof)
    if not is_proven(proof.mac, member, ours.cluster, role=ANSWERS, words=words):
        raise NotProven(
            f"the process at the address of {member.node_id} has not proven that it is that node: "
            "it is another process, or it has just started and its new record has not arrived yet"
        )
    version = common_version(SPOKEN, answer.versions)
    return Peer(member.node_id, answer.life, version)


async def answer(
    socket: Socket,
    ours: PeerCredentials,
    member_of: Callable[[NodeId], Member | None],
    nonce: bytes,
    *,
    is_certified: Callable[[NodeId], bool] = lambda _: True,
) -> Peer:
    """Complete the handshake with the node that opened *socket*.

    Args:
        socket: The connection.
        ours: The identity of this process.
        member_of: Returns the record of a node; None if there is none, or if this node may not have
            links yet.
        nonce: Random bytes for this connection.
        is_certified: Returns True if the dialler's certificate names a node; always without TLS.

    Raises:
        NotWelcome: One of the two nodes refuses the link.
    """
    greeted, theirs = await _receive(socket, Hello)
    answer = encode(HelloResponse(versions=SPOKEN, life=ours.life, nonce=nonce))
    await _send(socket, answer)
    words = FirstWords(greeted, answer)
    _, proof = await _receive(socket, Proof)
    member = member_of(theirs.node_id)  # Read late, since it may have arrived in between.
    if member is None:
        raise NotProven(f"this node has no current record of {theirs.node_id!r}")
    if not is_proven(proof.mac, member, ours.cluster, role=DIALS, words=words):
        raise NotProven(
            f"{theirs.node_id!r} has not proven that it has the process and the data directory of "
            "its record: it is another node, perhaps of another cluster, or has just started"
        )
    if not is_certified(theirs.node_id):
        raise NotProven(f"the certificate of {theirs.node_id!r} names another node or cluster")
    _check_wanted(ours, theirs)
    version = common_version(SPOKEN, theirs.versions)
    await _send(socket, encode(Proof(mac=prove(ours, ANSWERS, words))))
    return Peer(theirs.node_id, theirs.life, version)


async def refuse(socket: Socket, error: NotWelcome) -> None:
    """Send the reason of a refusal to the other end."""
    await _send(socket, encode(Refusal(reason=error.sent_reason)))


def _check_wanted(ours: PeerCredentials, theirs: Hello) -> None:
    if theirs.wants != ours.node_id:
        raise NotWelcome(
            f"{theirs.node_id} wants {theirs.wants}, but this is {ours.node_id}: the address in "
            f"the record of {theirs.wants} is not its own; check its peer_advertise"
        )
    if not dials(theirs.node_id, ours.node_id):
        raise NotWelcome(f"{ours.node_id} dials {theirs.node_id}, never the reverse")


async def _receive(socket: Socket, kind: type[W]) -> tuple[bytes, W]:
    """Return the next word of the other end, as bytes and decoded.

    Raises:
        NotWelcome: The other end refuses the link.
        NoCommonVersion: The word is of a version that this node does not support.
        NotProven: The other end sends nothing in time, or something else.
    """
    try:
        async with asyncio.timeout(WORD_S):
            came = await socket.receive()
    except TimeoutError as error:
        raise NotProven(f"nothing was received for {WORD_S} s") from error
    if came.type is not aiohttp.WSMsgType.BINARY:
        raise NotProven("the other end closed the connection before it had proven its identity")
    data = bytes(cast("bytes", came.data))  # A binary message contains bytes.
    if kind is not Proof:
        check_versions(data)
    word = decode(data)
    if not isinstance(word, kind):
        raise NotProven(f"the other end sent {type(word).__name__} instead of {kind.__name__}")
    return data, word


async def _send(socket: Socket, word: bytes) -> None:
    # If the other end has hung up, the next receive reports it.
    with suppress(ConnectionError, aiohttp.ClientError):
        await socket.send_bytes(word)
