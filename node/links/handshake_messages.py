"""The words of the handshake, and the conditions under which two nodes accept each other.

    dialler                            answerer
      Hello   ------------------------->          id, wanted id, versions, life, nonce
              <------------------------- HelloResponse   versions, life, nonce
      Proof   ------------------------->          checked against the dialler's record
              <------------------------- Proof    checked against the answerer's record

Either end may send a `Refusal` in place of its next word. A refusal to an end that has not proven
its identity names no cluster, no data directory and no node.

A version is a number of the wire protocol, and each link uses the highest version that both nodes
support. Until release 0.2 a release supports its own version only, so a cluster is upgraded as a
whole; later ones support the version before, too. The additions of a version are sent only over
links of that version or a later one. Fields may be added to any message: a receiver ignores fields
that it does not have.

Each end reads the versions in the first word of the other before the rest of the word, whose form
may be that of another version. The field `versions` is therefore the same in every version.
"""

from typing import Annotated, NamedTuple

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.model.ids import NodeId
from rota.node.links.identity_proof import NONCE_BYTES

WORD_BYTES_MAX = 1_024
"""The largest word of the handshake; a `Hello` with two ids of maximum length has 500 bytes."""
ID_LENGTH_MAX = 128
REASON_LENGTH_MAX = 500

_Version = Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]
_Id = Annotated[str, msgspec.Meta(max_length=ID_LENGTH_MAX)]
_Nonce = Annotated[bytes, msgspec.Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]


class Versions(NamedTuple):
    """The versions of the wire protocol that a node supports, from the oldest to the newest."""

    oldest: _Version
    newest: _Version


SPOKEN = Versions(oldest=4, newest=4)
"""The versions that this node supports. In version 1, first words had no proof; in version 2, the
envelope of every message named a shard; in version 3, quiet shards had no
common heartbeat."""


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello"):
    """First word of the dialler.

    Attributes:
        versions: The versions that the dialler supports.
        node_id: The dialler.
        wants: The node that it dialled.
        life: The life of the dialler's process (`rota.node.peers.death_proof`).
        nonce: Random bytes for this connection.
    """

    versions: Versions
    node_id: Annotated[NodeId, msgspec.Meta(max_length=ID_LENGTH_MAX)]
    wants: Annotated[NodeId, msgspec.Meta(max_length=ID_LENGTH_MAX)]
    life: _Id
    nonce: _Nonce


class HelloResponse(msgspec.Struct, frozen=True, kw_only=True, tag="answer"):
    """First word of the answerer, without its identity."""

    versions: Versions
    life: _Id
    nonce: _Nonce


class Proof(msgspec.Struct, frozen=True, kw_only=True, tag="proof"):
    """Second word of both ends: the proof of identity (`rota.node.links.identity_proof`)."""

    mac: Annotated[bytes, msgspec.Meta(max_length=64)]


class Refusal(msgspec.Struct, frozen=True, kw_only=True, tag="refusal"):
    """The reason why there will be no link."""

    reason: Annotated[str, msgspec.Meta(max_length=REASON_LENGTH_MAX)]


Word = Hello | HelloResponse | Proof | Refusal


class NotWelcome(Exception):
    """The link is refused by one of the two ends; ``str`` is the reason for this node's log.

    Attributes:
        sent_reason: The reason that is sent to the other end.
    """

    def __init__(self, reason: str, sent_reason: str | None = None) -> None:
        super().__init__(reason)
        sent = reason if sent_reason is None else sent_reason
        self.sent_reason = sent[:REASON_LENGTH_MAX]


class NoCommonVersion(NotWelcome):
    """The two nodes support no version of the wire protocol in common."""

    def __init__(self, ours: Versions, theirs: Versions) -> None:
        advice = "until release 0.2, upgrade all nodes of a cluster together"
        super().__init__(
            f"the other node supports versions {theirs.oldest} to {theirs.newest} of the wire "
            f"protocol, and this node {ours.oldest} to {ours.newest}: {advice}",
            f"the refusing node supports versions {ours.oldest} to {ours.newest} of the wire "
            f"protocol, and the refused node {theirs.oldest} to {theirs.newest}: {advice}",
        )


class NotProven(NotWelcome):
    """The other end has not proven to be a member; the refusal states nothing about this node."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            reason,
            "the connection is not accepted: the node needs a current record at the coordinator. A "
            "node that has just started dials again until its record has arrived",
        )


class _FirstWord(msgspec.Struct, frozen=True):
    """The part of a `Hello` or a `HelloResponse` that is the same in every version."""

    versions: Versions


_first_decoder: msgspec.msgpack.Decoder[_FirstWord] = msgspec.msgpack.Decoder(_FirstWord)
_decoder: msgspec.msgpack.Decoder[Word] = msgspec.msgpack.Decoder(Word)


def encode(word: Word) -> bytes:
    """Return the bytes of a word."""
    return msgspec.msgpack.encode(word)


def decode(word: bytes) -> Hello | HelloResponse | Proof:
    """Return the word that the other end sent.

    Raises:
        NotWelcome: The other end refuses the link.
        NotProven: The bytes are not a word of the handshake.
    """
    if len(word) > WORD_BYTES_MAX:
        raise NotProven(f"a word of the handshake has {len(word)} bytes")
    try:
        found = _decoder.decode(word)
    except UNDECODABLE as error:
        raise NotProven(f"the other end does not use the protocol of nodes ({error})") from error
    if isinstance(found, Refusal):
        raise NotWelcome(f"the other end refuses: {found.reason}")
    return found


def check_versions(word: bytes) -> None:
    """Check the versions in the first word of the other end, whatever the rest of the word is.

    A word without versions is accepted here: it is a refusal, or `decode` rejects it.

    Raises:
        NoCommonVersion: This node supports none of the versions.
    """
    if len(word) > WORD_BYTES_MAX:
        return
    try:
        theirs = _first_decoder.decode(word).versions
    except UNDECODABLE:
        return
    common_version(SPOKEN, theirs)


def common_version(ours: Versions, theirs: Versions) -> int:
    """Return the highest version that both nodes support.

    Args:
        ours: The versions of this node.
        theirs: The versions of the other node.

    Raises:
        NoCommonVersion: The nodes have no version in common.
    """
    version = min(ours.newest, theirs.newest)
    if version < max(ours.oldest, theirs.oldest):
        raise NoCommonVersion(ours, theirs)
    return version


def dials(node_id: NodeId, other: NodeId) -> bool:
    """Return True if *node_id* dials *other*; of two nodes, only one dials the other."""
    return node_id < other
