"""Proof of identity in the handshake: possession of the key in a node's member record.

Each process draws a key when it starts and writes the key to its own record at the coordinator,
which only nodes can read. Each end of a new connection proves that it has the key of its record,
which the other end has read:

    proof = HMAC-SHA256(key, role, cluster, data directory, both first words as sent)

The first words contain a fresh nonce of each end, the ids, the versions and the lives. A proof is
therefore valid for one connection only, in one direction, and no statement of either end can be
changed in transit. The proof identifies the two ends of a connection; it does not encrypt or
authenticate the messages that follow.
"""

from hashlib import sha256
from hmac import compare_digest, new

import msgspec

from rota.core.model.ids import NodeId
from rota.node.coordination.coordinator import Member
from rota.node.system.entropy import Entropy

KEY_BYTES = 32
NONCE_BYTES = 32

DIALS = b"rota peer dials"
ANSWERS = b"rota peer answers"
"""The two roles; a proof of one role is invalid for the other, so it cannot be reflected."""


class PeerCredentials(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of this process towards other nodes.

    Attributes:
        cluster: The id of the cluster.
        node_id: This node.
        store_id: The id of the data directory.
        life: The life of the process, which no other process has (`rota.node.peers.death_proof`).
        key: The key of the process; never logged, shown or sent to other nodes.
    """

    cluster: str
    node_id: NodeId
    store_id: str
    life: str
    key: bytes

    def __repr__(self) -> str:
        return f"PeerCredentials({self.node_id}, {self.store_id}, life {self.life})"


class FirstWords(msgspec.Struct, frozen=True):
    """The first word of each end, as bytes; a proof includes both."""

    dialler: bytes
    answerer: bytes


def draw_bytes(entropy: Entropy, count: int) -> bytes:
    """Return *count* random bytes; *count* must be a multiple of 8."""
    return b"".join(entropy.draw().to_bytes(8, "big") for _ in range(count // 8))


def prove(ours: PeerCredentials, role: bytes, words: FirstWords) -> bytes:
    """Return the proof of this process for a connection with these first words."""
    return _mac(ours.key, role, ours.cluster, ours.store_id, words)


def is_proven(
    proof: bytes, member: Member, cluster: str, *, role: bytes, words: FirstWords
) -> bool:
    """Return True if *proof* was made with the key and the data directory in a member's record.

    A record without a key proves nothing.
    """
    if len(member.key) != KEY_BYTES:
        return False
    return compare_digest(_mac(member.key, role, cluster, member.store_id, words), proof)


def _mac(key: bytes, role: bytes, cluster: str, store_id: str, words: FirstWords) -> bytes:
    mac = new(key, digestmod=sha256)
    for part in (role, cluster.encode(), store_id.encode(), words.dialler, words.answerer):
        # Each part has its length before it, so that no two lists of parts give the same bytes.
        mac.update(len(part).to_bytes(4, "big") + part)
    return mac.digest()
