"""Handshake over a connection, from each of its ends (`rota.node.links.handshake_messages`).

The dialler proves itself first, so the answerer's proof goes to members only. Each word has its own
time limit. If one end fails between two words, the other loses at most this time: there is no link
before the last word, and the dialler tries again.
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
"""For each word of the other end."""


class Socket(Protocol):
    """The part of a WebSocket that both of its ends have."""

    def receive(self, timeout: float | None = None) -> Awaitable[aiohttp.WSMessage]:
        """Return the next message."""
        ...

    def send_bytes(self, data: bytes) -> Awaitable[None]:
        """Send a message; waits while the other end does not take what was sent before."""
        ...

    def close(self, *, code: int = 1000, message: bytes = b"") -> Awaitable[bool]:
        """Close the connection in order."""
        ...


class Peer(NamedTuple):
    """The node at the other end, proven.

    Attributes:
        life: Of its process.
        version: Of the wire protocol on this link.
    """

    node_id: NodeId
    life: str
    version: int


async def dial(socket: Socket, ours: PeerCredentials, member: Member, nonce: bytes) -> Peer:
    """Agree with *member*, at whose address *socket* was opened.

    Raises:
        NotWelcome: One of the two refuses. The caller closes the connection: after its proof the
            answerer takes the link to exist, and reads no refusal.
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
            f"the process at the address of {member.node_id} has not proven to be that node: it is "
            "another process, or it has just started and its new record has not arrived yet"
        )
    version = common_version(SPOKEN, answer.versions)
    return Peer(member.node_id, answer.life, version)


async def answer(
    socket: Socket,
    ours: PeerCredentials,
    member_of: Callable[[NodeId], Member | None],
    nonce: bytes,
) -> Peer:
    """Agree with the node that opened *socket*.

    Args:
        socket: The connection.
        ours: This process.
        member_of: Returns the record of a node; None if there is none, or this node may not have
            links yet.
        nonce: Random.

    Raises:
        NotWelcome: One of the two refuses.
    """
    greeted, theirs = await _receive(socket, Hello)
    answer = encode(HelloResponse(versions=SPOKEN, life=ours.life, nonce=nonce))
    await _send(socket, answer)
    words = FirstWords(greeted, answer)
    _, proof = await _receive(socket, Proof)
    member = member_of(theirs.node_id)  # Only now: it may have arrived meanwhile.
    if member is None:
        raise NotProven(f"{theirs.node_id!r} has no record here that is current")
    if not is_proven(proof.mac, member, ours.cluster, role=DIALS, words=words):
        raise NotProven(
            f"{theirs.node_id!r} has not proven to be the process and the data directory of its "
            "record: it is another one, of another cluster perhaps, or has just started"
        )
    _check_wanted(ours, theirs)
    version = common_version(SPOKEN, theirs.versions)
    await _send(socket, encode(Proof(mac=prove(ours, ANSWERS, words))))
    return Peer(theirs.node_id, theirs.life, version)


async def refuse(socket: Socket, error: NotWelcome) -> None:
    """Send the reason for the other end."""
    await _send(socket, encode(Refusal(reason=error.sent_reason)))


def _check_wanted(ours: PeerCredentials, theirs: Hello) -> None:
    if theirs.wants != ours.node_id:
        raise NotWelcome(
            f"{theirs.node_id} looks for {theirs.wants}, and this is {ours.node_id}: the address "
            f"in the record of {theirs.wants} is not its own"
        )
    if not dials(theirs.node_id, ours.node_id):
        raise NotWelcome(f"{ours.node_id} dials {theirs.node_id}, never the reverse")


async def _receive(socket: Socket, kind: type[W]) -> tuple[bytes, W]:
    """Return the next word of the other end, as it came and decoded.

    Raises:
        NotWelcome: It refuses.
        NoCommonVersion: The word is of a version that this node does not support.
        NotProven: It sends nothing, or something else.
    """
    try:
        async with asyncio.timeout(WORD_S):
            came = await socket.receive()
    except TimeoutError as error:
        raise NotProven(f"nothing came for {WORD_S} s") from error
    if came.type is not aiohttp.WSMsgType.BINARY:
        raise NotProven("it closed the connection before it had proven who it is")
    data = bytes(cast("bytes", came.data))  # what a binary message holds
    if kind is not Proof:
        check_versions(data)
    word = decode(data)
    if not isinstance(word, kind):
        raise NotProven(f"it sent {type(word).__name__} in the place of {kind.__name__}")
    return data, word


async def _send(socket: Socket, word: bytes) -> None:
    # If the other end has hung up, the next receive reports it.
    with suppress(ConnectionError, aiohttp.ClientError):
        await socket.send_bytes(word)
