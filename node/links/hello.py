"""The first words on a link: who is there, and whether the two may speak.

Both say the same: cluster, versions, and who they are; whoever dialled also says whom it wants.
Either refuses what it cannot trust, and says why, so that both logs have the reason.

A version is a number of the wire protocol. Every release speaks its own and the one before, and on
each link the highest that both speak is spoken, so N and N + 1 run in one cluster. What a version
adds is sent only where it is spoken; fields may be added to any message, for both ignore what they
do not know.
"""

from typing import NamedTuple

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.ids import NodeId


class Versions(NamedTuple):
    """The versions of the wire protocol that a node speaks, both included."""

    oldest: int
    newest: int


SPOKEN = Versions(oldest=1, newest=1)


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello"):
    """Who speaks.

    Attributes:
        cluster: The id of its cluster.
        store_id: Which data directory it has.
        life: Of its process; no two processes have the same (`rota.node.links.death`).
        wants: Whom it dialled; empty from whoever was dialled.
    """

    cluster: str
    versions: Versions
    node_id: NodeId
    store_id: str
    life: str
    wants: NodeId = NodeId("")


class Refusal(msgspec.Struct, frozen=True, kw_only=True, tag="refusal"):
    """Why the other is not spoken with."""

    reason: str


class NotWelcome(Exception):
    """The two do not speak with each other; ``str`` says why."""


_decoder: msgspec.msgpack.Decoder[Hello | Refusal] = msgspec.msgpack.Decoder(Hello | Refusal)


def encode(word: Hello | Refusal) -> bytes:
    """Return the bytes of a first word."""
    return msgspec.msgpack.encode(word)


def decode(word: bytes) -> Hello:
    """Return what the other says of itself.

    Raises:
        NotWelcome: It refuses, or is no node.
    """
    try:
        said = _decoder.decode(word)
    except UNDECODABLE as error:
        raise NotWelcome(f"it does not speak as a node does ({error})") from error
    if isinstance(said, Refusal):
        raise NotWelcome(f"it refuses: {said.reason}")
    return said


def version_with(ours: Hello, theirs: Hello) -> int:
    """Return the version that both speak, the highest if there are several.

    Raises:
        NotWelcome: There is none, or they are of another cluster.
    """
    if theirs.cluster != ours.cluster:
        raise NotWelcome(
            f"{theirs.node_id} is of cluster {theirs.cluster}, and {ours.node_id} of "
            f"{ours.cluster}: two clusters use one address, or one name in etcd was founded twice"
        )
    version = min(ours.versions.newest, theirs.versions.newest)
    if version < max(ours.versions.oldest, theirs.versions.oldest):
        raise NotWelcome(
            f"{theirs.node_id} speaks versions {theirs.versions.oldest} to "
            f"{theirs.versions.newest} of the wire protocol, and {ours.node_id} "
            f"{ours.versions.oldest} to {ours.versions.newest}: upgrade one release at a time"
        )
    return version


def check_dialled(ours: Hello, theirs: Hello, known_store_id: str | None) -> None:
    """Check who has dialled us.

    Args:
        ours: What we say.
        theirs: What they say.
        known_store_id: The data directory under which the coordinator knows them; None if it does
            not know them, or we have not heard.

    Raises:
        NotWelcome: They are not who they say, or want somebody else, or ought not to dial.
    """
    if theirs.wants != ours.node_id:
        raise NotWelcome(
            f"{theirs.node_id} looks for {theirs.wants}, and this is {ours.node_id}: the address "
            f"that {theirs.wants} has told is not its own"
        )
    if not dials(theirs.node_id, ours.node_id):
        raise NotWelcome(f"{theirs.node_id} is to be dialled by {ours.node_id}, not to dial it")
    check_store(theirs, known_store_id)


def check_answered(dialled: NodeId, theirs: Hello, known_store_id: str | None) -> None:
    """Check who has answered our call; see `check_dialled`."""
    if theirs.node_id != dialled:
        raise NotWelcome(
            f"{theirs.node_id} answers at the address of {dialled}: it is not {dialled}'s own"
        )
    check_store(theirs, known_store_id)


def check_store(theirs: Hello, known_store_id: str | None) -> None:
    """Refuse a node that comes with another data directory than the one that is its own."""
    if known_store_id not in (None, theirs.store_id):
        raise NotWelcome(
            f"{theirs.node_id} comes with data directory {theirs.store_id}, and is known with "
            f"{known_store_id}: two nodes have one id, or the news of its new one is on its way"
        )


def dials(node_id: NodeId, other: NodeId) -> bool:
    """Tell whether *node_id* is the one of the two that dials: so they never both do."""
    return node_id < other
